"""Waiting for an unavailable service. A failed call counts against the document only after a successful probe."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from carrel import AsyncPager
from carrel.errors import LONGEST_RETRY_AFTER, APIConnectionError, APIError, APITimeoutError, NotFoundError
from carrel.wire.common import PagedResponse, ResponseModel
from flows.errors import FlowError, RefusedError, ServiceDownError, StorageFullError
from flows.operations.ledger.rows import Sent, State

if TYPE_CHECKING:
    from flows.operations.backlog import BusyNotice

T = TypeVar("T")
Item = TypeVar("Item", bound=ResponseModel)
Page = TypeVar("Page", bound=PagedResponse)
Probe = Callable[[], Awaitable[object]]

BUSY = frozenset({429, 503})
BACKLOG_SECONDS = 3600.0
"""The longest time, in seconds, for a service to refuse all calls because of the indexing backlog."""
_STORAGE_FULL = "storage_full"
_ATTEMPTS = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
# Between two attempts at a document, while the service answers others.
_LONGEST_RETRY_PAUSE = 4.0
_AWAY = BUSY | {408, 502, 504}
# 403 codes about a document, its readers or its collection; any other 403 is about the caller.
_DOCUMENT_CODES = frozenset({"external_id_taken", "owner_required", "collection_editor_required"})


class OutagePolicy:
    """The waiting rule shared by the workers of a run; `seconds` is the longest tolerated outage."""

    def __init__(self, *, seconds: float, probe: Probe, notice: "BusyNotice | None" = None) -> None:
        self._seconds = seconds
        self._probe = probe
        self._notice = notice
        self._away_since: float | None = None

    async def call(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run a repeatable operation, waiting while the service is away or busy. Raises ServiceDownError, RefusedError,
        StorageFullError, or the operation's own error about the sent data."""
        try:
            return await self._call(operation)
        finally:
            if self._notice is not None:
                self._notice.end()

    async def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        attempt, pause = 0, _FIRST_PAUSE
        while True:
            try:
                result = await operation()
            except (APIConnectionError, APIError) as exc:
                if not (_code(exc) != _STORAGE_FULL and (_is_away(exc) or getattr(exc, "status", 0) >= 500)):
                    self._away_since = None  # a service that refuses a document is available
                    raise _for_the_caller(exc) from exc
                if isinstance(exc, APIError) and exc.status in BUSY:
                    await self._wait_retry_after(exc, pause=pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                attempt += 1 if not isinstance(exc, APITimeoutError) else _ATTEMPTS // 2
                if attempt >= _ATTEMPTS:
                    raise
                await self._until_back(attempt)
            else:
                self._away_since = None
                return result

    async def _wait_retry_after(self, exc: APIError, *, pause: float) -> None:
        self._give_up_in_time(exc)
        seconds = min(exc.retry_after, LONGEST_RETRY_AFTER) if exc.retry_after else pause
        if self._notice is not None:
            await self._notice.begin(exc, seconds=seconds)
        if exc.retry_after is None:
            await _pause(seconds)
        else:  # at least this long, plus a random time, so that workers don't all return at once
            jitter = random.uniform(0.0, min(0.1 * seconds, 1.0))  # noqa: S311 - no secret
            await asyncio.sleep(seconds + jitter)

    async def _until_back(self, attempt: int) -> None:
        pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_RETRY_PAUSE)
        while True:
            await _pause(pause)
            try:
                await self._probe()
            except (APIConnectionError, APIError) as exc:
                if not _is_away(exc):
                    raise _for_the_caller(exc) from exc
                self._give_up_in_time(exc)
                pause = min(pause * 2, _LONGEST_PAUSE)
                if self._notice is not None:
                    await self._notice.begin(exc, seconds=pause)
            else:
                self._away_since = None
                if self._notice is not None:
                    self._notice.end()
                return

    def _give_up_in_time(self, exc: APIConnectionError | APIError) -> None:
        now = time.monotonic()
        self._away_since = self._away_since or now
        seconds = max(self._seconds, BACKLOG_SECONDS) if _code(exc) == "indexing_backlog" else self._seconds
        if now - self._away_since > seconds:
            busy = isinstance(exc, APIError) and exc.status in BUSY
            state = "accepted nothing" if busy else "not answered"
            msg = f"The service has {state} for {seconds:.0f} s ({exc}). Run again to continue from here."
            raise ServiceDownError(msg) from exc


async def walk_pages(
    outages: OutagePolicy, list_from: Callable[[str | None], AsyncPager[Item, Page]]
) -> AsyncGenerator[Page]:
    """Yield the pages of a list, which is listed from a token; after an outage only the failed page is listed again."""
    token: str | None = None
    while True:
        page = await outages.call(partial(read_first_page, list_from(token)))
        yield page
        if (token := page.next_page_token) is None:
            return


