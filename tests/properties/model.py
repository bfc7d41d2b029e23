"""Who may see and do what, as plainly as it can be said: names in sets, and nothing remembered beside them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

EVERYONE = "everyone"
OWNER, EDITOR, VIEWER = "OWNER", "EDITOR", "VIEWER"


class RefusedError(Exception):
    """What the service is to answer instead of doing it."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Text:
    """What a document says: its title, a word that no other document ever has, and how many chunks repeat it."""

    title: str
    marker: str
    parts: int

    @property
    def words(self) -> frozenset[str]:
        """The words by which it would be recognised."""
        return frozenset({self.title, self.marker})


@dataclass
class User:
    """A person."""

    active: bool = True
    is_admin: bool = False


@dataclass
class Resource:
    """Something with direct grants on it; EVERYONE may be among the viewers."""

    owner: str
    viewers: set[str] = field(default_factory=set)
    editors: set[str] = field(default_factory=set)

    @property
    def holders(self) -> set[str]:
        """Whoever has a role directly."""
        return {self.owner} | self.viewers | self.editors


@dataclass(kw_only=True)
class Document(Resource):
    """A document at its newest contents."""

    text: Text


@dataclass(kw_only=True)
class Collection(Resource):
    """A collection: what each of its documents said when it was last indexed there."""

    places: dict[str, Text] = field(default_factory=dict)


