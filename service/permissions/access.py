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
        for role, grantees in ((Role.OWNER, owners), (Role.EDITOR, self.editors), (Role.VIEWER, self.viewers)):
            yield from ((grantee, role) for grantee in sorted(grantees))

    def digest(self) -> bytes:
        """What the access class of this access is found by."""
        text = "".join(f"{role}:{grantee};" for grantee, role in self.grants())
        return hashlib.sha256(text.encode()).digest()


def best_roles(grantees: Iterable[tuple[UUID, str]]) -> dict[UUID, Role]:
    """Each principal with the role by which it may do most; it may hold several."""
    best: dict[UUID, Role] = {}
    for grantee, name in grantees:
        role = Role(name)
        best[grantee] = min(role, best.get(grantee, role), key=RANKED.index)
    return best


def roles_by_id(grantees: Iterable[tuple[UUID, str]]) -> dict[str, str]:
    """Each principal's best role, as JSON: what the audit log says of an access."""
    return {str(grantee): role.value for grantee, role in best_roles(grantees).items()}
