"""Find and remove the items of the sample organization. Items that the sample didn't create are never changed.

An item with the name of a sample item is compared with the sample. Each removal searches again, so an interrupted
removal can be repeated.
"""

import contextlib
import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import carrel
from carrel.wire.access import HolderType
from carrel.wire.admin import NamedPrincipal
from carrel.wire.catalog import GetDocumentResponse
from carrel.wire.uploads import PlanAction
from flows.operations.formatting import count_text
from sample.organization import DIRECTORY, FOLDER, MANIFEST

_PAGE = 1000
_NOUNS = {
    "agent": ("agent", "agents"),
    "document": ("document", "documents"),
    "collection": ("collection", "collections"),
    "group": ("group", "groups"),
    "person": ("person", "people"),
}


@dataclass(frozen=True)
class SampleItem:
    """An item that the sample created: its kind (agent, document, collection, group or person) and its name."""

    kind: str
    name: str
    remove: Callable[[], object] = field(repr=False, compare=False)


@dataclass(frozen=True)
class SampleState:
    """The items of the sample that exist.

    A removal deletes `items` in this order. `used` names sample items that are kept because another item needs them.
    `foreign` names items that have a sample item's name and aren't the sample's. `outdated` names items of an earlier
    sample that this sample can't be loaded into; a removal deletes them.
    """

    items: Sequence[SampleItem]
    used: Sequence[str]
    foreign: Sequence[str]
    outdated: Sequence[str] = ()

    @property
    def stays(self) -> Sequence[str]:
        """The items that a removal keeps, each with the reason."""
        return [*self.used, *self.foreign]

    @property
    def hindrances(self) -> Sequence[str]:
        """The reasons why the sample can't be loaded."""
        return [*self.foreign, *self.outdated]


def count_items(items: Sequence[SampleItem]) -> str:
    """Return the number of items of each kind: "70 documents, 1 collection, 13 groups"."""
    counts = {kind: sum(item.kind == kind for item in items) for kind in _NOUNS}
    return ", ".join(count_text(count, *_NOUNS[kind]) for kind, count in counts.items() if count) or "nothing"


def find_sample(client: carrel.Carrel) -> SampleState:
    """Return the items of the sample that exist. The credential must be an admin's."""
    return _Search(client).run()


def remove_sample(state: SampleState) -> Iterator[SampleItem]:
    """Remove the items, and yield each removed item, also if another user removed it first.

    People can't be deleted. They are offboarded: they can no longer sign in.
    """
    for item in state.items:
        with contextlib.suppress(carrel.NotFoundError):
            item.remove()
        yield item


