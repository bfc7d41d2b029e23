"""Counting what somebody may read, and what another may not, by kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.labels import AGENT, COLLECTION, DOCUMENT, kind_of
from app.lookup import Principal
from carrel import Carrel
from carrel.wire.common import ResourceType

SHOWN = (DOCUMENT, COLLECTION, AGENT)
"""The kinds that are counted, in this order."""

MOST_SORTED = 20_000
"""So many are listed by their names; more are in no order that people know."""


@dataclass(frozen=True)
class Counts:
    """The number of resources of each type."""

    by_type: Mapping[ResourceType, int]

    @property
    def total(self) -> int:
        """The number of resources of all types."""
        return sum(self.by_type.values())

    def of(self, kind: str) -> int:
        """Return the number of a kind, from all sources."""
        return sum(count for resource_type, count in self.by_type.items() if kind_of(resource_type) == kind)


def count_resources(client: Carrel, who: Principal, *, without: Principal | None = None, query: str = "") -> Counts:
    """Count what somebody may read, without what another may read if given; `query` filters by name."""
    found = client.admin.access.count_resources(
        readable_by=who.reference, not_readable_by=without.reference if without else None, query=query or None
    )
    return Counts({one.resource_type: one.count for one in found.counts})


def compare_counts(
    first: Counts, second: Counts, *, only_first: Counts, only_second: Counts
) -> Sequence[tuple[str, ...]]:
    """Return a row for each kind: both, only the first, only the second."""
    names = {DOCUMENT: "Documents", COLLECTION: "Collections", AGENT: "Agents"}
    return [
        (name, *(f"{number:,}" for number in (both, only_first.of(kind), only_second.of(kind))))
        for kind, name in names.items()
        if (both := first.of(kind) - only_first.of(kind)) or first.of(kind) or second.of(kind)
    ]
