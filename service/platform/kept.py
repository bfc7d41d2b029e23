"""Keep others' answers for a while, to ask them rarely. One caller asks at a time and others wait. Errors of a kept
kind also answer for some seconds, so that an absent service is not asked in turn."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Found = TypeVar("Found")
# An error answers for so long.
ERROR_SECONDS = 3.0
MOST = 256


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    came_at: float = float("-inf")
    answer: Any = None
    error: Exception | None = None


class Kept:
    """Answers by name, in the memory of one process: the `MOST` that were asked for last."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    async def get(
        self, name: Hashable, ask: Callable[[], Awaitable[Found]], *, since: float, errors: type[Exception]
    ) -> Found:
        """Return the answer of this name from after `since` (`time.monotonic`), or ask for one. Raises what `ask`
        raises; errors of the kind `errors` repeat for `ERROR_SECONDS`."""
        entry = self._entries.setdefault(name, _Entry())
        self._entries.move_to_end(name)
        while len(self._entries) > MOST:
            self._entries.popitem(last=False)
        async with entry.lock:
            oldest = since if entry.error is None else max(since, time.monotonic() - ERROR_SECONDS)
            if entry.came_at < oldest:
                # An older answer stays until there is another one: this request may be cancelled.
                try:
                    entry.answer, entry.error = await ask(), None
                except errors as error:
                    entry.answer, entry.error = None, error
                entry.came_at = time.monotonic()
            if entry.error is not None:
                raise entry.error
            return entry.answer