async def read_first_page(listed: AsyncPager[Item, Page]) -> Page:
    return await anext(listed.pages())


async def poll(
    outages: OutagePolicy,
    read: Callable[[], Awaitable[T]],
    *,
    is_done: Callable[[T], bool],
    on_update: Callable[[T], Awaitable[None]] | None,
    longest_pause: float,
    gone: FlowError,
) -> T:
    """Read a state until `is_done`, passing each state to `on_update`. Raises `gone` when there is none anymore."""
    pauses = growing_pauses(0.2, factor=1.3, longest=longest_pause)
    while True:
        try:
            now = await outages.call(read)
        except NotFoundError as exc:
            raise gone from exc
        if on_update is not None:
            await on_update(now)
        if is_done(now):
            return now
        await asyncio.sleep(next(pauses))


def growing_pauses(first: float, *, factor: float, longest: float) -> Iterator[float]:
    """Yield the seconds to wait between polls: each pause is `factor` times the previous pause, up to `longest`."""
    pause = first
    while True:
        yield pause
        pause = min(pause * factor, longest)


async def _pause(seconds: float) -> None:
    """Wait about so long, at random: workers must not all return at once."""
    await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret


def _code(exc: Exception) -> str:
    return getattr(exc, "code", "")


def _is_away(exc: Exception) -> bool:
    return isinstance(exc, APIConnectionError) or getattr(exc, "status", 0) in _AWAY


def _for_the_caller(exc: Exception) -> Exception:
    """Return StorageFullError, RefusedError for a refusal of the caller, or else the same error."""
    status, code = getattr(exc, "status", 0), _code(exc)
    if code == _STORAGE_FULL:
        message = getattr(exc, "message", str(exc))
        return StorageFullError(f"The service is out of space: {message} Sent documents stay. Run again for the rest.")
    if status == 401:
        return RefusedError(f"The service does not accept the API key ({exc}). Set CARREL_API_KEY and run again.")
    if status == 403 and code not in _DOCUMENT_CODES:
        return RefusedError(f"The service does not allow this ({exc}). Use another key, and run again.", reason=code)
    return exc


_START = 4
_QUICK_SECONDS = 5.0
# After this time the next document is sent, so that a slow document delays no other.
_LONG_SECONDS = 20.0


class Pace:
    """The number of documents sent at a time, up to `most`. Quick answers raise it; a busy service halves it, as in
    RFC 5681, section 3.1."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._allowed = float(min(_START, most))
        self._is_probing = True  # without signs of overload, the number doubles with each round of answers
        self._counted = 0
        self._closed_until = 0.0
        self._slowed_at = 0.0
        self._room = asyncio.Event()

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    async def run(self, send: Callable[[], Awaitable[Sent]]) -> Sent:
        """Send a document in turn, and adjust the pace by duration and the service's response."""
        await self._take_turn()
        turn = ExitStack()  # a turn is given back once, whether the document takes long or has arrived
        turn.callback(self._give_back)
        long = asyncio.get_running_loop().call_later(_LONG_SECONDS, turn.close)
        began = time.monotonic()
        try:
            sent = await send()
        except APIError as exc:
            if exc.status in BUSY:
                self._slow_down(began, wait=exc.retry_after or 0.0)
            raise
        except APITimeoutError:
            self._slow_down(began)
            raise
        else:
            self._learn(began, sent)
            return sent
        finally:
            long.cancel()
            turn.close()

    async def _take_turn(self) -> None:
        while True:
            wait = self._closed_until - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            elif self._counted < self.allowed:
                break
            else:
                self._room.clear()
                await self._room.wait()
        self._counted += 1

    def _give_back(self) -> None:
        self._counted -= 1
        self._room.set()

    def _learn(self, began: float, sent: Sent) -> None:
        is_quick = time.monotonic() - began <= _QUICK_SECONDS
        if sent.state is State.UPLOADED:
            # Indexing lags behind uploads: sending more at a time would only lengthen the backlog.
            if not is_quick:
                self._slow_down(began)
        elif is_quick:
            self._allowed = min(self._most, self._allowed + (1.0 if self._is_probing else 1.0 / self._allowed))
            self._room.set()

    def _slow_down(self, began: float, *, wait: float = 0.0) -> None:
        """Halve the number, once for all documents sent at the same time, and pause sending for `wait` seconds."""
        now = time.monotonic()
        self._closed_until = max(self._closed_until, now + min(wait, LONGEST_RETRY_AFTER))
        self._is_probing = False
        if began >= self._slowed_at:
            self._slowed_at = now
            self._allowed = max(1.0, self._allowed / 2)
