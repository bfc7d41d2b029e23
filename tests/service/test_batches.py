"""Batches of statements: effects, rollback, and the state of the connection afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Integer, Text, bindparam, func, literal_column, select
from sqlalchemy.exc import DBAPIError

from carrel.wire.common import ResourceType
from service.platform.batches import Answer, Batch
from service.platform.database import Database
from service.platform.sql import as_member
from service.schema.identity import organizations, principals, resources
from tests.harness.jobs import until


@dataclass(frozen=True)
class Quotient:
    quotient: int


@dataclass(frozen=True)
class Count:
    count: int


DIVISION = select((literal_column("12") / bindparam("by", type_=Integer())).label("quotient"))
PRINCIPALS = select(func.count().label("count")).select_from(principals)
ORGANIZATIONS = select(func.count().label("count")).select_from(organizations)
SLEEP = select(func.length(func.pg_sleep(bindparam("seconds", type_=Integer())).cast(Text)).label("quotient"))


@pytest.fixture
def name(databases, service_harness) -> Iterator[str]:
    del service_harness  # has put the organization into what is cloned
    name = databases.clone()
    yield name
    databases.drop(name)


@pytest.fixture
async def database(databases, name: str) -> AsyncIterator[Database]:
    database = Database(databases.service_url(name), pool_size=1)
    yield database
    await database.close()


@pytest.fixture
def owner(databases, name: str) -> Iterator[psycopg.Connection[Any]]:
    """The database's owner, exempt from row-level security."""
    with databases.connect(name) as connection:
        yield connection


@pytest.fixture
def organization_id(owner: psycopg.Connection[Any]) -> UUID:
    [[organization_id]] = owner.execute("SELECT organization_id FROM organizations").fetchall()
    return organization_id


def divide(batch: Batch, by: int) -> Answer[Quotient]:
    return batch.ask(DIVISION, Quotient, {"by": by})


async def test_statements_are_answered_in_their_order(database: Database, organization_id: UUID) -> None:
    batch = Batch()
    half, third = divide(batch, 2), divide(batch, 3)
    batch.tell("SELECT set_config('carrel.organization_id', $1, true)", str(organization_id))
    kinds = batch.ask(
        select(as_member(resources.c.resource_type, ResourceType)).limit(1), lambda resource_type: resource_type, {}
    )
    people = batch.ask(PRINCIPALS, Count, {})
    with pytest.raises(RuntimeError, match="not been run"):
        _ = half.row
    await database.read(None, batch)
    assert (half.row, third.rows) == (Quotient(6), [Quotient(4)])
    assert people.row is not None
    assert people.row.count > 0
    assert all(isinstance(kind, ResourceType) for kind in kinds.rows)


async def test_a_row_too_many_is_an_error(database: Database) -> None:
    batch = Batch()
    numbers = batch.ask(select(func.generate_series(1, 2).label("quotient")), Quotient, {})
    await database.read(None, batch)
    with pytest.raises(RuntimeError, match="more than one row"):
        _ = numbers.row


