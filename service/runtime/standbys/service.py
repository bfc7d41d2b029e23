"""The standbys of the database, and the choice of server for each reading: a confirmed standby, or the primary."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

from psycopg import AsyncConnection as DriverConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.servers import StandbyState, StandbyStatus
from service.platform.batches import Answer, Batch
from service.platform.database import Database, leave_out_when_full
from service.platform.errors import DATABASE_ERRORS
from service.platform.logs import logger
from service.runtime.standbys import queries
from service.runtime.standbys.queries import Position, Progress

# A standby that needs longer to catch up is not used: the primary would have answered by then.
CATCH_UP_SECONDS = 0.05
PAUSE_SECONDS = 0.002
# A server that doesn't answer within this time is given up, with all its waiting requests.
ANSWER_SECONDS = 2.0
# A statement cancelled by a time limit would take as long on the primary.
CANCELLED = "57014"
# Classes of codes that mean "not now" for everyone. Other failures, such as a read of rows that the replayed log
# removes, say nothing about the server.
AWAY_CLASSES = ("08", "53", "57", "58", "XX")


class NotServedError(Exception):
    """A standby could not answer; the primary can."""


class Standby:
    """A standby. Only the observed replay position decides about reads."""

    def __init__(self, number: int, address: str, *, pool: Database, watch: Database) -> None:
        """`address` names the standby in logs, without its password; `watch` is a connection used only by `look`."""
        self.number = number
        self.reads = 0
        self._address = address
        self._pool = pool
        self._watch = watch
        self._held: set[_Hold] = set()
        # None before the first check
        self._state: StandbyState | None = None
        self._since = datetime.now(UTC)
        self._lag_bytes: int | None = None

    @property
    def state(self) -> StandbyState:
        return self._state or StandbyState.AWAY

    @property
    def load(self) -> int | None:
        """The number of connections in use; None unless the standby serves and has room for another read."""
        is_free = self._state is StandbyState.SERVING and not self._pool.is_saturated
        return self._pool.in_use if is_free else None

    def describe(self) -> StandbyStatus:
        return StandbyStatus(number=self.number, state=self.state, since=self._since, lag_bytes=self._lag_bytes)

    @asynccontextmanager
    async def transaction(
        self, organization_id: UUID, *, position: Position, first: Batch | None = None
    ) -> AsyncGenerator[Connection]:
        """Open a snapshot with all commits before the position. Raises NotServedError if the standby lags or fails."""
        try:
            with self._holding() as hold:
                async with self._pool.transaction(
                    organization_id,
                    isolation="REPEATABLE READ",
                    read_only=True,
                    first=first,
                    require=partial(self._require_caught_up, hold, position),
                ) as connection:
                    yield connection
        except DATABASE_ERRORS as error:
            if _code_of(error) == CANCELLED:
                raise
            if _is_away(error):
                self._set_state(StandbyState.AWAY, reason=repr(error))
            raise NotServedError from error

    async def look(self, position: Position) -> None:
        """Check whether the standby reaches a position, and record the state. After an error, or without an answer in
        `ANSWER_SECONDS`, it counts as away, and its waiting reads are cut."""
        giving_up = asyncio.get_running_loop().call_later(ANSWER_SECONDS, partial(self._give_up, "it does not answer"))
        try:
            with self._holding() as hold:
                async with self._watch.transaction(
                    None, read_only=True, require=partial(self._require_caught_up, hold, position)
                ):
                    pass
        except DATABASE_ERRORS as error:
            self._give_up(repr(error))
        except NotServedError:
            pass  # noted already
        finally:
            giving_up.cancel()

    def _record_progress(self, progress: Progress, position: Position) -> None:
        behind = max(0, (position.written or 0) - (progress.replayed or 0))
        self._lag_bytes = behind
        if progress.reaches(position):
            self._set_state(StandbyState.SERVING)
        elif not progress.is_standby or (not behind and not progress.follows(position)):
            self._set_state(StandbyState.NOT_A_STANDBY, reason="it does not follow the primary")
        else:
            self._set_state(StandbyState.LATE, reason=f"{behind} bytes behind")

    async def _require_caught_up(self, hold: "_Hold", position: Position, connection: Connection) -> None:
        await hold.take(connection)
        if not position.is_marked:
            raise NotServedError  # the primary has just started, which says nothing about the standby
        progress = await self._poll_progress(connection, position)
        self._record_progress(progress, position)
        if not progress.reaches(position):
            raise NotServedError

    async def _poll_progress(self, connection: Connection, position: Position) -> Progress:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CATCH_UP_SECONDS
        while True:
            batch = Batch()
            answer = queries.ask_progress(batch, mark=position.mark)
            await batch.run(connection)
            [progress] = answer.rows
            if progress.reaches(position) or loop.time() >= deadline:
                return progress
            await asyncio.sleep(PAUSE_SECONDS)

    @contextmanager
    def _holding(self) -> Generator["_Hold"]:
        hold = _Hold()
        self._held.add(hold)
        try:
            yield hold
        finally:
            self._held.discard(hold)

    def _give_up(self, reason: str) -> None:
        self._set_state(StandbyState.AWAY, reason=reason)
        for hold in self._held:
            hold.cut()

    def _set_state(self, state: StandbyState, *, reason: str | None = None) -> None:
        if state is self._state:
            return
        self._state, self._since = state, datetime.now(UTC)
        if state is StandbyState.SERVING:
            logger.info("standby_serves", standby=self._address)
        else:
            logger.warning("standby_left_out", standby=self._address, state=state, reason=reason)


class _Hold:
    def __init__(self) -> None:
        self._driver: DriverConnection[Any] | None = None
        self._is_cut = False

    async def take(self, connection: Connection) -> None:
        if self._is_cut:
            raise NotServedError
        pooled = await connection.get_raw_connection()
        self._driver = cast("DriverConnection[Any]", pooled.driver_connection)

    def cut(self) -> None:
        """Close the connection's socket: cancelling a statement would wait for a server that may not answer."""
        self._is_cut = True
        if self._driver is not None and not self._driver.closed:
            with suppress(OSError), socket.socket(fileno=os.dup(self._driver.fileno())) as copy:
                copy.shutdown(socket.SHUT_RDWR)