@dataclass
class Model:
    """One organization. Groups are sets of names of users and groups; names are unique over all kinds."""

    users: dict[str, User] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    collections: dict[str, Collection] = field(default_factory=dict)

    # What is seen.

    def principals(self, user: str) -> set[str]:
        """All that a user acts with: themselves, everyone, and every group around those."""
        held = {user, EVERYONE}
        while around := {group for group, members in self.groups.items() if members & held} - held:
            held |= around
        return held

    def role(self, user: str, resource: Resource) -> str | None:
        """The best role an active user has."""
        held = self.principals(user)
        if resource.owner in held:
            return OWNER
        if resource.editors & held:
            return EDITOR
        return VIEWER if resource.viewers & held else None

    def readers(self, resource: Resource) -> set[str]:
        """Every active user with a role, and every group that has one or lies inside one that has."""
        groups = resource.holders & self.groups.keys()
        while inside := {member for group in groups for member in self.groups[group]} & self.groups.keys() - groups:
            groups |= inside
        return groups | {name for name, user in self.users.items() if user.active and self.role(name, resource)}

    def readable(self, user: str) -> dict[str, Text]:
        """What a user may read in the catalog."""
        return {name: each.text for name, each in self.documents.items() if self.role(user, each)}

    def readable_in(self, user: str, collection: str) -> dict[str, Text]:
        """What a user may read of a collection's documents, as it is indexed there, under the newest title."""
        places, readable = self.collections[collection].places, self.readable(user)
        return {
            name: Text(readable[name].title, place.marker, place.parts)
            for name, place in places.items()
            if name in readable
        }

    def searchable(self, user: str) -> set[str]:
        """The collections a user may search."""
        return {name for name, each in self.collections.items() if self.role(user, each)}

    def known(self, user: str) -> dict[str, Text]:
        """The documents a user may know of: an admin of all of them."""
        if self.users[user].is_admin:
            return {name: each.text for name, each in self.documents.items()}
        return self.readable(user)

    # What is done.

    def act(self, user: str) -> None:
        """Whoever acts has to be active."""
        if not self.users[user].active:
            raise RefusedError(400, "unknown_user")

    def upload(
        self,
        actor: str,
        name: str,
        text: Text,
        *,
        readers: Iterable[str] | None = None,
        collection: str | None = None,
        reindex: bool = True,
    ) -> None:
        """Create or update a document; without `readers` who may read it stays as it was."""
        self.act(actor)
        document = self.documents.get(name)
        after = self._after_upload(actor, document, text, readers)
        if collection is not None:
            self._may_fill(actor, collection)
        self.documents[name] = after
        if document is not None and document.text != text and reindex:
            for each in self.collections.values():
                if name in each.places:
                    each.places[name] = text
        if collection is not None:
            self.collections[collection].places[name] = text

    def _after_upload(self, actor: str, before: Document | None, text: Text, readers: Iterable[str] | None) -> Document:
        if before is None:
            return Document(actor, set(readers or ()) - {actor}, text=text)
        role = self.role(actor, before)
        if role not in {OWNER, EDITOR}:
            raise RefusedError(403, "external_id_taken")
        if readers is None:
            return Document(before.owner, before.viewers, before.editors, text=text)
        after = Document(before.owner, set(readers) - {before.owner}, text=text)
        same = (after.viewers, after.editors) == (before.viewers, before.editors)
        if not same and role is not OWNER and not self.users[actor].is_admin:
            raise RefusedError(403, "owner_required")
        return after

    def delete_document(self, actor: str, name: str) -> None:
        """Delete a document everywhere."""
        self.act(actor)
        if name not in self.documents or name not in self.known(actor):
            raise RefusedError(404, "document_not_found")
        if self.role(actor, self.documents[name]) is not OWNER and not self.users[actor].is_admin:
            raise RefusedError(403, "owner_required")
        del self.documents[name]
        for each in self.collections.values():
            each.places.pop(name, None)

    def grant(self, grants: dict[str, list[tuple[str, str]]]) -> None:
        """Replace the grants on resources, all or none; their owners stay."""
        resources = {**self.documents, **self.collections}
        if not grants.keys() <= resources.keys():
            raise RefusedError(404, "resource_not_found")
        for name, given in grants.items():
            resources[name].viewers = {holder for holder, role in given if role == VIEWER}
            resources[name].editors = {holder for holder, role in given if role == EDITOR}

    def create_collection(self, actor: str, name: str) -> None:
        """Make a collection that is its creator's."""
        self.act(actor)
        self.collections[name] = Collection(actor)

    def index_in_collection(self, actor: str, document: str, collection: str, *, again: bool) -> None:
        """Put a document into a collection, or index it there again."""
        self._may_place(actor, document, collection)
        places = self.collections[collection].places
        if again and document not in places:
            raise RefusedError(404, "document_not_in_collection")
        places[document] = self.documents[document].text

    def remove_from_collection(self, actor: str, document: str, collection: str) -> None:
        """Take a document out of a collection."""
        self._may_place(actor, document, collection)
        if self.collections[collection].places.pop(document, None) is None:
            raise RefusedError(404, "document_not_in_collection")

    def delete_collection(self, actor: str, name: str) -> None:
        """Delete a collection; its documents stay."""
        self.act(actor)
        role = self.role(actor, self.collections[name]) if name in self.collections else None
        if name not in self.collections or (role is None and not self.users[actor].is_admin):
            raise RefusedError(404, "collection_not_found")
        if role is not OWNER and not self.users[actor].is_admin:
            raise RefusedError(403, "collection_owner_required")
        del self.collections[name]

    def _may_place(self, actor: str, document: str, collection: str) -> None:
        self.act(actor)
        if document not in self.readable(actor):
            raise RefusedError(404, "document_not_found")
        self._may_fill(actor, collection)

    def _may_fill(self, actor: str, collection: str) -> None:
        if collection not in self.searchable(actor):
            raise RefusedError(404, "collection_not_found")
        if self.role(actor, self.collections[collection]) == VIEWER:
            raise RefusedError(403, "collection_editor_required")


def outcome(work: Callable[..., Any], *args: Any, **options: Any) -> tuple[int, str | None]:
    """Do something to a model; the status and code the service is to answer with."""
    try:
        work(*args, **options)
    except RefusedError as refusal:
        return refusal.status, refusal.code
    return 200, None
