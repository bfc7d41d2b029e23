"""Who may do what with one resource, as a value; two resources with equal access share an access class."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from carrel.wire.common import Role

RANKED = (Role.OWNER, Role.EDITOR, Role.VIEWER)
"""Roles from the one that may do most; each may do all that those after it may."""


@dataclass(frozen=True)
class Access:
    """The direct grants on a resource. The organization's own id among them stands for all its active users."""

    owner_id: UUID | None
    viewers: frozenset[UUID] = frozenset()
    editors: frozenset[UUID] = frozenset()

    def grants(self) -> Iterator[tuple[UUID, Role]]:
        """Each principal with its role, in the order of their ids."""
        owners = () if self.owner_id is None else (self.owner_id,)
        for role, holders in ((Role.OWNER, owners), (Role.EDITOR, self.editors), (Role.VIEWER, self.viewers)):
            yield from ((holder, role) for holder in sorted(holders))

    def digest(self) -> bytes:
        """What the access class of this access is found by."""
        text = "".join(f"{role}:{holder};" for holder, role in self.grants())
        return hashlib.sha256(text.encode()).digest()


def best_roles(holders: Iterable[tuple[UUID, str]]) -> dict[UUID, Role]:
    """Each principal with the role by which it may do most; it may hold several."""
    best: dict[UUID, Role] = {}
    for holder, name in holders:
        role = Role(name)
        best[holder] = min(role, best.get(holder, role), key=RANKED.index)
    return best


def roles_by_id(holders: Iterable[tuple[UUID, str]]) -> dict[str, str]:
    """Each principal's best role, as JSON: what the audit log says of an access."""
    return {str(holder): role.value for holder, role in best_roles(holders).items()}
