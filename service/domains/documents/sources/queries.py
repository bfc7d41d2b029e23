"""SQL of sources, reports and their items."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import sources as wire
from carrel.wire.sources import SourceItem
from service.auth.callers import Caller
from service.identity.queries import user_as
from service.platform import sql
from service.schema.catalog import source_items, source_reports, sources
from service.schema.identity import principals

# The characters of a name that fit into an index in any script.
SORTED_CHARACTERS = 200
_REPLACED = ("code", "message", "fingerprint", "since", "ignored")


@dataclass(frozen=True, slots=True)
class Source:
    """A source; `shown_no` is the visible report (None until a report has ended), `latest_no` the last begun report."""

    source_id: UUID
    ledger: str
    latest_no: int
    shown_no: int | None


@dataclass(frozen=True, slots=True)
class ReportKey:
    organization_id: UUID
    source_id: UUID
    report_no: int

    def is_of(self, table: Table) -> ColumnElement[bool]:
        return sql.matches(table, self.organization_id, source_id=self.source_id, report_no=self.report_no)


@dataclass(frozen=True, slots=True)
class Report:
    source: str
    collection_id: UUID | None
    fingerprint: str | None
    sent_count: int


_SOURCE = sql.columns_of(sources, Source)
# A report takes minutes; a report still open after this time will never end.
ABANDONED = timedelta(days=1)


def _visible(caller: Caller) -> ColumnElement[bool]:
    own = true() if caller.is_admin else sources.c.principal_id == caller.principal_id
    return and_(sources.c.organization_id == caller.organization_id, own)


async def count_sources(connection: Connection, organization_id: UUID) -> int:
    return await sql.count_rows(connection, sources.c.organization_id == organization_id)


async def insert_source(connection: Connection, caller: Caller, *, source_id: UUID, ledger: str) -> None:
    """Add a source reported by the caller; does nothing when the caller already has a source with this ledger."""
    values = {
        "source_id": source_id,
        "organization_id": caller.organization_id,
        "ledger": ledger,
        "principal_id": caller.principal_id,
    }
    await sql.insert_new(connection, sources, values, unique=["organization_id", "principal_id", "ledger"])


async def find_source(connection: Connection, caller: Caller, *, source_id: UUID, lock: bool = False) -> Source | None:
    """Find a source visible to the caller, or None. `lock` lasts until the transaction ends."""
    statement = select(*_SOURCE).where(_visible(caller), sources.c.source_id == source_id)
    return await sql.find_row(connection, statement.with_for_update() if lock else statement, Source)


async def lock_source_of(connection: Connection, caller: Caller, *, ledger: str) -> Source | None:
    """Lock the caller's own source with this ledger until the transaction ends; None without such a source."""
    own = sql.matches(sources, caller.organization_id, principal_id=caller.principal_id, ledger=ledger)
    return await sql.find_row(connection, select(*_SOURCE).where(own).with_for_update(), Source)


def _select_reported(caller: Caller) -> Select[*tuple[Any, ...]]:
    return (
        select(
            *(sources.c[name] for name in ("source_id", "ledger", "item_count", "ignored_count", "reported_at")),
            source_reports.c.source,
            source_reports.c.collection_id.label("document_collection_id"),
            user_as("reported_by", principals.c.principal_id),
        )
        .join(
            source_reports,
            and_(source_reports.c.source_id == sources.c.source_id, source_reports.c.report_no == sources.c.shown_no),
        )
        .join(principals, principals.c.principal_id == sources.c.principal_id)
        .where(_visible(caller))
    )


async def read_source(connection: Connection, caller: Caller, *, source_id: UUID) -> wire.Source:
    return await sql.get_row(connection, _select_reported(caller).where(sources.c.source_id == source_id), wire.Source)


async def list_sources(
    connection: Connection, caller: Caller, window: sql.Window, *, ledger: str | None, own: bool
) -> list[wire.Source]:
    """List visible sources by id with visible reports; `own` leaves out the sources an admin sees of other people."""
    principal_id = caller.principal_id if own else None
    chosen = sql.optional(sources.c.ledger, ledger), sql.optional(sources.c.principal_id, principal_id)
    statement = sql.rows_after(_select_reported(caller).where(*chosen), sources.c.source_id, *window)
    return await sql.find_rows(connection, statement, wire.Source)


async def delete_source(connection: Connection, organization_id: UUID, *, source_id: UUID) -> None:
    await sql.delete_rows(connection, sources, organization_id, source_id=source_id)


async def delete_unreported(connection: Connection, organization_id: UUID) -> None:
    """Delete sources, still invisible, with a first report begun more than a day ago and never ended."""
    old = source_reports.c.begun_at < func.now() - ABANDONED
    statement = delete(sources).where(sources.c.organization_id == organization_id, sources.c.shown_no.is_(None))
    await connection.execute(statement.where(exists().where(source_reports.c.source_id == sources.c.source_id, old)))


