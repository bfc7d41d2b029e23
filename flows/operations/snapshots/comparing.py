"""Comparing snapshots: who newly or no longer reads what. A set of people is a number, a bit each, to fit memory."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from heapq import merge
from itertools import groupby, starmap
from operator import itemgetter
from pathlib import Path
from typing import Literal

from flows.operations.snapshots import files
from flows.operations.snapshots.parquet import Row, read_rows

_CLASSES = 4096  # whose readers are cached; others are computed again


class People:
    """The people of several snapshots, each with a bit."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self._names: list[str] = []

    def bit(self, principal_id: str) -> int:

        if principal_id not in self._bits:
            self._bits[principal_id] = len(self._bits)
            self._names.append(principal_id)
        return self._bits[principal_id]

    def set_name(self, principal_id: str, email: str) -> None:
        self._names[self.bit(principal_id)] = email

    def set_of(self, principal_ids: list[str]) -> int:
        bits = [self.bit(principal_id) for principal_id in principal_ids]
        filled = bytearray(max(bits, default=0) // 8 + 1)
        for bit in bits:
            filled[bit // 8] |= 1 << bit % 8
        return int.from_bytes(filled, "little")

    def first_names(self, people: int, *, limit: int) -> list[str]:
        names: list[str] = []
        while people and len(names) < limit:
            lowest = people & -people
            names.append(self._names[lowest.bit_length() - 1])
            people ^= lowest
        return names


class Readers:
    """A snapshot's access: `of` gives the readers of a class, `everyone` are its active users."""

    def __init__(self, folder: Path, people: People) -> None:
        self._folder = folder
        self._people = people
        self.everyone = self._everyone()
        self._groups = self._people_by_group()
        self._holders: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for access_class, principal_id, kind, _ in self._rows(files.HOLDERS):
            self._holders[str(access_class)].append((str(kind), str(principal_id)))
        self.of = lru_cache(_CLASSES)(self._readers_of)

    def resources(self) -> Iterator[tuple[str, str, str]]:
        """Yield every resource in the order of object ids: object id, identity and class."""
        for object_id, kind, resource_id, access_class in self._rows(files.RESOURCES):
            yield str(object_id), f"{kind}:{resource_id}", str(access_class)

    def _readers_of(self, access_class: str) -> int:
        return reduce(int.__or__, starmap(self._expand, self._holders.get(access_class, ())), 0)

    def _expand(self, kind: str, principal_id: str) -> int:
        if kind == "organization":
            return self.everyone
        return self._groups.get(principal_id, 0) if kind == "group" else 1 << self._people.bit(principal_id)

    def _everyone(self) -> int:
        """Return the set of active users, and remember the names of all people and service accounts."""
        users: list[str] = []
        for principal_id, kind, name, email, active in self._rows(files.PRINCIPALS):
            if kind == "group":
                continue
            self._people.set_name(str(principal_id), email or name or "")
            if kind == "user" and active == "true":
                users.append(str(principal_id))
        return self._people.set_of(users)

    def _people_by_group(self) -> dict[str, int]:
        groups = groupby(self._rows(files.GROUP_PEOPLE), key=itemgetter(0))
        return {str(group_id): self._people.set_of([str(item) for _, item in rows]) for group_id, rows in groups}

    def _rows(self, name: str) -> Iterator[Row]:
        return read_rows(files.table(self._folder, name), files.COLUMNS[name])


SHOWN, WHO, EXAMPLES = 100, 5, 3
_MOST = 10_000  # the most distinct changes that are listed; the figures cover all changes
_PAIRS = 4096

Found = tuple[str, str, str]


@dataclass(slots=True)
class _Group:
    resources: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Tally:
    """Counts so far, and the resources of each change: (people who gained, people who lost)."""

    figures: dict[str, int]
    groups: dict[tuple[int, int], _Group]

    def count(self, change: tuple[int, int], identity: str) -> None:
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


def compare(before: Path, after: Path) -> files.Difference:
    """Compare two snapshots; SnapshotError for an unreadable snapshot. Memory grows only with people and classes."""
    manifests = [files.read_manifest(folder) for folder in (before, after)]  # first, to refuse other folders
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
    changes = sorted(
        _changes(tally.groups, people), key=lambda item: (item.change == "narrowed", -item.resources * item.people)
    )
    figures = {**tally.figures, "more": tally.figures["more"] + max(0, len(changes) - SHOWN)}
    return files.Difference(
        since=before.name,
        consistent=all(manifest.consistent for manifest in manifests),
        joined=(new.everyone & ~old.everyone).bit_count(),
        left=(old.everyone & ~new.everyone).bit_count(),
        changes=changes[:SHOWN],
        **figures,
    )


def _match(old: Iterator[Found], new: Iterator[Found]) -> Iterator[tuple[Found | None, Found | None]]:
    """Yield each resource of both snapshots, ordered by object id, as a pair: None where it is missing."""
    both = merge(((item, False) for item in old), ((item, True) for item in new), key=lambda found: found[0][0])
    for _, pair in groupby(both, key=lambda found: found[0][0]):
        sides = {is_new: found for found, is_new in pair}
        yield sides.get(False), sides.get(True)


def _changes(groups: dict[tuple[int, int], _Group], people: People) -> Iterator[files.Change]:
    for (gained, lost), group in groups.items():
        kinds: dict[Literal["widened", "narrowed"], int] = {"widened": gained, "narrowed": lost}
        for kind, who in kinds.items():
            if who:
                yield files.Change(
                    change=kind,
                    resources=group.resources,
                    people=who.bit_count(),
                    who=people.first_names(who, limit=WHO),
                    examples=group.examples,
                )
