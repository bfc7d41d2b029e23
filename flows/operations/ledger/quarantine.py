"""The sources with a ledger, and the quarantined items, over all runs."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from flows.operations.ledger.addresses import Address, collection_of
from flows.operations.ledger.rows import LONGEST_TEXT, Failure, Run, storable
from flows.operations.ledger.statements import AnyRow, Values, upsert
from flows.operations.ledger.store import Store, open_store, open_stores
from flows.operations.ledger.tables import quarantine, runs, sources
from flows.operations.sources.documents import key_of
from flows.settings import FlowSettings

PAGE = 1000
"""Items per read."""


def quarantine_items(connection: sa.Connection, values: Sequence[Values]) -> None:
    """Store items; an ignored item stays ignored while document and fingerprint are unchanged."""
    upsert(connection, quarantine, values, change=_keep_ignored)


def _keep_ignored(new: Any) -> Values:
    is_same_id = quarantine.c.external_id.is_not_distinct_from(new.external_id)
    same = sa.and_(quarantine.c.fingerprint == new.fingerprint, is_same_id)
    since = sa.case((same, quarantine.c.since), else_=new.since)
    return {"ignored": sa.and_(quarantine.c.ignored, same), "since": since}


def release(connection: sa.Connection, run: Run, key: bytes) -> None:
    """Take a document out of the quarantine of the run's source."""
    condition = (quarantine.c.source_id == run.source_id, quarantine.c.part == 1, quarantine.c.key == key)
    connection.execute(sa.delete(quarantine).where(*condition))


def release_unseen(connection: sa.Connection, run: Run, *, names: frozenset[str]) -> None:
    """Remove items missing in this scan, of the names or (without names) all: gone or repaired."""
    unseen = (quarantine.c.source_id == run.source_id, quarantine.c.scan != run.scan)
    connection.execute(sa.delete(quarantine).where(*unseen, _matches_names(names) if names else sa.true()))


def of_scan(run: Run, *, ignored: bool | None = False, part: int | None = None) -> sa.ColumnElement[bool]:
    """Return the condition for items recorded by this scan: by default not ignored, of both parts."""
    condition = sa.and_(quarantine.c.source_id == run.source_id, quarantine.c.scan == run.scan)
    if ignored is not None:
        condition = sa.and_(condition, quarantine.c.ignored.is_(ignored))
    return condition if part is None else sa.and_(condition, quarantine.c.part == part)


def to_failure(row: AnyRow) -> Failure:
    ignored = bool(row.ignored)
    return Failure(row.place, row.external_id, row.code, row.message, row.since, ignored, row.fingerprint)


def _matches_names(names: Collection[str]) -> sa.ColumnElement[bool]:
    """Match items by key, and a manifest's rows, which may have moved since the report, by external id."""
    of_rows = sa.and_(quarantine.c.part == 0, quarantine.c.external_id.in_(names))
    return sa.or_(quarantine.c.key.in_([key_of(storable(name)) for name in names]), of_rows)


def _mark_of(row: AnyRow) -> tuple[str, str]:
    name = row.external_id
    return (name if name and len(name) <= LONGEST_TEXT else row.place), row.fingerprint


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source with a ledger, the last run's `options`, and whether the last run `is_unfinished`."""

    ledger: str
    source_id: int
    kind: str
    target: str
    identity: str
    options: str
    is_unfinished: bool

    @property
    def source(self) -> str:
        """The source as given to the last run; for an unused ledger of an older version, only its name."""
        return str(json.loads(self.options).get("source") or self.identity or self.ledger)

    @property
    def collection(self) -> str | None:
        """The id of the collection for added documents; None for uploads."""
        return collection_of(self.kind)


def list_sources(settings: FlowSettings) -> list[KnownSource]:
    """Return every source that has a ledger. Raises LedgerError for the first ledger that can't be read."""
    return [known for store in open_stores(settings.ledger("")) for known in _read_sources(store)]


def read_source(address: Address) -> KnownSource | None:
    """Return the source of a ledger; None when no run has begun on it."""
    with open_store(address) as store:
        return next(iter(_read_sources(store, name=address.name)), None)


def _read_sources(store: Store, *, name: str | None = None) -> list[KnownSource]:
    going = sa.exists().where(runs.c.source_id == sources.c.source_id, runs.c.finished_at.is_(None))
    every = sa.select(sources, going.label("going")).order_by(sources.c.source, sources.c.name)
    with store.read() as connection:
        rows = connection.execute(every if name is None else every.where(sources.c.name == name)).all()
    return [
        KnownSource(row.name, row.source_id, row.kind, row.target, row.source, row.options, row.going) for row in rows
    ]


def read_quarantine(settings: FlowSettings, known: KnownSource) -> Iterator[Failure]:
    """Yield a source's quarantine, with ignored items, page by page in the order of the ledger's keys."""
    order = (quarantine.c.part, quarantine.c.key)
    found = sa.select(quarantine).where(quarantine.c.source_id == known.source_id).order_by(*order).limit(PAGE)
    page = found
    with open_store(settings.ledger(known.ledger)) as store:
        while True:
            with store.read() as connection:
                rows = connection.execute(page).all()
            yield from map(to_failure, rows)
            if len(rows) < PAGE:
                return
            page = found.where(sa.tuple_(*order) > sa.tuple_(rows[-1].part, rows[-1].key))


def mark_ignored(settings: FlowSettings, known: KnownSource, wanted: set[tuple[str, str]], *, ignored: bool) -> int:
    """Ignore items (at most 500) in quarantine, by the service's name and fingerprint, or undo that; return the number.
    The service names an item by its external id, or by its place."""
    ours = quarantine.c.source_id == known.source_id
    named = sa.select(quarantine).where(ours, _matches_names({name for name, _ in wanted}))
    with open_store(settings.ledger(known.ledger)) as store, store.write() as connection:
        found = [row for row in connection.execute(named) if _mark_of(row) in wanted]
        for part in (0, 1):
            changed = [row.key for row in found if row.part == part and bool(row.ignored) != ignored]
            condition = sa.and_(ours, quarantine.c.part == part, quarantine.c.key.in_(changed))
            connection.execute(sa.update(quarantine).where(condition).values(ignored=ignored))
    return len(found)


def names_in_quarantine(settings: FlowSettings, known: KnownSource, names: frozenset[str]) -> set[str]:
    """Return the names (as the service has them) of items in a source's quarantine."""
    found = sa.select(quarantine).where(quarantine.c.source_id == known.source_id, _matches_names(names))
    with open_store(settings.ledger(known.ledger)) as store, store.read() as connection:
        return {_mark_of(row)[0] for row in connection.execute(found)} & names


def count_ignored(settings: FlowSettings, known: KnownSource) -> int:
    condition = sa.and_(quarantine.c.source_id == known.source_id, quarantine.c.ignored)
    with open_store(settings.ledger(known.ledger)) as store, store.read() as connection:
        return connection.execute(sa.select(sa.func.count()).where(condition)).scalar_one()