async def update_source(
    connection: Connection, organization_id: UUID, source_id: UUID, *, reported: bool = False, **values: Any
) -> None:
    told = {"reported_at": func.now()} if reported else {}
    await sql.update_rows(connection, sources, organization_id, values | told, source_id=source_id)


async def find_report(connection: Connection, key: ReportKey) -> Report | None:
    statement = select(*sql.columns_of(source_reports, Report)).where(key.is_of(source_reports))
    return await sql.find_row(connection, statement, Report)


async def insert_report(connection: Connection, key: ReportKey, **values: Any) -> None:
    await connection.execute(insert(source_reports).values(**asdict(key), **values))


async def keep_only_report(
    connection: Connection, organization_id: UUID, *, source_id: UUID, report_no: int | None
) -> None:
    """Delete a source's reports, with items, except the report `report_no` (None: no exception)."""
    is_other = source_reports.c.report_no.is_distinct_from(report_no)
    await sql.delete_rows(connection, source_reports, organization_id, is_other, source_id=source_id)


async def save_items(
    connection: Connection, key: ReportKey, *, items: Sequence[Mapping[str, object]], sent_count: int
) -> None:
    """Add items (with different ids) to a report, or replace items of the same id; `sent_count` is the new total."""
    given = sql.rows_of(list(source_items.columns), [{**item, **asdict(key)} for item in items])
    statement = insert(source_items).from_select(given.c.keys(), select(*given.c))
    replaced = {name: statement.excluded[name] for name in _REPLACED}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["source_id", "report_no", "item_id"], set_=replaced)
    )
    await connection.execute(update(source_reports).where(key.is_of(source_reports)).values(sent_count=sent_count))


async def keep_ignored(connection: Connection, key: ReportKey, *, old: ReportKey) -> None:
    """Carry over the previous report's choice of ignored items to all unchanged items."""
    before = (
        select(
            source_items.c.name, source_items.c.fingerprint, func.bool_or(source_items.c.ignored).label("was_ignored")
        )
        .where(old.is_of(source_items))
        .group_by(source_items.c.name, source_items.c.fingerprint)
        .subquery("before")
    )
    statement = (
        update(source_items)
        .where(
            key.is_of(source_items),
            source_items.c.name == before.c.name,
            source_items.c.fingerprint == before.c.fingerprint,
            source_items.c.ignored != before.c.was_ignored,
        )
        .values(ignored=before.c.was_ignored)
    )
    # Until the table is analyzed, PostgreSQL expects a single item and would compare each item with all others.
    await connection.exec_driver_sql("SET LOCAL enable_nestloop = off")
    await connection.execute(statement)
    await connection.exec_driver_sql("SET LOCAL enable_nestloop = on")


async def count_items(connection: Connection, key: ReportKey) -> tuple[int, int]:
    """Return the numbers of a report's items that count, and of its ignored items."""
    statement = select(
        func.count().filter(source_items.c.ignored.is_(False)), func.count().filter(source_items.c.ignored)
    ).where(key.is_of(source_items))
    counting, ignored = (await connection.execute(statement)).one()
    return counting, ignored


async def list_items(
    connection: Connection,
    caller: Caller,
    *,
    source_id: UUID,
    ignored: bool | None,
    after: tuple[str, UUID],
    limit: int,
) -> list[SourceItem]:
    """List the items of a source's visible report by name, if the caller may see the source."""
    statement = (
        select(*sql.columns_of(source_items, SourceItem, source_items.c.external_id.label("document_external_id")))
        .join(
            sources,
            and_(sources.c.source_id == source_items.c.source_id, sources.c.shown_no == source_items.c.report_no),
        )
        .where(
            _visible(caller),
            sql.matches(source_items, caller.organization_id, source_id=source_id),
            tuple_(source_items.c.sort_key, source_items.c.item_id) > after,
            sql.optional(source_items.c.ignored, ignored),
        )
        .order_by(source_items.c.sort_key, source_items.c.item_id)
        .limit(limit)
    )
    return await sql.find_rows(connection, statement, SourceItem)


async def set_ignored(
    connection: Connection, key: ReportKey, *, names: Sequence[str], ignored: bool
) -> tuple[set[str], set[str]]:
    """Set whether the named items are ignored; return the names found, and the changed names."""
    named = and_(
        key.is_of(source_items),
        sql.in_array(source_items.c.sort_key, {name[:SORTED_CHARACTERS] for name in names}),
        sql.in_array(source_items.c.name, names),
    )
    known = set((await connection.execute(select(source_items.c.name).where(named))).scalars())
    change = update(source_items).where(named, source_items.c.ignored != ignored).values(ignored=ignored)
    changed = set((await connection.execute(change.returning(source_items.c.name))).scalars())
    return known, changed
