"""The second wall: a query without an organization, or with the wrong one, reads and changes no foreign data. Two
organizations hold equal users, groups, documents and collections; only row-level security separates them here."""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import FeatureNotSupported, InsufficientPrivilege
from sqlalchemy.exc import NoResultFound
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

import service as package
from carrel.wire.access import ResourceFilters
from carrel.wire.catalog import DocumentOrder, ListDocumentsRequest
from service.auth.callers import Caller, authenticate
from service.domains.access.resources.queries import ResourceFilter
from service.domains.documents.catalog.queries import DocumentFilter
from service.operate.distribution import INDEX_TABLE_NAMES
from service.platform.batches import Batch
from service.platform.database import SERVICE_ROLE
from service.platform.identifiers import NIL
from service.platform.sql import Window
from service.schema.indexing import INDEX_TABLES
from tests.harness.cases import cases
from tests.harness.services import RunningService, ServiceHarness
from tests.service.directory import a_user, organization_id, user
from tests.service.examples import EXAMPLES, Owner, Things
from tests.service.service_accounts import enable_service_accounts
from tests.service.test_every_endpoint import converse, name_admin_things

Connection = psycopg.Connection[Any]
ADA = "ada@example.test"
# What a transaction without an organization must find, to learn its organization.
CREDENTIALS = {
    *("api_keys", "browser_sessions", "invitations", "oauth_access_tokens", "oauth_clients", "oauth_codes"),
    *("oauth_refresh_tokens", "organizations", "passkeys", "pending_sign_ins", "scim_tokens"),
    *("service_account_tokens", "sign_in_domains"),
}
# Its rows have an organization in another place, and are there only while there is work.
QUEUE = "procrastinate_jobs"
# The audit log can't be changed at all.
ONLY_GROWS = {"audit_entries"}
# How a plan reads the organization that a transaction has entered, on one server and on those of a cluster.
READS_ORGANIZATION = r"\((InitPlan|NULLIF\(current_setting)"
# The beginnings of the names of queries that read.
READING = ("ask_", "count_", "find_", "get_", "has_", "list_", "rank_", "read_", "search_")
# The names that queries give to some of the examples' ids, and those of an admin's id.
CALLED = {"message_id": "turn_id", "evaluation_set_id": "set_id", "evaluation_run_id": "run_id"}
PEOPLE = ("principal_id", "owner_id", "member_id", "person_id")
# Queries that tell of nothing by zeros, or by a state.
TELLING = {"count_taken", "list_unread", "read_state", "read_text_status", "read_totals"}
# The places before the first row of a list, by their types.
FIRST: dict[object, object] = {UUID: NIL, int: -1, tuple[UUID, UUID]: (NIL, NIL), tuple[str, UUID]: ("", NIL)}


@dataclass(frozen=True)
class Tenant:
    """An organization with a row in every table."""

    service: RunningService
    organization_id: UUID
    things: Things


def a_tenant(service: RunningService) -> Tenant:
    enable_service_accounts(service)
    things = Things(Owner(service, service.api_key, "harbour"), ADA)
    for email in (ADA, things.spare_email):
        a_user(service, email)
    name_admin_things(things)
    converse(things, things.owner, user(service.admin_email))
    return Tenant(service, organization_id(service), things)


Pair = tuple[Tenant, Tenant]


@pytest.fixture(scope="module")
def pair(service_harness: ServiceHarness) -> Iterator[Pair]:
    with (
        service_harness.running(sweep_seconds=3600, docstore_workers=0, database_pool_size=1) as service,
        service.new_organization() as other,
        service.owner_connection() as connection,
    ):
        first, second = a_tenant(service), a_tenant(other)
        connection.execute("SET session_replication_role = replica")
        for table in tables(connection):
            owners = owners_of(connection, table)
            for number, tenant in enumerate((first, second), 10_000):
                if tenant.organization_id not in owners:
                    fill(connection, table, tenant.organization_id, number)
        yield first, second


@pytest.fixture(scope="module")
def protected(pair: Pair) -> list[str]:
    with pair[0].service.owner_connection() as connection:
        return tables(connection)


def tables(connection: Connection) -> list[str]:
    names = connection.execute("SELECT tablename FROM pg_policies WHERE policyname = 'organization' ORDER BY 1")
    return [name for (name,) in names if name != QUEUE]


