"""The groups that the files name, existing or to be created."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from carrel.directory.entries import Entries
from carrel.directory.tables import printable
from carrel.wire.admin import Group


@dataclass(frozen=True, slots=True)
class Target:
    """A group in the files, existing or to be created; `name` is its name afterwards."""

    external_id: str | None
    name: str
    existing: Group | None = None

    @property
    def key(self) -> str:
        """The unique key of a group, new groups included."""
        return str(self.existing.id) if self.existing else f"new {self.external_id}"

    @property
    def label(self) -> str:
        """The name of the group in the files."""
        return self.external_id or self.name

    @property
    def group_id(self) -> UUID | None:
        """The group's id, None for a group to be created."""
        return self.existing.id if self.existing else None


class Targets:
    """The groups of the files and of the organization, found by external id or, if unique, by name."""

    def __init__(self, entries: Entries, groups: Sequence[Group]) -> None:
        existing = {group.external_id: group for group in groups if group.external_id is not None}
        self.given = [
            Target(entry.external_id, entry.name, existing.get(entry.external_id))
            for entry in (entries.groups or {}).values()
        ]
        given = {target.external_id for target in self.given}
        others = [
            Target(g.external_id, g.name, g) for g in groups if g.external_id is None or g.external_id not in given
        ]
        self.by_key = {target.key: target for target in (*self.given, *others)}
        self._by_external_id = {t.external_id: t for t in self.by_key.values() if t.external_id is not None}
        self._given_by_name, self._others_by_name = _by_name(self.given), _by_name(others)

    def find(self, name: str) -> Target:
        """Return the group of an external id or name; raises LookupError with the reason."""
        found = self._by_external_id.get(name)
        if found is not None:
            return found
        named = self._given_by_name.get(name) or self._others_by_name.get(name) or []
        if len(named) == 1:
            return named[0]
        what = "several groups are called" if named else "there is no group"
        how = "use the external id" if named else "add it to the groups"
        msg = f"group: {what} {printable(name)}; {how}"
        raise LookupError(msg)

    def of_external_id(self, external_id: str) -> Target | None:
        """Return the group of an external id."""
        return self._by_external_id.get(external_id)

    def twins(self) -> Iterator[Target]:
        """Yield groups to be created that have the name of an existing group without an external id."""
        for target in self.given:
            if target.existing is None and any(
                t.external_id is None for t in self._others_by_name.get(target.name, ())
            ):
                yield target


def _by_name(targets: Iterable[Target]) -> dict[str, list[Target]]:
    named: dict[str, list[Target]] = {}
    for target in targets:
        named.setdefault(target.name, []).append(target)
    return named


def select_named_groups(entries: Entries, targets: Targets) -> list[Group]:
    """Return the existing groups whose members are in the files."""
    named = {target.key: target for target in targets.given}
    for entry in entries.memberships or ():
        with contextlib.suppress(LookupError):
            target = targets.find(entry.group)
            named[target.key] = target
    return [target.existing for target in named.values() if target.existing]
