"""Access: the roles of principals on a resource, as a value. Resources with equal access share an access class."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from carrel.wire.common import Role

RANKED = (Role.OWNER, Role.EDITOR, Role.VIEWER)
"""Roles, strongest first. Each includes the permissions of all weaker roles."""


@dataclass(frozen=True)
class Access:
    """The direct grants on a resource. The organization's id as a grantee stands for all its active users."""

    owner_id: UUID | None
    viewers: frozenset[UUID] = frozenset()
    editors: frozenset[UUID] = frozenset()

    @classmethod
    def of(cls, grantees: Iterable[tuple[UUID, str]]) -> "Access":
        held = defaultdict[str, set[UUID]](set)
        for grantee, role in grantees:
            held[role].add(grantee)
        owner_id = next(iter(held[Role.OWNER]), None)
        return cls(owner_id, viewers=frozenset(held[Role.VIEWER]), editors=frozenset(held[Role.EDITOR]))

    def grants(self) -> Iterator[tuple[UUID, Role]]:
        """Yield each grantee with its role: the owner, then editors, then viewers, each in the order of ids."""
        owners = () if self.owner_id is None else (self.owner_id,)
        for role, grantees in ((Role.OWNER, owners), (Role.EDITOR, self.editors), (Role.VIEWER, self.viewers)):
            yield from ((grantee, role) for grantee in sorted(grantees))

    @property
    def version(self) -> str:
        """A hash of the grants, to detect changes; without the owner, whom another operation changes."""
        return replace(self, owner_id=None).digest().hex()[:32]

    def owned_by(self, owner_id: UUID) -> "Access":
        """Return the access with a new owner. Ownership replaces the new owner's earlier roles."""
        other = {owner_id}
        return replace(self, owner_id=owner_id, viewers=self.viewers - other, editors=self.editors - other)

    def without(self, given: Iterable[tuple[UUID, str]]) -> "Access":
        """Return a copy without these (principal, role) pairs of viewers and editors; the owner stays."""
        gone = Access.of(given)
        return replace(self, viewers=self.viewers - gone.viewers, editors=self.editors - gone.editors)

    def digest(self) -> bytes:
        text = "".join(f"{role}:{grantee};" for grantee, role in self.grants())
        return hashlib.sha256(text.encode()).digest()


def best_roles(grantees: Iterable[tuple[UUID, str]]) -> dict[UUID, Role]:
    best: dict[UUID, Role] = {}
    for grantee, name in grantees:
        role = Role(name)
        best[grantee] = min(role, best.get(grantee, role), key=RANKED.index)
    return best


def roles_by_id(grantees: Iterable[tuple[UUID, str]]) -> dict[str, str]:
    """Return each grantee's strongest role as JSON for the audit log."""
    return {str(grantee): role.value for grantee, role in best_roles(grantees).items()}
