"""The service as the state machine sees it: an organization whose principals and resources go by the model's names."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import httpx

from service.identifiers import document_id_for, uuid7
from service.identity.organizations import create_organization
from service.secrets import API_KEY, mint
from tests.harness.services import RunningService
from tests.properties.model import EVERYONE, Text

ADMIN = "admin@example.test"
MODES = ("HYBRID", "LEXICAL", "SEMANTIC")


def contents(text: Text) -> bytes:
    """A Markdown file with a heading, and so a chunk, for each part."""
    return "\n\n".join(
        f"# Part {number}\n\nThe harbour log tells of {text.marker} once more." for number in range(text.parts)
    ).encode()


def outcome_of(response: httpx.Response) -> tuple[int, str | None]:
    """The status of an answer and, of a refusal, its code."""
    return response.status_code, None if response.status_code == 200 else response.json()["error"]["code"]


def words_in(shown: Any, words: Iterable[str]) -> set[str]:
    """Which of these words occur anywhere in an answer."""
    written = json.dumps(shown)
    return {word for word in words if word in written}


class World:
    """A new organization beside all those that there are; requests are its admin's, in the name of a user."""

    def __init__(self, service: RunningService) -> None:
        self._service = service
        self._organization_id = uuid7()
        self._key = mint(API_KEY)
        self.group_ids: dict[str, str] = {}
        self.collection_ids: dict[str, str] = {}
        service.run(self._create())

    async def _create(self) -> None:
        async with self._service.runtime.database.transaction(self._organization_id) as connection:
            await create_organization(
                connection, self._organization_id, name="Harbour", admin_email=ADMIN, api_key=self._key
            )

    # Names.

    def document_id(self, name: str) -> str:
        """The id of the document of this external id, whether or not it is there."""
        return str(document_id_for(self._organization_id, name))

    def resource(self, name: str) -> dict[str, str]:
        """How a request names a document or a collection."""
        if name in self.collection_ids:
            return {"resourceId": self.collection_ids[name], "resourceType": "DOCUMENT_COLLECTION"}
        return {"resourceId": self.document_id(name), "resourceType": "UPLOADED_DOCUMENT"}

    def principal(self, name: str) -> dict[str, str]:
        """How a request names a user or a group."""
        if name in self.group_ids:
            return {"type": "group", "id": self.group_ids[name]}
        return {"type": "user", "email": name}

    # Requests.

    def call(self, operation: str, user: str | None = None, **members: Any) -> httpx.Response:
        """POST an operation, in the name of a user if it is given."""
        body = members if user is None else {**members, "userEmail": user}
        return self._service.call(operation, body, api_key=self._key.value.get_secret_value())

    def ask(self, operation: str, user: str | None = None, **members: Any) -> dict[str, Any]:
        """The same, for the body of an answer that must be a success."""
        response = self.call(operation, user, **members)
        assert response.status_code == 200, response.text
        return response.json()

    def walk(self, operation: str, user: str | None = None, *, page_size: int, **members: Any) -> list[dict[str, Any]]:
        """Every item of a paged list, in pages of this size; none of them empty but the only one."""
        page = self.ask(operation, user, pageSize=page_size, **members)
        items = _items(page)
        while token := page.get("nextPageToken"):
            page = self.ask(operation, user, pageSize=page_size, pageToken=token, **members)
            assert 0 < len(_items(page)) <= page_size
            items += _items(page)
        return items

    def put_user(self, name: str, **body: Any) -> None:
        """Create or change a user."""
        self.ask("admin/users/upsert", users=[{"email": name, **body}])

    def put_group(self, name: str, members: Iterable[str]) -> None:
        """Create a group, or replace its members."""
        group = {"name": name, "members": [self.principal(member) for member in members]}
        self.group_ids[name] = self.ask("admin/groups/upsert", groups=[group])["groups"][0]["id"]

    def change_members(self, operation: str, group: str, members: Iterable[str]) -> None:
        """Add or remove members."""
        named = [self.principal(member) for member in members]
        self.ask(f"admin/groups/{operation}", groupId=self.group_ids[group], members=named)

    def upload(
        self, actor: str, name: str, text: Text, *, readers: Iterable[str] | None, collection: str | None, reindex: bool
    ) -> httpx.Response:
        """Upload a document, and wait until it is searchable."""
        parts = {
            "documentExternalId": name,
            "documentName": text.title,
            "uploadAsUserEmail": actor,
            "awaitVectorStoreSync": "true",
            "reindexCollections": json.dumps(reindex),
        }
        if readers is not None:
            people = [one for one in readers if one != EVERYONE and one not in self.group_ids]
            parts["allowedUsersEmailAddresses"] = json.dumps(people)
            parts["allowedGroupIds"] = json.dumps([self.group_ids[one] for one in readers if one in self.group_ids])
            parts["internalPublic"] = json.dumps(EVERYONE in readers)
        if collection is not None:
            parts["collectionId"] = self.collection_ids[collection]
        headers = {"Authorization": f"Bearer {self._key.value.get_secret_value()}"}
        return self._service.http.post(
            "/api/v0/catalog/uploadFile", data=parts, files={"file": ("log.md", contents(text))}, headers=headers
        )

    def grant(self, grants: Mapping[str, list[tuple[str, str]]]) -> httpx.Response:
        """Replace the grants on one resource, or on several at once."""
        requests = [
            {
                "resource": self.resource(name),
                "grants": [{"principal": self.principal(one), "role": role} for one, role in given if one != EVERYONE],
                "organizationWide": any(one == EVERYONE for one, _ in given),
            }
            for name, given in grants.items()
        ]
        if len(requests) == 1:
            return self.call("admin/grants/set", **requests[0])
        return self.call("admin/grants/setMany", resources=requests)

    def create_collection(self, actor: str, name: str) -> httpx.Response:
        """Create a collection."""
        response = self.call("documentCollections/createDocumentCollection", actor, collectionName=name)
        if response.status_code == 200:
            self.collection_ids[name] = response.json()["documentCollectionId"]
        return response

    def in_collection(self, operation: str, actor: str, document: str, collection: str, **body: Any) -> httpx.Response:
        """Add, index again or remove a document in a collection."""
        ids = {"documentId": self.document_id(document), "documentCollectionId": self.collection_ids[collection]}
        return self.call(f"documentCollections/{operation}", actor, **ids, **body)

    # What a search shows.

    def search_catalog(self, user: str, query: str, mode: str) -> list[dict[str, Any]]:
        """The results of a search of the catalog, as many as there may be."""
        options = {"maxResults": 100, "mode": mode}
        return self.ask("search/searchDocumentCatalog", user, searchQuery=query, searchOptions=options)["results"]

    def search_collection(self, user: str, collection: str, query: str, mode: str) -> httpx.Response:
        """The answer to a search of a collection, with as many chunks as there may be."""
        return self.call(
            "search/searchDocumentCollection",
            user,
            documentCollectionId=self.collection_ids[collection],
            searchQuery=query,
            searchOptions={"maxChunks": 100, "mode": mode},
        )

    def resource_names(self, resources: Iterable[Mapping[str, str]], names: Iterable[str]) -> list[str]:
        """The model's names of resources that a look-up lists."""
        known = {tuple(self.resource(name).values()): name for name in names}
        return [known[one["resourceId"], one["resourceType"]] for one in resources]

    def principal_names(self, principals: Iterable[Mapping[str, str]]) -> list[str]:
        """The model's names of principals that a look-up lists."""
        groups = {group_id: name for name, group_id in self.group_ids.items()}
        return [groups[one["id"]] if one["type"] == "group" else one["email"] for one in principals]

    @property
    def organization_id(self) -> UUID:
        """The organization's id."""
        return self._organization_id


def _items(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next(value for value in page.values() if isinstance(value, list))