class _Search:
    """A search for the items of the sample."""

    def __init__(self, client: carrel.Carrel) -> None:
        self._client = client
        self._directory: dict[str, Any] = json.loads(DIRECTORY.read_text())
        self._used: list[str] = []
        self._foreign: list[str] = []
        self._outdated: list[str] = []

    def run(self) -> SampleState:
        documents = self._documents()
        collection = self._collection(frozenset(documents))
        agents = self._agents(collection)
        collections = self._removable_collection(collection, frozenset(documents), agents=len(agents))
        groups = self._groups(frozenset({*documents, *collections, *agents}))
        people = self._people(frozenset(groups))
        parts = (agents, documents, collections, groups, people)
        return SampleState(
            [item for part in parts for item in part.values()], self._used, self._foreign, self._outdated
        )

    def _documents(self) -> dict[UUID, SampleItem]:
        """Return the documents with a file of the sample as their newest contents."""
        catalog = self._client.catalog
        with MANIFEST.open(newline="") as file:
            rows = {row["externalId"]: row for row in csv.DictReader(file)}
        asked = [{"documentExternalId": name, "fingerprint": "sample"} for name in rows]
        found = dict[UUID, SampleItem]()
        for planned in catalog.plan_upload(asked).documents:
            name = planned.document_external_id
            if planned.document_id is None:
                if planned.action is PlanAction.FORBIDDEN:
                    self._foreign.append(f"The document {name} belongs to another user.")
                continue
            document = catalog.get_document(planned.document_id)
            if _is_file_of(document, rows[name]):
                found[document.document_id] = SampleItem(
                    "document", document.document_name, _call(catalog.delete_document, document.document_id)
                )
            else:
                self._foreign.append(f"The document {name} has other contents.")
        return found

    def _collection(self, documents: frozenset[UUID]) -> UUID | None:
        """Return the sample's collection: its name and fields fit, and it is empty or has a sample document."""
        wanted = self._directory["collection"]
        listed = self._client.document_collections.list_document_collections(collection_name=wanted["name"])
        found = next((one for one in listed if one.collection_name == wanted["name"]), None)
        if found is None:
            return None
        fields = [{"name": one.name, "type": str(one.type)} for one in found.custom_metadata_schema.fields]
        inside = self._inside(found.document_collection_id)
        known = fields in (wanted["fields"], wanted["fields_before"])
        if not known or (inside and not inside & documents):
            self._foreign.append(f"The collection {wanted['name']} isn't the sample's.")
            return None
        if fields != wanted["fields"]:
            added = ", ".join(one["name"] for one in wanted["fields"] if one not in fields)
            about = f"The collection {wanted['name']} belongs to an earlier sample, without the field {added}."
            self._outdated.append(f"{about} Remove the sample, then load it again.")
        return found.document_collection_id

    def _removable_collection(
        self, collection: UUID | None, documents: frozenset[UUID], *, agents: int
    ) -> dict[UUID, SampleItem]:
        if collection is None:
            return {}
        name = self._directory["collection"]["name"]
        if others := len(self._inside(collection) - documents):
            self._used.append(f"The collection {name} holds {count_text(others, 'other document')}.")
            return {}
        asking = sum(collection in agent.collection_ids for agent in self._client.admin.agents.list(page_size=_PAGE))
        if asking > agents:
            self._used.append(f"Another agent uses the collection {name}.")
            return {}
        delete = self._client.document_collections.delete_document_collection
        return {collection: SampleItem("collection", name, _call(delete, collection))}

    def _inside(self, collection: UUID) -> set[UUID]:
        inside = self._client.document_collections.list_documents_in_collection(collection, page_size=_PAGE)
        return {one.document_id for one in inside}

    def _agents(self, collection: UUID | None) -> dict[UUID, SampleItem]:
        """Return the agent if its settings are the sample's."""
        wanted, agents = self._directory["agent"], self._client.admin.agents
        for agent in agents.list(query=wanted["name"]):
            if agent.name != wanted["name"]:
                continue
            as_made = (agent.description, agent.instructions) == (wanted["description"], wanted["instructions"])
            if as_made and not {*agent.collection_ids} - {collection}:
                return {agent.agent_id: SampleItem("agent", agent.name, _call(agents.delete, agent.agent_id))}
            self._foreign.append(f"The agent {agent.name} has other settings.")
        return {}

    def _groups(self, own: frozenset[UUID]) -> dict[UUID, SampleItem]:
        """Return the groups that contain only sample people and groups, and give access only to `own` resources."""
        groups, wanted = self._client.admin.groups, {one["name"] for one in self._directory["groups"]}
        emails = {one["email"] for one in self._directory["users"]}
        named = [one for one in groups.list(page_size=_PAGE) if one.name in wanted]
        ids = {one.id: one.name for one in named if one.external_id == one.name}
        self._foreign += [f"The group {one.name} isn't the sample's." for one in named if one.id not in ids]
        opening = self._groups_opening_others(frozenset(ids), own)
        found = dict[UUID, SampleItem]()
        for group, name in ids.items():
            members = groups.list_members(group, page_size=_PAGE)
            if others := [one.name for one in members if not _is_sample_member(one, emails, frozenset(ids))]:
                self._used.append(f"The group {name} has other members: {', '.join(others[:3])}.")
            elif group in opening:
                self._used.append(f"The group {name} gives access to other resources.")
            else:
                found[group] = SampleItem("group", name, _call(groups.delete, group))
        return found

    def _groups_opening_others(self, groups: frozenset[UUID], own: frozenset[UUID]) -> set[UUID]:
        """Return the groups that have a grant on a resource outside `own`."""
        access, held = self._client.admin.access, dict[str, set[UUID]]()
        for holder in access.list_holders(page_size=_PAGE) if groups else ():
            if holder.principal_type is HolderType.GROUP and holder.principal_id in groups:
                held.setdefault(holder.access_class, set()).add(holder.principal_id)
        opening = set[UUID]()
        for resource in access.list_resources(page_size=_PAGE) if held else ():
            if resource.object_id not in own:
                opening |= held.get(resource.access_class, set())
        return opening

    def _people(self, groups: frozenset[UUID]) -> dict[UUID, SampleItem]:
        """Return the people who can sign in, aren't admins, own nothing, and are only in sample groups."""
        users, found = self._client.admin.users, dict[UUID, SampleItem]()
        for person in self._directory["users"]:
            email: str = person["email"]
            user = next((one for one in users.list(query=email) if one.email == email), None)
            if user is None:
                continue
            if user.name != person["name"]:
                self._foreign.append(f"{email} is another person: {user.name}.")
            elif user.active:
                plan = users.plan_offboarding(email)
                others = [one.name for one in plan.groups if one.id not in groups]
                if user.is_admin or plan.owned or plan.api_keys or others:
                    has = f"is in {', '.join(others[:3])}" if others else "has an API key"
                    has = "is an admin" if user.is_admin else "owns something" if plan.owned else has
                    self._used.append(f"{user.name} {has}.")
                else:
                    found[user.id] = SampleItem("person", user.name, _call(users.offboard, email))
        return found


def _call(remove: Callable[[Any], object], what: object) -> Callable[[], object]:
    return lambda: remove(what)


def _is_file_of(document: GetDocumentResponse, row: dict[str, str]) -> bool:
    """Return whether a document's newest contents seem to be the file of a row, without reading them.

    A run gives each file a fingerprint. An upload by hand has none.
    """
    path = FOLDER / row["path"]
    is_named = (document.document_name, document.file_name) == (row["name"], path.name)
    return is_named and document.fingerprint is not None and document.file_size == path.stat().st_size


def _is_sample_member(member: NamedPrincipal, emails: set[str], groups: frozenset[UUID]) -> bool:
    return member.email in emails if member.type == "user" else member.type == "group" and member.id in groups
