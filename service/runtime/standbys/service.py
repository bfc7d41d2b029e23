"""Choosing where something is read: from a standby that confirms, or from the primary."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.batches import Answer, Batch
from service.platform.database import Database, leave_out_when_full
from service.runtime.standbys import queries
from service.runtime.standbys.queries import Position
from service.runtime.standbys.standby import NotServedError, Standby

Found = TypeVar("Found")
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Source:
    """A server that something is read from."""

    primary: Database
    standby: Standby | None = None
    position: Position | None = None

    def snapshot(
        self, organization_id: UUID, *, first: Batch | None = None, read_only: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Open a snapshot of an organization; on the primary it can be written to, unless it is `read_only`."""
        if self.standby is None or self.position is None:
            return self.primary.transaction(
                organization_id, isolation="REPEATABLE READ", read_only=read_only, first=first
            )
        return self.standby.transaction(organization_id, position=self.position, first=first)


class Standbys:
    """The standbys that the settings name; without any, everything is read from the primary and nothing is asked."""

    def __init__(self, all_of_them: Sequence[Standby] = ()) -> None:
        self.all = tuple(all_of_them)
        self.primary_reads = 0

    def ask(self, batch: Batch) -> Answer[Position] | None:
        """Ask the primary for its position, in a batch that is run there while the request waits anyway."""
        return queries.ask_position(batch) if self.all else None

    async def read(
        self, primary: Database, position: Answer[Position] | None, find: Callable[[Source], Awaitable[Found]]
    ) -> Found:
        """Return what `find` reads from a standby, or from the primary. `find` only reads its given source, and is
        repeated with another on failure. The position is this request's."""
        tried: set[Standby] = set()
        while position is not None and (standby := self._choose(tried)) is not None:
            tried.add(standby)
            [asked] = position.rows
            try:
                found = await find(Source(primary, standby, asked))
            except NotServedError:
                continue
            standby.reads += 1
            return found
        self.primary_reads += 1
        return await find(Source(primary))

    def _choose(self, tried: set[Standby]) -> Standby | None:
        free = [(standby.load, standby.number, standby) for standby in self.all if standby not in tried]
        return min((each for each in free if each[0] is not None), default=(None, 0, None))[2]

    async def look(self, primary: Database) -> None:
        """Mark the primary's log, and see which standbys have replayed it up to here."""
        async with primary.transaction(None) as connection, leave_out_when_full(connection):
            await queries.write_mark(connection)
        batch = Batch()
        position = queries.ask_position(batch)
        await primary.read(None, batch)
        [asked] = position.rows
        await asyncio.gather(*(standby.look(asked) for standby in self.all))
