"""Answers of others that are kept for a while, so that many requests of ours are few of theirs.

One caller asks for an answer at a time, and others who want it wait for that. An error of the kind that is kept
answers for some seconds, too: what is away is not asked by everybody in turn.
"""

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
        """Return the answer of this name that came after `since` (of `time.monotonic`), or ask for one.

        Raises what `ask` raises, and an error of the kind `errors` again for `ERROR_SECONDS`.
        """
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