# The columns that a row must have, with their types.
COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND attnotnull AND NOT atthasdef AND attidentity = ''
"""
VALUES = cases("values_of_types")


def fill(connection: Connection, table: str, organization: UUID, number: int) -> None:
    known = {"organization_id": f"'{organization}'", "state": "'WAITING'"}
    values = dict[str, str]()
    for name, kind in connection.execute(COLUMNS, [table]).fetchall():
        without_size, _, size = kind.rstrip(")").partition("(")
        values[name] = known.get(name) or VALUES.get(without_size, str(number)).format(size=size)
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())}")


def owners_of(connection: Connection, table: str) -> dict[UUID, int]:
    return dict(connection.execute(on("SELECT organization_id, count(*) FROM {} GROUP BY 1", table)).fetchall())


def on(statement: LiteralString, table: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(table))


@pytest.fixture
def entered(pair: Pair) -> Iterator[Connection]:
    with pair[0].service.owner_connection() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
        connection.execute(f"SELECT enter_organization('{pair[0].organization_id}')")
        yield connection


def test_both_have_rows_in_every_table(pair: Pair, protected: list[str]) -> None:
    both = {one.organization_id for one in pair}
    with pair[0].service.owner_connection() as connection:
        assert {table: owners_of(connection, table).keys() for table in protected} == dict.fromkeys(protected, both)


def test_a_query_that_names_no_organization_reads_its_own(pair, protected, entered) -> None:
    own, other = (one.organization_id for one in pair)
    database = pair[0].service.runtime.database
    for table in protected:
        assert owners_of(entered, table).keys() == {own}, table
        assert entered.execute(on("SELECT FROM {} WHERE organization_id = %s", table), [other]).rowcount == 0, table
        # A cluster locks no rows of several servers, whosever they are.
        if table not in ONLY_GROWS and not (table in INDEX_TABLE_NAMES and database.is_distributed):
            locked = entered.execute(on("SELECT FROM {} WHERE organization_id = %s FOR UPDATE", table), [other])
            assert locked.rowcount == 0, table


def test_a_statement_that_names_no_organization_changes_its_own(pair, protected, entered) -> None:
    own, other = (one.organization_id for one in pair)
    for table in (name for name in protected if name not in ONLY_GROWS):
        changed = entered.execute(
            on("UPDATE {} SET organization_id = organization_id RETURNING organization_id", table)
        )
        assert {row for (row,) in changed} == {own}, table
        assert entered.execute(on("DELETE FROM {} WHERE organization_id = %s", table), [other]).rowcount == 0, table


def test_a_row_of_the_other_cannot_be_written(pair: Pair, protected: list[str], entered: Connection) -> None:
    other = pair[1].organization_id
    for table in protected:
        found = on("SELECT to_jsonb(t) FROM {} t WHERE organization_id = %s LIMIT 1", table)
        [row] = pair[0].service.execute(found, [other])
        new = "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(NULL::{0}, %s)).*"
        refused(entered, on(new, table), [json.dumps(row[0])])
        if table not in ONLY_GROWS:
            refused(entered, on("UPDATE {} SET organization_id = %s", table), [other])


def refused(connection: Connection, statement: sql.Composed, parameters: list[Any]) -> None:
    with (
        pytest.raises((InsufficientPrivilege, FeatureNotSupported), match="row-level security"),
        connection.transaction(),
    ):
        connection.execute(statement, parameters)


FILTERS: dict[type, Callable[[], object]] = {
    DocumentFilter: lambda: DocumentFilter(ListDocumentsRequest(), None, ()),
    ResourceFilter: lambda: ResourceFilter(ResourceFilters(), None, None, None),
}

# Functions that look up by keys with the rights of their owner, so beside the policies of the tables: how many rows
# of an organization each finds.
LOOK_UPS = {
    "documents_with_values": """
        SELECT count(*) FROM space_documents s CROSS JOIN LATERAL documents_with_values(s.space_id, ARRAY['blue'], 9)
        WHERE s.organization_id = %s
    """,
    **{
        f"chunks_with_terms_{dimensions}": f"""
            SELECT count(*) FROM chunks_{dimensions} c
            CROSS JOIN LATERAL chunks_with_terms_{dimensions}(term_keys(c.space_id, c.terms), c.terms)
            WHERE c.organization_id = %s
        """  # noqa: S608 - names of ours
        for dimensions in INDEX_TABLES
    },
}


def test_functions_beside_the_policies_find_nothing_of_another(pair: Pair) -> None:
    """The list of functions is complete; views don't exist."""
    beside = """
        SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace
        UNION ALL SELECT relname FROM pg_class WHERE relkind IN ('v', 'm') AND relnamespace = 'public'::regnamespace
    """
    second = pair[1].organization_id
    with pair[0].service.owner_connection() as connection, connection.transaction(force_rollback=True):
        assert {name for (name,) in connection.execute(beside)} == LOOK_UPS.keys()
        connection.execute('UPDATE space_documents SET custom_metadata = \'{"team": "Blue"}\'')
        found: dict[UUID, set[bool]] = {}
        for tenant in pair:
            connection.execute("SELECT enter_organization(%s)", [str(tenant.organization_id)])
            counts = [connection.execute(look_up, [second]).fetchall()[0][0] for look_up in LOOK_UPS.values()]
            found[tenant.organization_id] = {count > 0 for count in counts}
    assert found == {pair[0].organization_id: {False}, second: {True}}


