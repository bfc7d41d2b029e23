"""Waiting for a service that is away, and telling that apart from a document it can't take.

A call that found nobody there is not counted against its document: first a probe (a call that does nothing) must have
got through. So a restart of the service costs time only, and a document that brings its connection down each time is
given up after a few attempts.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from carrel.errors import APIConnectionError, APIError
from flows.errors import RefusedError, ServiceDownError

T = TypeVar("T")
Probe = Callable[[], Awaitable[object]]

_ATTEMPTS = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
_AWAY = frozenset({408, 429, 502, 503, 504})
# The service has too much to do, which is no document's fault: it is never counted as an attempt.
_BUSY = frozenset({429, 503})
# What 403 can say about one document, its readers or its collection; any other 403 is about the caller.
_DOCUMENT_CODES = frozenset({"external_id_taken", "owner_required", "collection_editor_required"})


class Patience:
    """The waiting that the workers of one run share; `seconds` is how long the service may be away."""

    def __init__(self, *, seconds: float, probe: Probe) -> None:
        self._seconds = seconds
        self._probe = probe
        self._away_since: float | None = None

    async def call(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may safely be run again; wait while the service is away or has too much to do.

        Raises ServiceDownError when that lasts too long, RefusedError when it refuses the caller, and the operation's
        own error when it is about what was sent, or when it keeps failing though the service is there.
        """
        attempt, pause = 0, _FIRST_PAUSE
        while True:
            try:
                result = await operation()
            except (APIConnectionError, APIError) as exc:
                if not _may_pass(exc):
                    raise _for_the_caller(exc) from exc
                if _is_busy(exc):
                    self._give_up_in_time(exc)
                    await _pause(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                attempt += 1
                if attempt >= _ATTEMPTS:
                    raise
                await self._until_back(attempt)
            else:
                self._away_since = None
                return result

    async def _until_back(self, attempt: int) -> None:
        pause = _FIRST_PAUSE * 2 ** (attempt - 1)
        while True:
            await _pause(min(pause, _LONGEST_PAUSE))
            try:
                await self._probe()
            except (APIConnectionError, APIError) as exc:
                if not _is_away(exc):
                    raise _for_the_caller(exc) from exc
                self._give_up_in_time(exc)
                pause *= 2
            else:
                self._away_since = None
                return

    def _give_up_in_time(self, exc: Exception) -> None:
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > self._seconds:
            msg = f"The service has been away for {self._seconds:.0f} s ({exc}). Run again: the run goes on from here."
            raise ServiceDownError(msg) from exc


async def _pause(seconds: float) -> None:
    """Wait about so long; not all workers exactly as long."""
    await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret


def _is_busy(exc: Exception) -> bool:
    return getattr(exc, "status", 0) in _BUSY


def _is_away(exc: Exception) -> bool:
    return isinstance(exc, APIConnectionError) or getattr(exc, "status", 0) in _AWAY


def _may_pass(exc: Exception) -> bool:
    return _is_away(exc) or getattr(exc, "status", 0) >= 500


def _for_the_caller(exc: Exception) -> Exception:
    """Return the error that stops the run when the service refuses the caller, else the error itself."""
    status, code = getattr(exc, "status", 0), getattr(exc, "code", "")
    if status == 401:
        return RefusedError(f"The service does not accept the API key ({exc}). Set CARREL_API_KEY and run again.")
    if status == 403 and code not in _DOCUMENT_CODES:
        return RefusedError(f"The service does not allow this ({exc}). Use a key that may, and run again.")
    return exc
