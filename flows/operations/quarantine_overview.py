"""An overview of the quarantine of all sources, small enough to show and send."""

from dataclasses import asdict, dataclass, field
from typing import Any

from flows.operations.quarantine import Quarantined, list_quarantine
from flows.settings import FlowSettings

_OF_A_SOURCE = 500
_OF_ALL = 5000


@dataclass
class SourceOverview:
    """A source with a quarantine: how many items count, how many are ignored, and the first of both."""

    ledger: str
    source: str
    collection: str | None
    items: int = 0
    ignored: int = 0
    shown: list[Quarantined] = field(default_factory=list[Quarantined])

    def as_json(self) -> dict[str, Any]:
        """Return the counts of a source as JSON members."""
        members = asdict(self)
        del members["shown"]
        return members


def overview(*, settings: FlowSettings, of_a_source: int = _OF_A_SOURCE, of_all: int = _OF_ALL) -> list[SourceOverview]:
    """Return every source with something in quarantine, ignored or not. Raises LedgerError."""
    found: dict[str, SourceOverview] = {}
    left = of_all
    for item in list_quarantine(settings=settings, ignored=True):
        source = found.setdefault(item.ledger, SourceOverview(item.ledger, item.source, item.collection))
        source.items += not item.ignored
        source.ignored += item.ignored
        if left and len(source.shown) < of_a_source:
            source.shown.append(item)
            left -= 1
    return list(found.values())


def item_row(item: Quarantined) -> dict[str, Any]:
    """Return an item as a row of a table; `name` is what `flows.operations.quarantine.ignore` takes."""
    return {
        "ledger": item.ledger,
        "name": item.name,
        "place": item.place,
        "document": item.external_id or "",
        "code": item.code,
        "reason": item.message,
        "since": item.since.isoformat(),
        "ignored": item.ignored,
    }
