"""Finding people, groups, service accounts and resources by part of a name: a few, from the service."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar
from uuid import UUID

from app.formatting import one_line
from app.labels import GROUP, PERSON, PRINCIPALS, SERVICE_ACCOUNT
from carrel import Carrel, NotFoundError
from carrel.wire import common
from carrel.wire.access import ClassedResource
from carrel.wire.admin import Group, NamedPrincipal, User
from carrel.wire.service_accounts import ServiceAccount
from flows.operations.formatting import count_text, kind_of
from flows.runs import UnknownError

MOST = 20
"""The most matches shown; people narrow longer lists by typing."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, group or service account, as a holder of grants. A person's `id` is the email address."""

    kind: str
    id: str
    name: str
    note: str = ""

    @property
    def key(self) -> str:
        """The key of the principal in an address: `user:ada@example.com`, `group:0198…`."""
        return f"{self.kind}:{self.id}"

    @property
    def address(self) -> str:
        """The email address of a person or service account."""
        return self.id if self.kind == PERSON else self.note

    @property
    def facts(self) -> str:
        """Facts to tell apart principals with equal names: address or size, and kind."""
        return one_line(" · ".join(part for part in (self.note, PRINCIPALS[self.kind]) if part))

    @property
    def label(self) -> str:
        return f"{one_line(self.name)} · {self.facts}"

    @property
    def reference(self) -> common.PrincipalReference:
        if self.kind == PERSON:
            return common.UserReference(email=self.id)
        kind = common.GroupReference if self.kind == GROUP else common.ServiceAccountReference
        return kind(id=UUID(self.id))

    @classmethod
    def of(cls, named: NamedPrincipal) -> "Principal":
        if named.type == PERSON:
            return cls(PERSON, named.email, named.name, named.email)
        return cls(named.type, str(named.id), named.name, "" if named.type == GROUP else named.email)


@dataclass(frozen=True, slots=True)
class Resource:
    """A document, collection or agent; `id` is the identity in the source system, `object_id` Carrel's id."""

    type: common.ResourceType
    id: str
    name: str
    object_id: UUID | None = None

    @property
    def key(self) -> str:
        """The key of the resource in an address: `UPLOADED_DOCUMENT:0198…`."""
        return f"{self.type.value}:{self.id}"

    @property
    def kind(self) -> str:
        return kind_of(self.type)

    @property
    def facts(self) -> str:
        return self.kind

    @property
    def label(self) -> str:
        return f"{one_line(self.name)} · {self.facts}"

    @property
    def reference(self) -> common.ResourceReference:
        return common.ResourceReference(resource_id=self.id, resource_type=self.type)

    @classmethod
    def of(cls, listed: ClassedResource) -> "Resource":
        name = listed.name or listed.resource_id
        return cls(listed.resource_type, listed.resource_id, name, listed.object_id)


One = TypeVar("One", Principal, Resource)
T = TypeVar("T")


def find_principals(client: Carrel, query: str, *, kinds: Iterable[str] = PRINCIPALS) -> list[Principal]:
    """Return principals by part of a name, `MOST` and an extra at most. Names that begin with it are first."""
    asked, text, lists = frozenset(kinds), clean_query(query), _lists(client)
    if not text:
        return []

    def ask(kind: str) -> list[Principal]:
        return list(map(principal_from, islice(lists[kind](query=text, page_size=MOST + 1), MOST + 1)))

    with ThreadPoolExecutor(len(lists)) as pool:
        items = [principal for some in pool.map(ask, [kind for kind in lists if kind in asked]) for principal in some]
    beginning = text.lower()
    return sorted(items, key=lambda item: (not item.name.lower().startswith(beginning), item.name.lower()))[: MOST + 1]


def find_resources(client: Carrel, query: str) -> list[Resource]:
    """Return resources with a name or id containing a text, at most `MOST` and an extra; none for an empty text."""
    if not (text := clean_query(query)):
        return []
    pages = client.admin.access.list_resources(query=text, page_size=MOST + 1)
    return [Resource.of(resource) for resource in next(pages.pages()).resources]


def principal_at(client: Carrel, key: str) -> Principal | None:
    """Return the principal of a key in an address, or None. A service account is also found by its address."""
    kind, _, name = key.rpartition(":")
    if kind == PERSON or (not kind and "@" in name):  # addresses of earlier versions have no kind
        return _find_by_address(client, name)
    item = by_id(_lists(client)[kind], name) if kind in {GROUP, SERVICE_ACCOUNT} else None
    return None if item is None else principal_from(item)


def resource_at(client: Carrel, key: str) -> Resource | None:
    name, _, identity = key.partition(":")
    if name not in set(common.ResourceType) or not identity or "\0" in identity or len(identity) > 1024:
        return None
    types = [common.ResourceType(name)]
    listed = client.admin.access.list_resources(resource_ids=[identity], resource_types=types, page_size=1)
    return next((Resource.of(resource) for resource in listed), None)


def principal_from(item: User | Group | ServiceAccount) -> Principal:
    match item:
        case Group():
            return Principal(GROUP, str(item.id), item.name, count_text(item.member_count, "member"))
        case ServiceAccount():
            return Principal(SERVICE_ACCOUNT, str(item.service_account_id), item.display_name, item.email)
        case User():
            note = item.email if item.active else f"{item.email} · not active"
            return Principal(PERSON, item.email, item.name, note)


def is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def find_by_id(find: Callable[[UUID], T], identity: str) -> T | None:
    """Return the object with an id from an address; None for an invalid or unknown id."""
    try:
        return find(UUID(identity))
    except (ValueError, NotFoundError, UnknownError):
        return None


def by_id(listed: Callable[..., Iterable[T]], identity: str) -> T | None:
    """Return the item with this id from a list with an `ids` filter; None for an invalid or unknown id."""
    return next(iter(listed(ids=[identity])), None) if is_id(identity) else None


def disambiguate(found: Iterable[One]) -> dict[str, tuple[str, One]]:
    """Return each item by key with a label. Labels that read alike get the id."""
    once = {item.key: item for item in found}
    labels = tell_apart({key: each.label for key, each in once.items()}, {key: each.id for key, each in once.items()})
    return {key: (labels[key], each) for key, each in once.items()}


def tell_apart(labels: Mapping[str, str], facts: Mapping[str, str]) -> dict[str, str]:
    """Return the labels by key; labels that several keys share get the key's fact."""
    counts = Counter(labels.values())
    return {key: text if counts[text] == 1 else f"{text} · {one_line(facts[key])}" for key, text in labels.items()}


def clean_query(query: str) -> str:
    return query.replace("\0", "").strip()[:_LONGEST]


def _find_by_address(client: Carrel, address: str) -> Principal | None:
    if not (text := clean_query(address)):
        return None
    for kind in (PERSON, SERVICE_ACCOUNT):
        for principal in map(principal_from, _lists(client)[kind](query=text, page_size=MOST + 1)):
            if address == principal.address:
                return principal
    return None


def _lists(client: Carrel) -> Mapping[str, Callable[..., Iterable[User | Group | ServiceAccount]]]:
    admin = client.admin
    return {PERSON: admin.users.list, GROUP: admin.groups.list, SERVICE_ACCOUNT: admin.service_accounts.list}
