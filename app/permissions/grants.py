"""Grants on a resource: the present ones, the wanted ones, and the changes between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.formatting import one_line
from app.labels import GRANTED
from app.lookup import Principal, Resource
from carrel import Carrel
from carrel.wire.admin import Grant
from carrel.wire.common import GrantRole


class ConflictError(Exception):
    """Somebody else changed the grants since they were read."""


@dataclass(frozen=True)
class Grants:
    """The grants on a resource: roles by key of the principal, and whether everybody in the organization may read."""

    roles: Mapping[str, GrantRole]
    everybody: bool
    who: Mapping[str, Principal] = field(compare=False)

    def with_changes(
        self, *, added: Iterable[Principal], role: GrantRole, removed: Iterable[str], everybody: bool
    ) -> "Grants":
        """Return the grants with a role for the added principals, without the removed, and for everybody or not."""
        new = list(added)
        gone = frozenset(removed)
        roles = {key: had for key, had in self.roles.items() if key not in gone}
        roles |= {one.key: role for one in new}
        return Grants(roles, everybody, {**self.who, **{one.key: one for one in new}})


def grants_on(client: Carrel, resource: Resource) -> Grants:
    """Read all grants on a resource; its owner holds none of them."""
    roles: dict[str, GrantRole] = {}
    who: dict[str, Principal] = {}
    everybody = False
    for page in client.admin.grants.list(resource.reference, page_size=1000).pages():
        everybody = page.organization_wide
        for grant in page.grants:
            principal = Principal.of(grant.principal)
            who[principal.key] = principal
            roles[principal.key] = grant.role
    return Grants(roles, everybody, who)


def changes_in_words(before: Grants, after: Grants) -> list[str]:
    """Return the differences between two sets of grants, a sentence each."""
    named = {**before.who, **after.who}
    said = [
        f"{one_line(named[key].name)} ({named[key].facts}) {_change(had, has)}"
        for key in sorted(before.roles.keys() | after.roles.keys(), key=lambda key: named[key].name.lower())
        if (had := before.roles.get(key)) != (has := after.roles.get(key))
    ]
    if after.everybody and not before.everybody:
        said.insert(0, "Everybody in the organization may read it, people who come later too.")
    if before.everybody and not after.everybody:
        said.insert(0, "It is not open to everybody in the organization any more.")
    return said


def make_so(client: Carrel, resource: Resource, *, before: Grants, after: Grants) -> None:
    """Set the grants on a resource; raises ConflictError, and changes nothing, when they were changed meanwhile."""
    if grants_on(client, resource) != before:
        raise ConflictError
    wanted = [Grant(principal=after.who[key].reference, role=role) for key, role in after.roles.items()]
    client.admin.grants.set(resource.reference, wanted, organization_wide=after.everybody)


def _change(had: GrantRole | None, has: GrantRole | None) -> str:
    if has is None:
        return f"is not {_role(had)} any more."
    return f"becomes {_role(has)}." if had is None else f"becomes {_role(has)} instead of {_role(had)}."


def _role(role: GrantRole | None) -> str:
    return "" if role is None else GRANTED[role].lower()
