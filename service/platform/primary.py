"""Refuse database servers that are no longer the primary. Each promotion of a standby begins a new timeline of
PostgreSQL's log, so a server on an older timeline is a former primary. Such a server may show revoked rights, and
writes to it are lost."""

import time
from collections.abc import Mapping
from typing import Any, cast

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from service.platform.logs import logger
from service.platform.sharing import Figure, Share

# The timeline of a server that accepts writes; NULL from a standby.
TIMELINE = (
    "CASE WHEN NOT pg_is_in_recovery()"
    " THEN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint END"
)
_ASK = f"SELECT {TIMELINE}"
_OF_CONNECTION = "timeline"
_Place = tuple[str, str]


class NewestPrimary:
    """A process's knowledge of the primary: the newest timeline seen by any worker, and the server."""

    def __init__(self, share: Share | None = None) -> None:
        self.refused = 0
        self._share = share or Share()
        self._place: _Place | None = None

    @property
    def timeline(self) -> int:
        """The newest timeline seen by any worker on a writing server; 0 before the first."""
        return int(max(self._share.figures.read(Figure.TIMELINE)))

    def watch(self, engine: Engine) -> None:
        """Limit an engine's pool to connections to the newest primary."""
        event.listen(engine, "do_connect", self._connect_to_newest)
        event.listen(engine, "checkout", self._check)

    def note(self, timeline: int | None) -> None:
        """Tell all workers the timeline of a server (None: a standby); connections to older timelines are dropped."""
        self._share.tell(Figure.TIMELINE, max(self.timeline, timeline or 0))

    def note_unconfirmed(self) -> None:
        self._share.tell(Figure.UNCONFIRMED_AT, time.time())

    def prefer(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a connection's parameters with the last connected server first in the order of attempts."""
        places = sorted(_split(parameters), key=lambda place: place != self._place)
        return {**parameters, **(_join(places) if len(places) > 1 else {})}

    async def verify(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Raise OperationalError if a connection, outside a transaction, is to a server on an older timeline."""
        [timeline] = await (await connection.execute(_ASK)).fetchone() or [None]
        await connection.rollback()
        if not self._accepts(timeline):
            raise self._note_refusal(connection.info.host, timeline)

    def _connect_to_newest(
        self,
        dialect: Dialect,
        record: ConnectionPoolEntry | None,
        arguments: tuple[Any, ...],
        parameters: dict[str, Any],
    ) -> DBAPIConnection:
        places = _split(parameters)
        if len(places) > 1 and not self.timeline:
            self._learn(dialect, parameters, places)
        places.sort(key=lambda place: place != self._place)
        while True:
            connection = dialect.connect(*arguments, **{**parameters, **_join(places)})
            timeline, place = _ask_timeline(connection), _find(places, connection)
            if self._accepts(timeline):
                break
            connection.close()
            error = self._note_refusal(place[0], timeline)
            if len(places) == 1:
                raise error
            places.remove(place)
        self.note(timeline)
        self._place = place
        if record is not None:
            record.info[_OF_CONNECTION] = timeline
        return connection

    def _learn(self, dialect: Dialect, parameters: dict[str, Any], places: list[_Place]) -> None:
        """Query each server's timeline: the first writable server need not be the newest primary."""
        for place in places:
            try:
                connection = dialect.connect(**{**parameters, **_join([place])})
                timeline = _ask_timeline(connection)
            except psycopg.OperationalError:
                continue
            connection.close()
            if (timeline or 0) > self.timeline:
                self.note(timeline)
                self._place = place

    def _check(self, _connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if not self._accepts(record.info.get(_OF_CONNECTION)):
            raise DisconnectionError("The server was the primary before another server was promoted.")

    def _accepts(self, timeline: int | None) -> bool:
        return timeline is None or timeline >= self.timeline

    def _note_refusal(self, host: str, timeline: int | None) -> psycopg.OperationalError:
        self.refused += 1
        self._share.tell(Figure.OLDER_PRIMARY_AT, time.time())
        logger.error("older_primary_refused", host=host, timeline=timeline, newest=self.timeline)
        return psycopg.OperationalError(
            f"The database server {host} writes timeline {timeline}, but timeline {self.timeline} was seen: another "
            "server was promoted. Make this server a standby of it. If it was restored on purpose, restart the service."
        )


def _split(parameters: Mapping[str, Any]) -> list[_Place]:
    hosts = str(parameters.get("host") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))


def _join(places: list[_Place]) -> dict[str, str]:
    hosts, ports = (",".join(each) for each in zip(*places, strict=True))
    return {"host": hosts, "port": ports} if hosts else {}


def _ask_timeline(connection: DBAPIConnection) -> int | None:
    """Return the timeline, None from a standby. Leaves autocommit on, and closes the connection after an error."""
    adapted = cast("Any", connection)
    try:
        # Without autocommit, the query would begin a transaction.
        adapted.autocommit = True
        cursor = connection.cursor()
        cursor.execute(_ASK)
        [timeline] = cursor.fetchone() or [None]
        cursor.close()
    except BaseException:
        # No await is possible in a cancelled task, and no pool has the connection yet.
        adapted.driver_connection.pgconn.finish()
        raise
    return timeline


def _find(places: list[_Place], connection: DBAPIConnection) -> _Place:
    info = cast("Any", connection).driver_connection.info
    return next((each for each in places if each[0] == info.host and each[1] in {"", str(info.port)}), places[0])