def queries() -> Iterator[tuple[str, Callable[..., Any]]]:
    folder = Path(package.__path__[0])
    for path in sorted(folder.rglob("queries.py")):
        module = import_module(".".join([package.__name__, *path.relative_to(folder).with_suffix("").parts]))
        for name, query in inspect.getmembers(module, inspect.isfunction):
            is_bound = {"organization_id", "caller"} & inspect.signature(query).parameters.keys()
            if name.startswith(READING) and is_bound and name not in TELLING and query.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", query


def arguments_of(tenant: Tenant) -> dict[str, Any]:
    caller = caller_of(tenant)
    ids = {name: UUID(value) for name, value in vars(tenant.things).items() if name.endswith("_id") and value}
    ids |= {name: ids[known] for known, name in CALLED.items()} | dict.fromkeys(PEOPLE, caller.principal_id)
    several = {f"{name}s": [value] for name, value in ids.items()}
    everything = {"email": ADA, "emails": [ADA], "limit": 1000, "most": 1000, "lock": False, "own": False}
    everything |= {"order": DocumentOrder.NAME, "is_descending": False, "window": Window(NIL, 1000)}
    everything["ids"] = [*ids.values()]
    return ids | several | everything | {"organization_id": tenant.organization_id, "caller": caller}


def caller_of(tenant: Tenant) -> Caller:
    service = tenant.service
    keys = service.runtime.keys
    return service.in_transaction(None, lambda one: authenticate(one, f"Bearer {service.api_key}", keys=keys))


