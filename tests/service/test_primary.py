"""The primary among several servers: the last promoted, and messages while no standby follows it."""

import asyncio
import gc
from contextlib import AsyncExitStack
from types import SimpleNamespace
from unittest.mock import AsyncMock

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.exc import OperationalError

from service.operate.startup import _open_standbys
from service.platform import primary
from service.platform.database import SERVICE_ROLE, Database, driver_url, outlive_commit
from service.platform.errors import Unavailable
from service.platform.primary import TIMELINE, NewestPrimary
from service.platform.settings import Settings
from service.platform.sharing import Figure, Figures, Share
from tests.harness.logs import logged
from tests.harness.replication import Server, replicated


async def timeline_of(database: Database) -> int:
    async with database.transaction(None) as connection:
        return int((await connection.exec_driver_sql(f"SELECT {TIMELINE}")).scalar_one())


def opened(known: NewestPrimary, *servers: Server) -> Database:
    first, *others = servers
    address = first.address(*others, user=SERVICE_ROLE).get_secret_value()
    return Database(driver_url(address), pool_size=1, primary=known)


async def use_all(old: Server, new: Server) -> None:
    figures = Figures(2)
    mine, neighbour = (NewestPrimary(Share(worker, 2, figures)) for worker in range(2))
    others = NewestPrimary()
    pool, fresh = opened(mine, old, new), opened(others, old, new)
    assert await timeline_of(pool) == 1
    new.execute("SELECT pg_promote()")
    # Who knows nothing asks both, though the old one comes first.
    assert await timeline_of(fresh) == 2
    # A connection of before is given up as soon as one of the service's workers has seen the new one.
    assert await timeline_of(pool) == 1
    learning = opened(neighbour, new)
    assert await timeline_of(learning) == 2
    assert await timeline_of(pool) == 2
    # The old one alone is refused, by the pool of jobs too, and what was said names both timelines.
    alone = opened(mine, old)
    with pytest.raises(OperationalError, match="writes timeline 1, but timeline 2 was seen"):
        await timeline_of(alone)
    assert str(pool.driver_parameters()["host"]).split(",")[0] in new.address().get_secret_value().replace("%2F", "/")
    async with await psycopg.AsyncConnection.connect(**alone.driver_parameters()) as connection:
        with pytest.raises(psycopg.OperationalError, match="another server was promoted"):
            await mine.verify(connection)
    assert mine.refused >= 2
    assert figures.read(Figure.OLDER_PRIMARY_AT)[0] > 0
    # What a worker has seen outlives it.
    figures.clear(0)
    figures.clear(1)
    assert (mine.timeline, Share(0, 2, figures).latest(Figure.OLDER_PRIMARY_AT) is None) == (2, False)
    for database in (pool, fresh, learning, alone):
        await database.close()


def test_a_primary_of_before_a_promotion_is_not_gone_back_to() -> None:
    """Both accept writes; only the newer primary's count."""
    with replicated(1) as (old, [new]):
        asyncio.run(use_all(old, new))


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pool has the connection while its server is asked; the garbage collector reports a leaked connection."""
    monkeypatch.setattr(primary, "_ASK", "SELECT 1 FROM pg_sleep(20)")
    with replicated(0) as (server, _):
        database = opened(NewestPrimary(), server)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(timeline_of(database), 0.5)
        gc.collect()
        await database.close()


async def write(database: Database) -> None:
    async with database.transaction(None) as connection:
        await connection.exec_driver_sql("UPDATE kept SET number = number + 1")


async def read(database: Database) -> int:
    async with database.transaction(None, read_only=True) as connection:
        return int((await connection.exec_driver_sql("SELECT number FROM kept")).scalar_one())


async def wait_for_a_standby(server: Server) -> None:
    share, url = Share(), driver_url(server.address(user=SERVICE_ROLE).get_secret_value())
    database = Database(url, statement_seconds=0.5, primary=NewestPrimary(share))
    with pytest.raises(Unavailable, match="has not confirmed this change"):
        await write(database)
    with pytest.raises(OperationalError, match="statement timeout"):
        await write(database)
    assert await read(database) == 0
    assert (database.in_use, database.commit_seconds > 0.5) == (1, True)
    assert share.latest(Figure.UNCONFIRMED_AT) is not None
    server.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
    server.execute("SELECT pg_reload_conf()")
    await database.close()
    assert (await read(database), database.in_use, database.commit_seconds) == (1, 0, 0)
    await database.close()


async def test_a_connection_comes_back_however_its_commit_ends() -> None:
    """No caller waits any more, so the error is logged."""
    fail = AsyncMock(side_effect=RuntimeError)
    given_back: list[str] = []
    async with AsyncExitStack() as held:
        held.callback(given_back.append, "connection")
        await outlive_commit(asyncio.ensure_future(fail()), held.pop_all())
    assert given_back == ["connection"]
    assert "commit_failed" in logged.getvalue()


async def commit_and_go_on(connection) -> None:
    database = Database(driver_url("postgresql://nobody@localhost/none"))
    async with AsyncExitStack() as held:
        await database._commit(connection, held)  # pyright: ignore[reportPrivateUsage] - no other way has its moment
    await asyncio.sleep(60)


@pytest.mark.parametrize("turns", range(8))
async def test_who_is_cancelled_while_a_commit_ends_ends(turns: int) -> None:
    """A commit may take several turns of the loop; a cancelled task must still end."""
    may_end = asyncio.Event()
    task = asyncio.create_task(commit_and_go_on(SimpleNamespace(commit=may_end.wait)))
    await asyncio.sleep(0.01)
    may_end.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=0.5)
    assert ended


def test_a_change_that_no_standby_confirms_is_not_called_done() -> None:
    """The change is reported as unconfirmed, not rolled back: a retry waits behind it until a standby confirms."""
    with replicated(0) as (server, _):
        server.execute("CREATE TABLE kept AS SELECT 0 AS number")
        server.execute(f"GRANT ALL ON kept TO {SERVICE_ROLE}")
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        server.execute("SELECT pg_reload_conf()")
        asyncio.run(wait_for_a_standby(server))


async def test_a_standby_without_a_port_is_named_with_the_default_port() -> None:
    primary, standby = SecretStr("postgresql://first/carrel"), SecretStr("postgresql://second/carrel")
    async with AsyncExitStack() as stack:
        [opened] = _open_standbys(stack, Settings(database_url=primary, database_replica_urls=(standby,))).all
        assert opened._address == "second:5432"
