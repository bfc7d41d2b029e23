"""Finding people, groups, service accounts and resources by a part of their names: a handful, asked of the service."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from uuid import UUID

from app.vocabulary import GROUP, PERSON, PRINCIPALS, SERVICE_ACCOUNT, kind_of, members_in_words, types_of
from app.words import one_line
from carrel import Carrel
from carrel.wire.access import ClassedResource
from carrel.wire.admin import NamedPrincipal
from carrel.wire.common import (
    GroupReference,
    PrincipalReference,
    ResourceReference,
    ResourceType,
    ServiceAccountReference,
    UserReference,
)

MOST = 20
"""So many matches are shown: of more, people type more of the name."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who can be granted something; `id` is a person's address, and a group's or service account's id."""

    kind: str
    id: str
    name: str
    note: str = ""

    @property
    def key(self) -> str:
        """What an address calls them: `user:ada@example.com`, `group:0198…`."""
        return f"{self.kind}:{self.id}"

    @property
    def label(self) -> str:
        """Who it is, in a line."""
        return one_line(" · ".join(part for part in (self.name, self.note, PRINCIPALS[self.kind]) if part))

    @property
    def reference(self) -> PrincipalReference:
        """How requests name them."""
        if self.kind == PERSON:
            return UserReference(email=self.id)
        return GroupReference(id=UUID(self.id)) if self.kind == GROUP else ServiceAccountReference(id=UUID(self.id))

    @classmethod
    def of(cls, named: NamedPrincipal) -> "Principal":
        """Return them as grants and groups name them."""
        if named.type == PERSON:
            return cls(PERSON, named.email, named.name, named.email)
        return cls(named.type, str(named.id), named.name, "" if named.type == GROUP else named.email)


@dataclass(frozen=True, slots=True)
class Resource:
    """A document, collection or agent; `id` is its identity in its source system, `object_id` its own."""

    type: ResourceType
    id: str
    name: str
    object_id: UUID | None = None

    @property
    def key(self) -> str:
        """What an address calls it: `UPLOADED_DOCUMENT:0198…`."""
        return f"{self.type.value}:{self.id}"

    @property
    def kind(self) -> str:
        """What it is to people."""
        return kind_of(self.type)

    @property
    def label(self) -> str:
        """What it is, in a line."""
        return one_line(f"{self.name} · {self.kind}")

    @property
    def reference(self) -> ResourceReference:
        """How requests name it."""
        return ResourceReference(resource_id=self.id, resource_type=self.type)

    @classmethod
    def of(cls, listed: ClassedResource) -> "Resource":
        """Return it as lists name it."""
        name = listed.name or listed.resource_id
        return cls(listed.resource_type, listed.resource_id, name, listed.object_id)


Found: TypeAlias = Principal | Resource
One = TypeVar("One", Principal, Resource)


def find_principals(client: Carrel, query: str, *, kinds: Iterable[str] = PRINCIPALS) -> list[Principal]:
    """Return who has this in a name or an address, at most `MOST` and one more; those whose name begins so are first.

    The one more tells that there are others; who shows them leaves it out.
    """
    wanted, text = frozenset(kinds), _asked(query)
    if not text:
        return []
    found = [one for kind, find in _FINDERS.items() if kind in wanted for one in find(client, text)]
    beginning = text.lower()
    return sorted(found, key=lambda one: (not one.name.lower().startswith(beginning), one.name.lower()))[: MOST + 1]


def find_resources(client: Carrel, query: str, *, kinds: Iterable[str]) -> list[Resource]:
    """Return what of these kinds has this in its name or id, at most `MOST` and one more."""
    text = _asked(query)
    if not text:
        return []
    pages = client.admin.access.list_resources(query=text, resource_types=types_of(kinds), page_size=MOST + 1)
    return [Resource.of(one) for one in next(pages.pages()).resources]


def principal_at(client: Carrel, key: str) -> Principal | None:
    """Return whom an address names by a key; None for nobody.

    A service account is found by its address, too, as if it were a person's: lists of readers name it so. Groups are
    asked for by name alone, so that one that only its id is known of is looked for among them all.
    """
    kind, _, wanted = key.partition(":")
    text = _asked(wanted)
    if not text:
        return None
    if kind == PERSON:
        found = next((one for one in _people(client, text) if one.id == wanted), None)
        return found or next((one for one in _accounts(client, text) if one.note == wanted), None)
    everyone = {GROUP: _all_groups, SERVICE_ACCOUNT: _all_accounts}.get(kind)
    return next((one for one in everyone(client) if one.id == wanted), None) if everyone else None


def resource_at(client: Carrel, key: str) -> Resource | None:
    """Return what an address names by a key; None for nothing."""
    name, _, wanted = key.partition(":")
    if name not in set(ResourceType) or not wanted or "\0" in wanted or len(wanted) > 1024:
        return None
    listed = client.admin.access.list_resources(query=wanted, resource_types=[name], page_size=100)
    return next((Resource.of(one) for one in listed if one.resource_id == wanted), None)


def told_apart(found: Iterable[One]) -> dict[str, tuple[str, One]]:
    """Return each with a label that no other has, by key: what reads alike gets the end of its id."""
    once = {one.key: one for one in found}
    labels = [one.label for one in once.values()]
    return {
        key: (one.label if labels.count(one.label) == 1 else f"{one.label} · {one_line(one.id)}", one)
        for key, one in once.items()
    }


def _asked(query: str) -> str:
    return query.replace("\0", "").strip()[:_LONGEST]


def _people(client: Carrel, query: str) -> list[Principal]:
    page = next(client.admin.users.list(query=query, page_size=MOST + 1).pages())
    return [
        Principal(PERSON, user.email, user.name, user.email if user.active else f"{user.email} · not active")
        for user in page.users
    ]


def _groups(client: Carrel, query: str) -> list[Principal]:
    page = next(client.admin.groups.list(query=query, page_size=MOST + 1).pages())
    return [Principal(GROUP, str(one.id), one.name, members_in_words(one.member_count)) for one in page.groups]


def _accounts(client: Carrel, query: str) -> list[Principal]:
    page = next(client.admin.service_accounts.list(query=query, page_size=MOST + 1).pages())
    return [
        Principal(SERVICE_ACCOUNT, str(one.service_account_id), one.display_name, one.email)
        for one in page.service_accounts
    ]


def _all_groups(client: Carrel) -> list[Principal]:
    groups = client.admin.groups.list(page_size=1000)
    return [Principal(GROUP, str(one.id), one.name, members_in_words(one.member_count)) for one in groups]


def _all_accounts(client: Carrel) -> list[Principal]:
    accounts = client.admin.service_accounts.list(page_size=1000)
    return [Principal(SERVICE_ACCOUNT, str(one.service_account_id), one.display_name, one.email) for one in accounts]


_FINDERS = {PERSON: _people, GROUP: _groups, SERVICE_ACCOUNT: _accounts}