def chosen(query: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a query; None when a value is missing."""
    taken = dict[str, Any]()
    for name, parameter in list(inspect.signature(query).parameters.items())[1:]:
        kind = parameter.annotation
        if name in given:
            taken[name] = given[name]
        elif "None" in str(kind):
            taken[name] = None
        elif name == "after" and kind in FIRST:
            taken[name] = FIRST[kind]
        elif isinstance(kind, type) and "Filter" in kind.__name__:
            taken[name] = FILTERS[kind]() if kind in FILTERS else kind()
        elif parameter.default is parameter.empty:
            return None
    return taken


def found_in(tenant: Tenant, query: Callable[..., Any], given: dict[str, Any]) -> Any:

    async def find() -> Any:
        async with tenant.service.runtime.database.transaction(tenant.organization_id) as connection:
            if inspect.iscoroutinefunction(query):
                return await query(connection, **given)
            batch = Batch()
            answer = query(batch, **given)
            await batch.run(connection)
            return getattr(answer, "rows", None)

    try:
        return tenant.service.run(find())
    except NoResultFound:
        return None


def test_a_query_told_another_organization_finds_nothing(pair: Pair) -> None:
    first, second = pair
    own = arguments_of(first)
    others = own | {"organization_id": second.organization_id, "caller": caller_of(second)}
    finding, shown = set[str](), dict[str, Any]()
    for name, query in queries():
        if (given := chosen(query, own)) is None or not found_in(first, query, given):
            continue
        finding.add(name)
        if found := found_in(first, query, chosen(query, others) or {}):
            shown[name] = found
    assert shown == {}
    assert len(finding) > 90


def test_requests_served_in_the_wrong_organization_show_and_change_nothing(pair, protected, monkeypatch) -> None:
    first, second = pair
    requests = {name: example.body(second.things) for name, example in EXAMPLES.items()}
    before = rows_of(second, protected), rows_of(first, protected)
    wrong = in_organization(second.service.runtime.database.transaction, first.organization_id)
    monkeypatch.setattr(second.service.runtime.database, "transaction", wrong)
    headers = {"Authorization": f"Bearer {second.service.api_key}"}
    for operation, body in requests.items():
        # Rendering an exception for the console, with all its variables, takes 20 seconds.
        with capture_logs():
            answer = EXAMPLES[operation].send(second.service.http, operation, body, headers)
        # Nothing of the second, which the policies hide, and nothing of the first, since the queries name the second.
        shown = second.things.ids() | first.things.ids()
        assert not [each for each in shown if each in answer.text and each not in json.dumps(body)], operation
        assert answer.status_code == 200 or "error" in answer.json(), operation
    monkeypatch.undo()
    assert (rows_of(second, protected), rows_of(first, protected)) == before


def rows_of(tenant: Tenant, tables: list[str]) -> dict[str, int]:
    with tenant.service.owner_connection() as connection:
        return {table: owners_of(connection, table)[tenant.organization_id] for table in tables}


def in_organization(transaction: Callable[..., Any], wrong_id: UUID) -> Callable[..., Any]:
    @asynccontextmanager
    async def wrong(organization_id: UUID | None, **options: Any) -> AsyncGenerator[AsyncConnection]:
        async with transaction(organization_id and wrong_id, **options) as connection:
            yield connection

    return wrong


def test_a_connection_keeps_no_organization(make_service: Callable[..., RunningService]) -> None:
    service = make_service(sweep_seconds=3600, docstore_workers=0, database_pool_size=1)
    database, own = service.runtime.database, organization_id(service)

    async def cancelled() -> None:
        async with asyncio.timeout(0.2), database.transaction(own) as connection:
            await connection.exec_driver_sql("SELECT 1")
            await asyncio.sleep(60)

    backend, found = service.in_transaction(own, state)
    assert found == str(own)
    assert service.in_transaction(None, state) == (backend, "")
    with pytest.raises(Exception, match="division by zero"):
        service.in_transaction(own, lambda connection: connection.exec_driver_sql("SELECT 1 / 0"))
    assert service.in_transaction(None, state) == (backend, "")
    with pytest.raises(TimeoutError):
        service.run(cancelled())
    assert service.in_transaction(None, state) == (backend, "")


async def state(connection: AsyncConnection) -> tuple[int, str]:
    row = await connection.exec_driver_sql("SELECT pg_backend_pid(), current_setting('carrel.organization_id', true)")
    backend, organization = row.one()
    return backend, organization or ""


def test_the_policy_is_looked_at_once_a_statement(pair: Pair, protected: list[str], entered: Connection) -> None:
    """A check at each row would slow down scans."""
    for table in (name for name in protected if name not in CREDENTIALS):
        explain = on("EXPLAIN (COSTS OFF) SELECT * FROM {} WHERE organization_id = %s", table)
        plan = "\n".join(line for (line,) in entered.execute(explain, [pair[0].organization_id]))
        assert re.search(rf"One-Time Filter: \({READS_ORGANIZATION}", plan), plan
        assert not re.search(rf"Filter: \(organization_id = {READS_ORGANIZATION}", plan), plan


def test_without_an_organization_only_credentials_are_seen(pair: Pair, protected: list[str]) -> None:
    async def find_rows(connection: AsyncConnection) -> set[str]:
        return {name for name in protected if (await connection.exec_driver_sql(f"TABLE {name}")).all()}

    assert pair[0].service.in_transaction(None, find_rows) == CREDENTIALS
    with pair[0].service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        for table in CREDENTIALS:
            assert connection.execute(on("UPDATE {} SET organization_id = organization_id", table)).rowcount == 0, table