@pytest.mark.parametrize(
    ("text", "values", "error"),
    [
        ("SELECT 1 / $1::int", (0,), psycopg.errors.DivisionByZero),
        ("SELECT $1::text", ("no\0end",), psycopg.DataError),  # is not sent
        ("SELECT count(*) FROM organizations", (), psycopg.errors.QueryCanceled),  # is not prepared
    ],
)
async def test_a_failed_statement_leaves_the_connection_as_it_was(database, owner, text, values, error) -> None:
    for _ in range(2):
        batch = Batch()
        batch.tell("SELECT set_config('statement_timeout', '100', true)")
        batch.tell(text, *values)
        count = batch.ask(ORGANIZATIONS, Count, {})
        with owner.transaction():
            # As by a migration.
            owner.execute("LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(DBAPIError) as failure:
                await database.read(None, batch)
        assert isinstance(failure.value.orig, error)
        assert not failure.value.connection_invalidated
        again = Batch()
        count, half = again.ask(ORGANIZATIONS, Count, {}), divide(again, 2)
        await database.read(None, again)
        assert (count.row, half.row) == (Count(1), Quotient(6))


async def test_a_transaction_whose_first_statements_fail_is_undone(database, owner, organization_id) -> None:
    batch = Batch()
    batch.tell("UPDATE organizations SET name = 'changed'")
    divide(batch, 0)
    with pytest.raises(DBAPIError):
        async with database.transaction(organization_id, first=batch):
            pytest.fail("The transaction was opened.")
    assert owner.execute("SELECT count(*) FROM organizations WHERE name = 'changed'").fetchone() == (0,)
    batch = Batch()
    batch.tell("UPDATE organizations SET name = 'changed'")
    half = divide(batch, 2)
    async with database.transaction(organization_id, first=batch):
        pass
    assert half.row == Quotient(6)
    assert owner.execute("SELECT count(*) FROM organizations WHERE name = 'changed'").fetchone() == (1,)


async def test_what_one_reads_in_an_organization_the_next_one_is_not_in(database, organization_id) -> None:
    for by in (2, 0):
        inside = Batch()
        people = inside.ask(PRINCIPALS, Count, {})
        divide(inside, by)
        try:
            await database.read(organization_id, inside)
            assert people.row is not None
            assert people.row.count > 0
        except DBAPIError:
            assert by == 0
        outside = Batch()
        people = outside.ask(PRINCIPALS, Count, {})
        await database.read(None, outside)
        assert people.row == Count(0)


@pytest.mark.parametrize("kind", ["read", "transaction"])
async def test_a_connection_that_the_server_has_closed_is_replaced(databases, owner, kind) -> None:
    many = Database(databases.service_url(owner.info.dbname), pool_size=4)

    async def run(by: int) -> Quotient | None:
        batch = Batch()
        batch.tell("SELECT pg_sleep(0.2)")
        quotient = divide(batch, by)
        if kind == "read":
            await many.read(None, batch)
        else:
            async with many.transaction(None, first=batch):
                pass
        return quotient.row

    try:
        for _ in range(2):
            assert await asyncio.gather(*map(run, (1, 2, 3, 4))) == [Quotient(12 // by) for by in (1, 2, 3, 4)]
            ended = owner.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert len(ended.fetchall()) >= 4
    finally:
        await many.close()


@pytest.mark.timeout(60)
async def test_the_connections_that_a_crowd_has_left_are_ended(databases, owner, monkeypatch) -> None:
    """Continuing work reuses the warm server process of the connection."""
    monkeypatch.setattr("service.platform.database.IDLE_SECONDS", 1)
    many = Database(databases.service_url(owner.info.dbname), pool_size=4)

    async def come() -> None:
        async with many.transaction(None) as connection:
            await connection.exec_driver_sql("SELECT pg_sleep(0.2)")

    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    try:
        await asyncio.gather(*(come() for _ in range(4)))
        assert owner.execute(count).fetchone() == (4,)
        while owner.execute(count).fetchone() != (1,):
            await many.ping()
    finally:
        await many.close()


@pytest.mark.parametrize("open_one", [None, "transaction"])
async def test_a_batch_that_is_given_up_leaves_nothing_behind(database, owner, organization_id, open_one) -> None:
    async def run() -> None:
        batch = Batch()
        batch.ask(SLEEP, Quotient, {"seconds": 20})
        if open_one is None:
            await database.read(organization_id, batch)
        else:
            async with database.transaction(organization_id, first=batch):
                pass

    waiting = asyncio.create_task(run())
    await asyncio.to_thread(until, lambda: sleeping(owner))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(until, lambda: not sleeping(owner))
    batch = Batch()
    people, half = batch.ask(PRINCIPALS, Count, {}), divide(batch, 2)
    await database.read(None, batch)
    assert (people.row, half.row) == (Count(0), Quotient(6))


# A generator of the driver complains when it is dropped after the driver has closed the connection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("again", [False, True])
async def test_a_batch_that_is_given_up_at_any_step_leaves_nothing_behind(database, monkeypatch, *, again) -> None:
    # As in a process that is busy: the driver then lets others run at every step.
    monkeypatch.setattr("psycopg.waiting.MAX_BUSY_TIME", 0)

    async def run() -> None:
        batch = Batch()
        divide(batch, 3)
        await database.read(None, batch)

    for steps in range(20):
        given_up = asyncio.create_task(run())
        for _ in range(steps):
            await asyncio.sleep(0)
        given_up.cancel()
        while again and not given_up.done():
            given_up.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([given_up])
        async with database.transaction(None) as connection:
            assert (await connection.execute(DIVISION, {"by": 2})).scalar_one() == 6, steps
        batch = Batch()
        half = divide(batch, 2)
        await database.read(None, batch)
        assert half.row == Quotient(6)


def sleeping(owner: psycopg.Connection[Any]) -> list[Any]:
    active = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    return owner.execute(active).fetchall()


def test_a_list_of_values_is_refused() -> None:
    """The text depends on the number of values, so preparing once is impossible."""
    with pytest.raises(TypeError, match="in_array"):
        Batch().ask(select(literal_column("1").label("quotient")).where(principals.c.kind.in_(["user"])), Quotient, {})
