"""How many documents a run has on their way at a time: as many as the service takes in its stride.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681, section 3.1): each quick answer lets a little more
on its way, and a service that is busy halves the number and is left alone for as long as it asks for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from carrel.errors import LONGEST_RETRY_AFTER, APIError, APITimeoutError
from flows.operations.ledger.states import State
from flows.operations.sent import Sent

BUSY = frozenset({429, 503})
"""Statuses by which the service says that it has too much to do."""
_START = 4
_QUICK_SECONDS = 5.0
# A document on its way for longer than that makes room for the next one: whatever holds it, it holds no other.
_LONG_SECONDS = 20.0


class Pace:
    """The number of documents being sent at a time, which the workers of one batch share; at most `most`."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._allowed = float(min(_START, most))
        self._is_probing = True  # no sign of too much yet: the number doubles with each round of answers
        self._counted = 0
        self._closed_until = 0.0
        self._slowed_at = 0.0
        self._room = asyncio.Event()

    @property
    def allowed(self) -> int:
        """How many documents may be sent at a time now, without those that take long."""
        return int(self._allowed)

    async def run(self, send: Callable[[], Awaitable[Sent]]) -> Sent:
        """Send a document when it is its turn, and adjust the pace by its duration and the service's response."""
        await self._take_turn()
        turn = _Turn(self._give_back)
        long = asyncio.get_running_loop().call_later(_LONG_SECONDS, turn.end)
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
            turn.end()

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
            # Stored, and its indexing left behind: more at a time would only wait there.
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


class _Turn:
    """A document's turn, which is returned once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def end(self) -> None:
        """Return the turn, unless that is done."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()
