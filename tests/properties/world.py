"""The service for the state machine: an organization with the model's names for principals and resources."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any
from uuid import UUID

import httpx

from carrel.wire.scopes import ApiScope
from service.domains.people.directory.organizations import create_organization
from service.platform.database import Database
from service.platform.identifiers import document_id_for, uuid7
from service.platform.secrets import ACCESS_TOKEN, API_KEY, MCP_ACCESS_TOKEN, mint
from tests.harness.databases import connect
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess
from tests.harness.services import RunningService
from tests.properties.model import EVERYONE, Text

ADMIN = "admin@example.test"
MODES = ("HYBRID", "LEXICAL", "SEMANTIC")
_OF_USER = "FROM principals WHERE organization_id = %(organization)s AND email = %(email)s"
SHARING = f"""
    INSERT INTO conversation_readers (organization_id, conversation_id, principal_id)
    SELECT organization_id, %(conversation)s, principal_id {_OF_USER} ON CONFLICT DO NOTHING
"""
# A consent, and what was given for it.
ALLOWING = (
    f"""
    INSERT INTO oauth_consents (principal_id, client_id, organization_id, scopes, granted_at)
    SELECT principal_id, %(client)s, organization_id, %(scopes)s, now() {_OF_USER}
    ON CONFLICT (principal_id, client_id) DO UPDATE SET scopes = excluded.scopes
    """,
    f"""
    INSERT INTO oauth_token_families (family_id, organization_id, client_id, principal_id, scopes, created_at)
    SELECT %(family)s, organization_id, %(client)s, principal_id, %(scopes)s, now() {_OF_USER}
    """,
    f"""
    INSERT INTO oauth_access_tokens
        (token_id, organization_id, family_id, client_id, principal_id, scopes, secret_hash, expires_at)
    SELECT %(token)s, organization_id, %(family)s, %(client)s, principal_id, %(scopes)s, %(hash)s,
        now() + interval '1 day' {_OF_USER}
    """,
)


def contents(text: Text) -> bytes:
    """Return a Markdown file with a heading, and so a chunk, for each part."""
    return "\n\n".join(
        f"# Part {number}\n\nThe harbour log tells of {text.marker} once more." for number in range(text.parts)
    ).encode()


def outcome_of(response: httpx.Response) -> tuple[int, str | None]:
    return response.status_code, None if response.status_code == 200 else response.json()["error"]["code"]


def words_in(shown: Any, words: Iterable[str]) -> set[str]:
    written = json.dumps(shown)
    return {word for word in words if word in written}


class World:
    """A new organization. Requests are `by` its credential, or the admin's key, for a user or for none."""

    def __init__(self, service: ServiceProcess | RunningService) -> None:
        self._service = service
        self._organization_id = uuid7()
        self._key = mint(API_KEY)
        self._secrets: dict[str, str] = {}
        self.group_ids: dict[str, str] = {}
        self.account_ids: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.collection_ids: dict[str, str] = {}
        self.agent_ids: dict[str, str] = {}
        self.document_names: dict[str, str] = {}
        self.trashed_ids: dict[str, str] = {}
        self.credential_ids: dict[str, str] = {}
        self._scim_token = ""
        self._ids_of_nobody: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        self._awaits = cycle(("true", "false"))
        asyncio.run(self._create())

    async def _create(self) -> None:
        database = Database(self._service.owner_url(), pool_size=1)
        try:
            async with database.transaction(self._organization_id) as connection:
                await create_organization(
                    connection, self._organization_id, name="Harbour", admin_email=ADMIN, api_key=self._key
                )
        finally:
            await database.close()

    # Names.

    def document_id(self, name: str) -> str:
        return str(document_id_for(self._organization_id, name))

    def resource(self, name: str) -> dict[str, str]:
        if name in self.collection_ids:
            return {"resourceId": self.collection_ids[name], "resourceType": "DOCUMENT_COLLECTION"}
        if name in self.agent_ids:
            return {"resourceId": self.agent_ids[name], "resourceType": "AGENT"}
        return {"resourceId": self.document_id(name), "resourceType": "UPLOADED_DOCUMENT"}

    def principal(self, name: str) -> dict[str, str]:
        if name in self.group_ids:
            return {"type": "group", "id": self.group_ids[name]}
        if name in self.account_ids:
            return {"type": "serviceAccount", "id": self.account_ids[name]}
        return {"type": "user", "email": name}

    def address(self, name: str) -> str:
        return self.addresses.get(name, name)

    def names(self, principals: Iterable[Mapping[str, str]]) -> list[str]:
        groups = {group_id: name for name, group_id in self.group_ids.items()}
        people = {address: name for name, address in self.addresses.items()}
        return [
            groups[one["id"]] if one["type"] == "group" else people.get(one["email"], one["email"])
            for one in principals
        ]

    def resource_names(self, resources: Iterable[Mapping[str, str]], names: Iterable[str]) -> list[str]:
        known = {tuple(self.resource(name).values()): name for name in names}
        return [known[one["resourceId"], one["resourceType"]] for one in resources]

    @property
    def service(self) -> ServiceProcess | RunningService:
        return self._service

    @property
    def organization_id(self) -> UUID:
        return self._organization_id

    # Requests.

    def call(self, operation: str, by: str | None = None, **members: Any) -> httpx.Response:
        named = {"userEmail": by} if by is not None and by not in self._secrets else {}
        return self._service.call(operation, {**members, **named}, api_key=self._secret(by))

    def ask(self, operation: str, by: str | None = None, **members: Any) -> dict[str, Any]:
        response = self.call(operation, by, **members)
        assert response.status_code == 200, response.text
        return response.json()

    def walk(self, operation: str, by: str | None = None, *, page_size: int, **members: Any) -> list[dict[str, Any]]:
        page = self.ask(operation, by, pageSize=page_size, **members)
        items = _items(page)
        while token := page.get("nextPageToken"):
            page = self.ask(operation, by, pageSize=page_size, pageToken=token, **members)
            assert 0 < len(_items(page)) <= page_size
            items += _items(page)
        return items

    def _secret(self, by: str | None) -> str:
        return self._secrets[by] if by is not None and by in self._secrets else self._key.value.get_secret_value()

    # Principals and their credentials.

    def put_user(self, name: str, **body: Any) -> httpx.Response:
        return self.call("admin/users/upsert", users=[{"email": name, **body}])

    def change_user(self, name: str, *, active: bool, is_admin: bool) -> httpx.Response:
        return self.put_user(name, active=active, isAdmin=is_admin)

    def put_members(self, group: str, members: Iterable[str]) -> httpx.Response:
        named = {"name": group, "members": [self.principal(member) for member in members]}
        response = self.call("admin/groups/upsert", groups=[named])
        if response.status_code == 200:
            self.group_ids[group] = response.json()["groups"][0]["id"]
        return response

    def add_members(self, group: str, members: Iterable[str]) -> httpx.Response:
        return self._change_members("addMembers", group, members)

    def remove_members(self, group: str, members: Iterable[str]) -> httpx.Response:
        return self._change_members("removeMembers", group, members)

    def restore_group(self, group: str) -> httpx.Response:
        self.call("admin/groups/delete", groupId=self.group_ids[group]).raise_for_status()
        return self.call("admin/groups/restore", groupId=self.group_ids[group])

    def _change_members(self, operation: str, group: str, members: Iterable[str]) -> httpx.Response:
        named = [self.principal(member) for member in members]
        return self.call(f"admin/groups/{operation}", groupId=self.group_ids[group], members=named)

    def enable_accounts(self, *, enabled: bool) -> httpx.Response:
        return self.call("admin/organization/update", serviceAccountsEnabled=enabled)

    def create_account(self, name: str) -> httpx.Response:
        response = self.call("admin/serviceAccounts/create", displayName=name)
        if response.status_code == 200:
            made = response.json()
            self.account_ids[name] = made["serviceAccountId"]
            self.addresses[name] = made["email"]
        return response

    def delete_account(self, name: str) -> httpx.Response:
        return self.call("admin/serviceAccounts/delete", serviceAccountId=self.account_ids[name])

    def mint(self, name: str, account: str, scopes: Iterable[str]) -> httpx.Response:
        named = {"serviceAccountId": self.account_ids[account], "scopes": sorted(scopes), "name": name}
        response = self.call("admin/serviceAccountTokens/mint", **named)
        if response.status_code == 200:
            made = response.json()
            self.credential_ids[name], self._secrets[name] = made["tokenId"], made["token"]
        return response

    def create_key(self, name: str, user: str, *, acts_for_users: bool) -> httpx.Response:
        response = self.call("admin/apiKeys/create", name=name, ownerEmail=user, mayActForUsers=acts_for_users)
        if response.status_code == 200:
            made = response.json()
            self.credential_ids[name], self._secrets[name] = made["apiKeyId"], made["apiKey"]
        return response

    def revoke(self, credential: str) -> httpx.Response:
        named = self.credential_ids[credential]
        if self.is_token(credential):
            return self.call("admin/serviceAccountTokens/revoke", tokenId=named)
        return self.call("admin/apiKeys/revoke", apiKeyId=named)

    def let_expire(self, credential: str) -> None:
        table, key = ("service_account_tokens", "token_id") if self.is_token(credential) else ("api_keys", "api_key_id")
        statement = f"UPDATE {table} SET expires_at = now() - interval '1 second' WHERE {key} = %s"  # noqa: S608
        with connect(self._service.owner_url()) as connection:
            assert connection.execute(statement, [self.credential_ids[credential]]).rowcount == 1

    def agent_token(self, user: str, audience: str = "mcp") -> str:
        """Return a new access token of a user for /mcp or v1, without the slow way through a browser."""
        if audience not in self._clients:
            body = {"name": audience, "redirectUris": ["https://agent.example.test/"], "scopes": [*ApiScope]}
            self._clients[audience] = self.ask("admin/oauthClients/create", audience=audience, **body)["clientId"]
        secret = mint(MCP_ACCESS_TOKEN if audience == "mcp" else ACCESS_TOKEN)
        given = {
            "organization": self._organization_id,
            "client": self._clients[audience],
            "email": user,
            "scopes": [str(scope) for scope in ApiScope],
            "family": uuid7(),
            "token": uuid7(),
            "hash": secret.hash,
        }
        with connect(self._service.owner_url()) as connection:
            for statement in ALLOWING:
                assert connection.execute(statement, given).rowcount == 1
        return secret.value.get_secret_value()

    def is_token(self, credential: str) -> bool:
        return self._secrets[credential].startswith("svc_sa_")

    # Documents, grants and collections.

    def upload(
        self,
        by: str,
        name: str,
        text: Text,
        *,
        readers: Iterable[str] | None = None,
        collection: str | None = None,
        reindex: bool = True,
    ) -> httpx.Response:
        self.document_names[self.document_id(name)] = name
        parts = {
            "documentExternalId": name,
            "documentName": text.title,
            # Every second document has its words alone while the next steps are taken.
            "awaitVectorStoreSync": next(self._awaits),
            "reindexCollections": json.dumps(reindex),
        }
        if by not in self._secrets:
            parts["uploadAsUserEmail"] = by
        if readers is not None:
            people = [self.address(one) for one in readers if one != EVERYONE and one not in self.group_ids]
            parts["allowedUsersEmailAddresses"] = json.dumps(people)
            parts["allowedGroupIds"] = json.dumps([self.group_ids[one] for one in readers if one in self.group_ids])
            parts["internalPublic"] = json.dumps(EVERYONE in readers)
        if collection is not None:
            parts["collectionId"] = self.collection_ids[collection]
        headers = {"Authorization": f"Bearer {self._secret(by)}"}
        return self._service.http.post(
            "/api/v0/catalog/uploadFile", data=parts, files={"file": ("log.md", contents(text))}, headers=headers
        )

    def delete_document(self, by: str, name: str) -> httpx.Response:
        response = self.call("catalog/deleteDocument", by, documentId=self.document_id(name))
        if response.status_code == 200:
            self.trashed_ids[name] = response.json()["trashedDocumentId"]
        return response

    def restore_document(self, by: str, name: str) -> httpx.Response:
        return self.call("catalog/restoreDocument", by, trashedDocumentId=self.trashed_ids.get(name, str(uuid7())))

    def grant(self, grants: Mapping[str, list[tuple[str, str]]]) -> httpx.Response:
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

    def share(self, by: str, name: str, given: list[tuple[str, str]]) -> httpx.Response:
        grants = [{"principal": self.principal(one), "role": role} for one, role in given]
        return self.call("permissions/setShares", by, resource=self.resource(name), grants=grants)

    def granted(self, name: str) -> set[tuple[str, str]]:
        answer = self.ask("admin/grants/list", pageSize=1000, resource=self.resource(name))
        listed = answer["grants"]
        held = zip(self.names([one["principal"] for one in listed]), (one["role"] for one in listed), strict=True)
        return {*held, *([(EVERYONE, "VIEWER")] if answer["organizationWide"] else [])}

    def transfer(self, to: str, *, owner: str | None = None, names: Iterable[str] = ()) -> httpx.Response:
        named = {"resources": [*map(self.resource, names)]} if owner is None else {"owner": self.principal(owner)}
        return self.call("admin/owners/transfer", newOwner=self.principal(to), **named)

    def offboard(self, user: str, to: str, *, by: str) -> httpx.Response:
        assert by == ADMIN
        return self.call("admin/users/offboard", email=user, newOwner=self.principal(to))

    # What an identity provider does (SCIM).

    def provision(self, user: str, *, active: bool) -> httpx.Response:
        found = self._provider("GET", f'Users?filter=userName eq "{user}"').json()["Resources"]
        path = f"Users/{found[0]['id']}" if found else f"Users/{uuid7()}"
        return self._provider("PATCH", path, {"op": "Replace", "path": "active", "value": str(active)})

    def provision_new(self, user: str) -> httpx.Response:
        return self._provider("POST", "Users", userName=user, active=True)

    def provision_end(self, user: str) -> httpx.Response:
        found = self._provider("GET", f'Users?filter=userName eq "{user}"').json()["Resources"]
        return self._provider("DELETE", f"Users/{found[0]['id'] if found else uuid7()}")

    def provision_members(self, group: str, members: Iterable[str]) -> httpx.Response:
        return self._provider(
            "PUT", f"Groups/{self.group_ids[group]}", displayName=group, members=self._values(members)
        )

    def provision_change(self, group: str, *, add: Iterable[str], remove: Iterable[str]) -> httpx.Response:
        changes = [
            *({"op": "add", "path": "members", "value": values} for values in [self._values(add)] if values),
            *({"op": "remove", "path": f'members[value eq "{one["value"]}"]'} for one in self._values(remove)),
        ]
        return self._provider("PATCH", f"Groups/{self.group_ids[group]}", *changes)

    def _values(self, members: Iterable[str]) -> list[dict[str, str]]:
        return [{"value": self._resource_id(member)} for member in members]

    def _resource_id(self, name: str) -> str:
        if name in self.group_ids:
            return self.group_ids[name]
        found = self._provider("GET", f'Users?filter=userName eq "{name}"').json()["Resources"]
        # A request that names somebody twice, who is not there, means one person.
        return str(found[0]["id"]) if found else self._ids_of_nobody.setdefault(name, str(uuid7()))

    def _provider(self, method: str, path: str, *operations: dict[str, Any], **body: Any) -> httpx.Response:
        if not self._scim_token:
            self._scim_token = self.ask("admin/scimTokens/create", name="provider")["token"]
        kind = path.partition("/")[0].removesuffix("s")
        sent = {"schemas": [f"urn:ietf:params:scim:schemas:core:2.0:{kind}"], **body}
        if method == "PATCH":
            sent = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations}
        headers = {"Authorization": f"Bearer {self._scim_token}"}
        response = self._service.http.request(method, f"/scim/v2/{path}", json=sent, headers=headers)
        if method == "GET":
            return response
        if response.is_success:
            return httpx.Response(200, json={})
        return httpx.Response(response.status_code, json={"error": {"code": response.json().get("scimType")}})

    def create_collection(self, by: str, name: str) -> httpx.Response:
        response = self.call("documentCollections/createDocumentCollection", by, collectionName=name)
        if response.status_code == 200:
            self.collection_ids[name] = response.json()["documentCollectionId"]
        return response

    def delete_collection(self, by: str, name: str) -> httpx.Response:
        members = {"documentCollectionId": self.collection_ids[name]}
        return self.call("documentCollections/deleteDocumentCollection", by, **members)

    def index_in_collection(self, by: str, document: str, collection: str, *, again: bool) -> httpx.Response:
        if again:
            return self._in_collection("reindexDocumentInCollection", by, document, collection)
        return self._in_collection("addDocumentToCollection", by, document, collection, customMetadata={})

    def remove_from_collection(self, by: str, document: str, collection: str) -> httpx.Response:
        return self._in_collection("removeDocumentFromCollection", by, document, collection)

    def _in_collection(self, operation: str, by: str, document: str, collection: str, **body: Any) -> httpx.Response:
        ids = {"documentId": self.document_id(document), "documentCollectionId": self.collection_ids[collection]}
        return self.call(f"documentCollections/{operation}", by, **ids, **body)

    # Agents.

    def put_agent(self, name: str, collections: Iterable[str], *, api_access: bool) -> httpx.Response:
        body = {"collectionIds": [self.collection_ids[each] for each in collections], "apiAccessEnabled": api_access}
        if name in self.agent_ids:
            return self.call("admin/agents/update", agentId=self.agent_ids[name], **body)
        response = self.call("admin/agents/create", name=name, **body)
        if response.status_code == 200:
            self.agent_ids[name] = response.json()["agentId"]
        return response

    def deploy_agent(self, name: str, principals: Iterable[str]) -> httpx.Response:
        named = [self.principal(one) for one in principals if one != EVERYONE]
        body = {"principals": named, "organizationWide": EVERYONE in principals}
        return self.call("admin/agents/deploy", agentId=self.agent_ids[name], **body)

    def delete_agent(self, name: str) -> httpx.Response:
        return self.call("admin/agents/delete", agentId=self.agent_ids[name])

    def message(self, by: str, agent: str, text: str, *, conversation_id: str | None, key: str) -> httpx.Response:
        body = {"agentId": self.agent_ids[agent], "message": text}
        body |= {} if conversation_id is None else {"conversationId": conversation_id}
        body |= {} if by in self._secrets else {"userEmail": by}
        headers = {"Authorization": f"Bearer {self._secret(by)}", "Idempotency-Key": key}
        return self._service.http.post("/api/v0/copilots/sendMessage", json=body, headers=headers, timeout=60)

    def read_shared(self, by: str, conversation_id: str) -> httpx.Response:
        """Read a conversation as a user with whom it is shared."""
        named = {"organization": self._organization_id, "email": by, "conversation": conversation_id}
        with connect(self._service.owner_url()) as connection:
            connection.execute(SHARING, named)
        headers = {"Authorization": f"Bearer {self.agent_token(by, 'api')}"}
        address = f"/api/v1/conversations/{conversation_id}?pageSize=1000"
        return self._service.http.get(address, headers=headers, timeout=60)

    # What a search shows.

    def finish_indexing(self) -> None:
        until(lambda: not self.ask("admin/status/get")["indexing"]["waitingDocuments"])

    def search_catalog(self, by: str, query: str, mode: str, **options: Any) -> httpx.Response:
        options |= {"maxResults": 100, "mode": mode}
        return self.call("search/searchDocumentCatalog", by, searchQuery=query, searchOptions=options)

    def search_collection(self, by: str, collection: str, query: str, mode: str) -> httpx.Response:
        return self.call(
            "search/searchDocumentCollection",
            by,
            documentCollectionId=self.collection_ids[collection],
            searchQuery=query,
            searchOptions={"maxChunks": 100, "mode": mode},
        )


def _items(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next(value for value in page.values() if isinstance(value, list))
