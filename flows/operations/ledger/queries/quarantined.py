"""What did not get into the catalog, over all runs."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    delete,
    func,
    or_,
    select,
    true,
    tuple_,
    update,
)

from flows.operations.ledger.queries.common import AnyRow, Values, insert_into
from flows.operations.ledger.rows import LONGEST_TEXT, Failure, ItemMark, Run, storable
from flows.operations.ledger.store import Store
from flows.operations.ledger.tables import quarantine
from flows.operations.sources.fingerprint import key_of

PAGE = 1000
"""Items that are read at a time."""


def quarantine_items(connection: Connection, values: Sequence[Values]) -> None:
    """Keep items; what is ignored stays so while it is the same document, and its fingerprint the same."""
    statement = insert_into(connection, quarantine)
    new = statement.excluded
    same = and_(
        quarantine.c.fingerprint == new.fingerprint, quarantine.c.external_id.is_not_distinct_from(new.external_id)
    )
    fresh = {
        name: new[name]
        for name in ("scan", "position", "place", "external_id", "code", "message", "fingerprint", "for_good")
    }
    fresh |= {
        "ignored": and_(quarantine.c.ignored, same),
        "since": case((same, quarantine.c.since), else_=new.since),
    }
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "part", "key"], set_=fresh), values)


def release(connection: Connection, run: Run, *, part: int, key: bytes) -> None:
    """Take one item out of the quarantine."""
    which = and_(quarantine.c.source_id == run.source_id, quarantine.c.part == part, quarantine.c.key == key)
    connection.execute(delete(quarantine).where(which))


def release_unseen(connection: Connection, run: Run, *, names: frozenset[str]) -> None:
    """Take out what this scan has not come upon, of these names or (without any) of all: it is gone, or it is well."""
    unseen = and_(quarantine.c.source_id == run.source_id, quarantine.c.scan != run.scan)
    connection.execute(delete(quarantine).where(unseen, _is_named(names) if names else true()))


def read_quarantine(store: Store, source_id: int) -> Iterator[Failure]:
    """Yield what of a source is in quarantine, ignored or not, page by page in the order of the keys."""
    order = (quarantine.c.part, quarantine.c.key)
    found = select(quarantine).where(quarantine.c.source_id == source_id).order_by(*order).limit(PAGE)
    page = found
    while True:
        with store.read() as connection:
            rows = connection.execute(page).all()
        yield from map(_to_failure, rows)
        if len(rows) < PAGE:
            return
        page = found.where(tuple_(*order) > tuple_(rows[-1].part, rows[-1].key))


def read_failures(store: Store, run: Run, *, limit: int | None) -> Iterator[Failure]:
    """Yield what this scan has come upon and is not ignored: problems in the source's order, then documents by id."""
    name = func.coalesce(quarantine.c.external_id, quarantine.c.place)
    found = (
        select(quarantine)
        .where(quarantine.c.source_id == run.source_id, quarantine.c.scan == run.scan, quarantine.c.ignored.is_(False))
        .order_by(quarantine.c.part, quarantine.c.position, name)
        .limit(limit)
    )
    with store.read() as connection:
        yield from map(_to_failure, connection.execution_options(yield_per=PAGE).execute(found))


def _to_failure(row: AnyRow) -> Failure:
    since, ignored = row.since, bool(row.ignored)
    return Failure(row.place, row.external_id, row.code, row.message, since, ignored, row.fingerprint)


def find_quarantined(connection: Connection, run: Run, names: Sequence[str]) -> set[str]:
    """Return which of these external ids and places are in quarantine, ignored or not, from any run."""
    by_key = {key_of(storable(name)): name for name in names}
    found = select(quarantine.c.key).where(quarantine.c.source_id == run.source_id, quarantine.c.key.in_(by_key))
    return {by_key[bytes(key)] for key in connection.execute(found).scalars()}


def mark_ignored(connection: Connection, source_id: int, items: Collection[ItemMark], *, ignored: bool) -> int:
    """Ignore those of the items, at most 500, that are in quarantine as they are said to be, or ignore them no more.

    Returns how many are.
    """
    wanted = {(item.external_id or item.place, item.fingerprint) for item in items}
    named = and_(quarantine.c.source_id == source_id, _is_named({name for name, _ in wanted}))
    found = [row for row in connection.execute(select(quarantine).where(named)) if _mark_of(row) in wanted]
    for part in (0, 1):
        changed = [row.key for row in found if row.part == part and bool(row.ignored) != ignored]
        which = and_(quarantine.c.source_id == source_id, quarantine.c.part == part, quarantine.c.key.in_(changed))
        connection.execute(update(quarantine).where(which).values(ignored=ignored))
    return len(found)


def names_in_quarantine(connection: Connection, source_id: int, names: frozenset[str]) -> set[str]:
    """Return which of these names, as the service has them, items in quarantine have."""
    found = select(quarantine).where(quarantine.c.source_id == source_id, _is_named(names))
    return {_mark_of(row)[0] for row in connection.execute(found)} & names


def _is_named(names: Collection[str]) -> ColumnElement[bool]:
    # A row of a manifest has its place as its key, and may have moved since it was reported.
    of_rows = and_(quarantine.c.part == 0, quarantine.c.external_id.in_(names))
    return or_(quarantine.c.key.in_([key_of(storable(name)) for name in names]), of_rows)


def _mark_of(row: AnyRow) -> tuple[str, str]:
    """Return what the service names a row by: its place, where its external id is missing or too long."""
    name = row.external_id
    return (name if name and len(name) <= LONGEST_TEXT else row.place), row.fingerprint


def count_ignored(connection: Connection, source_id: int) -> int:
    """Return how many items of a source are ignored."""
    ignored = and_(quarantine.c.source_id == source_id, quarantine.c.ignored)
    return connection.execute(select(func.count()).where(ignored)).scalar_one()


def count_codes(connection: Connection, run: Run) -> dict[str, int]:
    """Return how often each code occurs among what this scan has in quarantine."""
    found = select(quarantine.c.code, func.count().label("number")).where(
        quarantine.c.source_id == run.source_id, quarantine.c.scan == run.scan, quarantine.c.ignored.is_(False)
    )
    return {row.code: row.number for row in connection.execute(found.group_by(quarantine.c.code))}


def count_problems(connection: Connection, run: Run, *, ignored: bool) -> int:
    """Return how many items that this scan found can't be a document: those that are ignored, or the others."""
    found = select(func.count()).where(
        quarantine.c.source_id == run.source_id, quarantine.c.scan == run.scan, quarantine.c.part == 0
    )
    return connection.execute(found.where(quarantine.c.ignored.is_(ignored))).scalar_one()


def problems_named(connection: Connection, run: Run, *, names: Sequence[str]) -> set[str]:
    """Return which of these external ids the scan has come upon as what can't be a document."""
    found = select(quarantine.c.external_id).where(
        quarantine.c.source_id == run.source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == run.scan,
        quarantine.c.external_id.in_(names),
    )
    return {str(name) for name in connection.execute(found).scalars()}


def problems_hiding(connection: Connection, run: Run, *, codes: Sequence[str]) -> tuple[int, str]:
    """Return (number, one place) of what this scan could not see into: without an external id, or of these codes."""
    found = select(func.count().label("number"), func.min(quarantine.c.place).label("place")).where(
        quarantine.c.source_id == run.source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == run.scan,
        or_(quarantine.c.external_id.is_(None), quarantine.c.code.in_(codes)),
    )
    number, place = connection.execute(found).one()
    return number, place or ""
