"""Comparing two snapshots: which resources more or fewer people may read, and who they are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from flows.operations.snapshots.difference import Change, Difference
from flows.operations.snapshots.files import read_manifest
from flows.operations.snapshots.readers import People, Readers

SHOWN, WHO, EXAMPLES = 100, 5, 3
_MOST = 10_000  # different changes that are kept apart; the figures are of all of them
_PAIRS = 4096

Found = tuple[str, str, str]


@dataclass(slots=True)
class _Group:
    resources: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Tally:
    """Counts so far, and the resources of each change: (who gained, who lost)."""

    figures: dict[str, int]
    groups: dict[tuple[int, int], _Group]

    def count(self, change: tuple[int, int], identity: str) -> None:
        """Count a resource that is in both snapshots."""
        gained, lost = change
        if not (gained or lost):
            self.figures["same"] += 1
            return
        self.figures["widened"] += bool(gained)
        self.figures["narrowed"] += bool(lost)
        self.figures["gained"] += gained.bit_count()
        self.figures["lost"] += lost.bit_count()
        if change not in self.groups and len(self.groups) == _MOST:
            self.figures["more"] += 1
            return
        group = self.groups.setdefault(change, _Group())
        group.resources += 1
        if len(group.examples) < EXAMPLES:
            group.examples.append(identity)


def compare(before: Path, after: Path) -> Difference:
    """Compare two snapshots; SnapshotError when one can't be read. Memory grows with people and classes alone."""
    manifests = [read_manifest(folder) for folder in (before, after)]  # first, since it says what is no snapshot
    people = People()
    old, new = Readers(before, people), Readers(after, people)
    tally = _Tally(dict.fromkeys(("same", "widened", "narrowed", "added", "removed", "gained", "lost", "more"), 0), {})

    @lru_cache(_PAIRS)
    def change_of(old_class: str, new_class: str) -> tuple[int, int]:
        had, have = old.of(old_class), new.of(new_class)
        return have & ~had, had & ~have

    for was, now in _match(old.resources(), new.resources()):
        if was is None or now is None:
            tally.figures["added" if was is None else "removed"] += 1
        else:
            tally.count(change_of(was[2], now[2]), now[1])
    changes = sorted(_changes(tally.groups, people), key=_weight)
    figures = {**tally.figures, "more": tally.figures["more"] + max(0, len(changes) - SHOWN)}
    return Difference(
        since=before.name,
        consistent=all(one.consistent for one in manifests),
        joined=(new.everyone & ~old.everyone).bit_count(),
        left=(old.everyone & ~new.everyone).bit_count(),
        changes=changes[:SHOWN],
        **figures,
    )


def _match(old: Iterator[Found], new: Iterator[Found]) -> Iterator[tuple[Found | None, Found | None]]:
    """Yield each resource as it was and as it is; both iterators are in the order of object ids."""
    was, now = next(old, None), next(new, None)
    while was is not None or now is not None:
        if now is None or (was is not None and was[0] < now[0]):
            yield was, None
            was = next(old, None)
        elif was is None or now[0] < was[0]:
            yield None, now
            now = next(new, None)
        else:
            yield was, now
            was, now = next(old, None), next(new, None)


def _changes(groups: dict[tuple[int, int], _Group], people: People) -> Iterator[Change]:
    for (gained, lost), group in groups.items():
        if gained:
            yield _change("widened", gained, group, people)
        if lost:
            yield _change("narrowed", lost, group, people)


def _change(kind: Literal["widened", "narrowed"], who: int, group: _Group, people: People) -> Change:
    return Change(
        change=kind,
        resources=group.resources,
        people=who.bit_count(),
        who=people.first(who, limit=WHO),
        examples=group.examples,
    )


def _weight(change: Change) -> tuple[bool, int]:
    """Return a sort key that puts widened before narrowed, and the largest first."""
    return change.change == "narrowed", -change.resources * change.people