def _is_away(error: BaseException) -> bool:
    """Return whether an error concerns the whole server: a lost or refused connection."""
    if isinstance(error, PoolTimeoutError):
        return False
    code = _code_of(error)
    return code is None or code[:2] in AWAY_CLASSES


def _code_of(error: BaseException) -> str | None:
    original = error.orig if isinstance(error, DBAPIError) else error
    return getattr(original, "sqlstate", None)


Found = TypeVar("Found")
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Source:
    """A server to read from."""

    primary: Database
    standby: Standby | None = None
    position: Position | None = None

    def snapshot(
        self, organization_id: UUID, *, first: Batch | None = None, read_only: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Open a snapshot of an organization. On the primary the snapshot is writable unless `read_only`."""
        if self.standby is None or self.position is None:
            return self.primary.transaction(
                organization_id, isolation="REPEATABLE READ", read_only=read_only, first=first
            )
        return self.standby.transaction(organization_id, position=self.position, first=first)


class Standbys:
    """The standbys in the settings. Without any, all reads use the primary and no positions are asked for."""

    def __init__(self, all_of_them: Sequence[Standby] = ()) -> None:
        self.all = tuple(all_of_them)
        self.primary_reads = 0

    def ask(self, batch: Batch) -> Answer[Position] | None:
        """Ask the primary for the position, in a batch run there anyway."""
        return queries.ask_position(batch) if self.all else None

    async def read(
        self, primary: Database, position: Answer[Position] | None, find: Callable[[Source], Awaitable[Found]]
    ) -> Found:
        """Call `find` with a standby or, if none can answer, the primary; return the result. `find` may be repeated."""
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
        """Mark the primary's log, and check the standbys' replay up to the mark."""
        async with primary.transaction(None) as connection, leave_out_when_full(connection):
            await queries.write_mark(connection)
        batch = Batch()
        position = queries.ask_position(batch)
        await primary.read(None, batch)
        [asked] = position.rows
        await asyncio.gather(*(standby.look(asked) for standby in self.all))
