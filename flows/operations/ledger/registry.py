"""The source registry: all sources that have a ledger, and what each has in quarantine."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flows.operations.ledger import queries
from flows.operations.ledger.rows import storable
from flows.operations.ledger.store import Store
from flows.operations.sources.fingerprint import key_of
from flows.settings import FlowSettings

_PAGE = 1000
_COLLECTION = "collection "


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
        return self.kind.removeprefix(_COLLECTION) if self.kind.startswith(_COLLECTION) else None

    @property
    def purpose(self) -> str:
        """What was done with the source, for people."""
        return f"added to collection {self.collection}" if self.collection else "uploaded"


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """What is in quarantine; `since` in seconds since the epoch."""

    place: str
    external_id: str | None
    code: str
    message: str
    since: float
    ignored: bool


def list_sources(settings: FlowSettings) -> list[KnownSource]:
    """Return every source that has a ledger. Raises LedgerError for the first ledger that can't be read."""
    if settings.flows_database_url is not None:
        return _sources_in(settings, "")
    names = sorted(path.stem for path in settings.ledgers.glob("*.sqlite"))
    return [known for name in names for known in _sources_in(settings, name)]


def _sources_in(settings: FlowSettings, name: str) -> list[KnownSource]:
    store = Store(settings.ledger(name))
    try:
        with store.read() as connection:
            rows = queries.list_sources(connection)
    finally:
        store.close()
    return [KnownSource(row.name, row.source_id, row.kind, row.target, row.source, row.options) for row in rows]


def quarantine_rows(settings: FlowSettings, known: KnownSource) -> Iterator[QuarantineRow]:
    """Yield what of a source is in quarantine, ignored or not: problems first, then documents by external id."""
    store = Store(settings.ledger(known.ledger))
    try:
        after: tuple[int, int, str] | None = None
        while True:
            with store.read() as connection:
                rows = queries.list_quarantine(connection, known.source_id, after=after, limit=_PAGE)
            for row in rows:
                yield QuarantineRow(row.place, row.external_id, row.code, row.message, row.since, bool(row.ignored))
            if len(rows) < _PAGE:
                return
            after = (rows[-1].part, rows[-1].position, rows[-1].name)
    finally:
        store.close()


def set_ignored(settings: FlowSettings, known: KnownSource, *, names: Sequence[str], ignored: bool) -> list[str]:
    """Ignore these external ids and places, or no more; return those that are not in quarantine."""
    store = Store(settings.ledger(known.ledger))
    unknown: list[str] = []
    try:
        with store.write() as connection:
            for name in names:
                keys = queries.keys_of_name(
                    connection, known.source_id, name=storable(name), key=key_of(storable(name))
                )
                if not keys:
                    unknown.append(name)
                else:
                    queries.set_ignored(connection, known.source_id, keys=keys, ignored=ignored)
    finally:
        store.close()
    return unknown
