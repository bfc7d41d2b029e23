"""Turns at indexing: the number of documents at a time, and the order. Organizations alternate, and small and large
documents, oldest first. A large document yields after every slice. Rebuilds come last, except every few turns."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from uuid import UUID

# Several turns, because a turn mostly waits for the embedder, which batches waiting texts.
TURNS = 8
# The most turns for long work, so that a small document starts at once.
LONG_TURNS = 4
TURN_OF_REBUILDS = 8
MOST_REMEMBERED = 1000
# A packed text of this size is large: about as many chunks as a turn embeds.
LARGE_BYTES = 16 * 1024


class Lane(StrEnum):
    """A kind of documents with a separate line for turns: by size, or for a rebuild."""

    SMALL = "small"
    LARGE = "large"
    REBUILD = "rebuild"


def lane_of(packed_bytes: int) -> Lane:
    return Lane.SMALL if packed_bytes < LARGE_BYTES else Lane.LARGE


@dataclass(eq=False, slots=True)
class Turn:
    """A document's place in its organization's lane; `number` is the age, lowest for the oldest."""

    organization_id: UUID
    lane: Lane
    number: int
    held_in: Lane | None = None
    granted: "asyncio.Future[None] | None" = None


@dataclass(slots=True)
class Turns:
    """The holders of turns at indexing, and the documents waiting for a turn."""

    turns: int = TURNS
    long_turns: int = LONG_TURNS
    _numbers: Iterator[int] = field(default_factory=count)
    _held: list[Turn] = field(default_factory=list[Turn])
    _waiting: list[Turn] = field(default_factory=list[Turn])
    _served: dict[UUID, int] = field(default_factory=dict[UUID, int])
    _last_lane: dict[UUID, Lane] = field(default_factory=dict[UUID, Lane])
    _grants: int = 0

    @property
    def held(self) -> int:
        return len(self._held)

    def count_held(self, organization_id: UUID) -> int:
        """Count an organization's turns that end soon: a large document takes many."""
        return sum(each.organization_id == organization_id and each.held_in is not Lane.LARGE for each in self._held)

    @property
    def are_exhausted(self) -> bool:
        return bool(self._waiting) or len(self._held) >= self.turns

    def enqueue(self, organization_id: UUID, lane: Lane) -> Turn:
        return Turn(organization_id, lane, next(self._numbers))

    @asynccontextmanager
    async def take(self, turn: Turn) -> AsyncGenerator[None]:
        """Wait for a turn, and hold the turn until the block ends."""
        await self._acquire(turn)
        try:
            yield
        finally:
            self._release(turn)

    async def pass_on(self, turn: Turn) -> None:
        """Give up a held turn when another document waits, and wait for the next turn."""
        if self._waiting or turn.lane is not turn.held_in:
            self._release(turn)
            await self._acquire(turn)

    async def _acquire(self, turn: Turn) -> None:
        turn.granted = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._grant()
        try:
            await turn.granted
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            self._release(turn)
            raise

    def _release(self, turn: Turn) -> None:
        if turn.held_in is not None:
            self._held.remove(turn)
            turn.held_in = None
            self._grant()

    def _grant(self) -> None:
        while len(self._held) < self.turns and (turn := self._next()) is not None:
            self._waiting.remove(turn)
            turn.held_in = turn.lane
            self._held.append(turn)
            self._note_served(turn)
            if turn.granted is not None and not turn.granted.done():
                turn.granted.set_result(None)

    def _note_served(self, turn: Turn) -> None:
        self._grants += 1
        if len(self._served) > MOST_REMEMBERED:
            self._served.clear()
            self._last_lane.clear()
        self._served[turn.organization_id] = self._grants
        self._last_lane[turn.organization_id] = turn.lane

    def _next(self) -> Turn | None:
        """Choose among the turns ready to begin: the organization served longest ago, then the lane, then the age."""
        begun = sum(each.held_in is not Lane.SMALL for each in self._held)
        ready = [each for each in self._waiting if each.lane is Lane.SMALL or begun < self.long_turns]
        rebuilds = [each for each in ready if each.lane is Lane.REBUILD]
        others = [each for each in ready if each.lane is not Lane.REBUILD]
        if rebuilds and (not others or (self._grants + 1) % TURN_OF_REBUILDS == 0):
            others = rebuilds
        return min(others, key=self._rank, default=None)

    def _rank(self, turn: Turn) -> tuple[int, bool, int]:
        served = self._served.get(turn.organization_id, 0)
        return served, self._last_lane.get(turn.organization_id) is turn.lane, turn.number
