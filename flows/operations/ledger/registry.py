"""The source registry: all sources that have a ledger, and what each has in quarantine."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from flows.operations.ledger.addresses import Address, collection_of
from flows.operations.ledger.places import open_store, open_stores
from flows.operations.ledger.queries import quarantined, runs
from flows.operations.ledger.queries.common import AnyRow
from flows.operations.ledger.rows import Failure, ItemMark
from flows.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source that has a ledger of the name `ledger`; `options` are its last run's (flows.operations.options)."""

    ledger: str
    source_id: int
    kind: str
    target: str
    identity: str
    options: str

    @property
    def source(self) -> str:
        """What the last run was given; of an older ledger that has not been used since, nothing but its name."""
        return str(json.loads(self.options).get("source") or self.identity or self.ledger)

    @property
    def collection(self) -> str | None:
        """The id of the collection that documents were added to; None: they were uploaded."""
        return collection_of(self.kind)

    @property
    def purpose(self) -> str:
        """What was done with the source, for people."""
        return f"added to collection {self.collection}" if self.collection else "uploaded"


def list_sources(settings: FlowSettings) -> list[KnownSource]:
    """Return every source that has a ledger. Raises LedgerError for the first ledger that can't be read."""
    found: list[KnownSource] = []
    for store in open_stores(settings.ledger("")):
        with store.read() as connection:
            rows = runs.list_sources(connection)
        found += map(_source_of, rows)
    return found


def read_source(address: Address) -> KnownSource | None:
    """Return the source of a ledger; None when no run has begun on it."""
    with open_store(address) as store, store.read() as connection:
        row = runs.read_source(connection, address.name)
    return None if row is None else _source_of(row)


def _source_of(row: AnyRow) -> KnownSource:
    return KnownSource(row.name, row.source_id, row.kind, row.target, row.source, row.options)


def read_quarantine(settings: FlowSettings, known: KnownSource) -> Iterator[Failure]:
    """Yield what of a source is in quarantine, ignored or not, in the order of the ledger's keys."""
    with open_store(settings.ledger(known.ledger)) as store:
        yield from quarantined.read_quarantine(store, known.source_id)


def mark_ignored(settings: FlowSettings, known: KnownSource, items: Collection[ItemMark], *, ignored: bool) -> int:
    """Ignore those of the items, at most 500, that are in quarantine as they are said to be, or ignore them no more.

    Returns how many are.
    """
    with open_store(settings.ledger(known.ledger)) as store, store.write() as connection:
        return quarantined.mark_ignored(connection, known.source_id, items, ignored=ignored)


def names_in_quarantine(settings: FlowSettings, known: KnownSource, names: frozenset[str]) -> set[str]:
    """Return which of these names, as the service has them, items in a source's quarantine have."""
    with open_store(settings.ledger(known.ledger)) as store, store.read() as connection:
        return quarantined.names_in_quarantine(connection, known.source_id, names)


def count_ignored(settings: FlowSettings, known: KnownSource) -> int:
    """Return how many items of a source its ledger ignores."""
    with open_store(settings.ledger(known.ledger)) as store, store.read() as connection:
        return quarantined.count_ignored(connection, known.source_id)
