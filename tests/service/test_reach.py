"""Previews of what a token could do: what it then gets over HTTP, no more and no less."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from carrel.wire.api import OPERATIONS
from carrel.wire.scopes import Scope
from tests.harness.documents import add_to_collection, create_collection, ok, upload, uploaded
from tests.harness.services import RunningService
from tests.oauth.flow import Person, an_app, v1
from tests.service.agents import an_agent, deploy
from tests.service.directory import (
    a_group,
    a_resource,
    another_organization,
    code,
    done,
    group,
    organization_id,
    readable,
    walk,
)
from tests.service.service_accounts import a_token, account, an_account, enable_service_accounts

PREVIEW = "admin/serviceAccountTokens/previewReach"
ANYBODY = "00000000-0000-7000-8000-000000000000"
NOT_CALLABLE = {(403, "missing_scope"), (403, "service_account_not_allowed")}
SCOPES = [scope.value for scope in Scope]


def preview(service: RunningService, robot: dict[str, Any], *scopes: str) -> dict[str, Any]:
    """What a token of these scopes could do."""
    asked = {"serviceAccountId": robot["serviceAccountId"], "scopes": list(scopes)}
    return done(service.call(PREVIEW, asked))


def document(external: dict[str, Any]) -> dict[str, str]:
    """How requests name an uploaded document."""
    return {"resourceId": external["documentId"], "resourceType": "UPLOADED_DOCUMENT"}


def collection(collection_id: str) -> dict[str, str]:
    """How requests name a collection."""
    return {"resourceId": collection_id, "resourceType": "DOCUMENT_COLLECTION"}


def grant(service: RunningService, resource: dict[str, str], *principals: dict[str, str], **options: Any) -> None:
    """Let these have a role in a resource, VIEWER unless `role` says otherwise, and nobody else but its owner."""
    role = options.pop("role", "VIEWER")
    grants = [{"principal": one, "role": role} for one in principals]
    done(service.call("admin/grants/set", {"resource": resource, "grants": grants, **options}))


@dataclass(frozen=True)
class World:
    """A service account that has what it has in every way there is; `names` are its documents' external ids."""

    service: RunningService
    robot: dict[str, Any]
    names: tuple[str, ...]
    direct: dict[str, Any]

    @classmethod
    def make(cls, service: RunningService) -> "World":
        """A document each: granted to it, to change, to a group around its group, to all users, to nobody."""
        enable_service_accounts(service)
        robot = an_account(service)
        inner = a_group(service, "Inner", account(robot))
        outer = a_group(service, "Outer", group(inner))
        done(service.call("admin/groups/addMembers", {"groupId": inner["id"], "members": [group(outer)]}))
        names = ("direct", "editable", "nested", "open", "closed")
        made = {name: uploaded(service, name, f"The {name} ferry.") for name in names}
        grant(service, document(made["direct"]), account(robot), group(outer))
        grant(service, document(made["editable"]), account(robot), role="EDITOR")
        grant(service, document(made["nested"]), group(outer))
        grant(service, document(made["open"]), organizationWide=True)
        seen, filled, bare, _ = (create_collection(service, name) for name in ("seen", "filled", "bare", "hidden"))
        grant(service, collection(seen), account(robot))
        grant(service, collection(filled), group(inner), role="EDITOR")
        grant(service, collection(bare), group(outer), account(robot))
        for collection_id, name in ((seen, "direct"), (filled, "nested"), (bare, "closed")):
            ok(add_to_collection(service, made[name]["documentId"], collection_id))
        an_agent(service, name="Elsewhere", apiAccessEnabled=True)
        deploy(service, an_agent(service, name="Bosun", apiAccessEnabled=True), account(robot))
        deploy(service, an_agent(service, name="Cook"), group(outer))
        deploy(service, an_agent(service, name="Mate"), account(robot), group(inner))
        deploy(service, an_agent(service, name="Pilot"), organizationWide=True)
        return cls(service, robot, names, made["direct"])

    def reality(self, *scopes: str) -> dict[str, Any]:
        """What a token of these scopes gets, in the words of the preview."""
        token = a_token(self.service, self.robot, *scopes)["token"]
        reads, writes = "catalog:read" in scopes, "catalog:write" in scopes
        agents = "catalog:read" in scopes and "agent:message" in scopes
        return {
            "endpoints": [
                name
                for name, operation in OPERATIONS.items()
                if operation.version != "v1"
                and _said(self.service.call(name, {"nonsense": 1}, api_key=token)) not in NOT_CALLABLE
            ],
            "documentCount": len(self._listed("catalog/listDocuments", token)) if reads else 0,
            "editableDocumentCount": sum(self._may_update(name, token) for name in self.names) if writes else 0,
            "collections": self._collections(token, reads=reads, writes=writes),
            "agentCount": len(self._agents(token)) if agents else None,
        }

    def _listed(self, operation: str, token: str, **body: Any) -> list[dict[str, Any]]:
        return walk(self.service, operation, body, page_size=2, api_key=token)

    def _may_update(self, name: str, token: str) -> bool:
        planned = {"documents": [{"documentExternalId": name, "fingerprint": "new"}]}
        action = done(self.service.call("catalog/planUpload", planned, api_key=token))["documents"][0]["action"]
        assert action in {"UPDATE", "FORBIDDEN"}
        return action == "UPDATE"

    def _collections(self, token: str, *, reads: bool, writes: bool) -> set[tuple[str, str]]:
        if reads:
            found = self._listed("documentCollections/listDocumentCollections", token)
            return {(one["collectionName"], one["role"]) for one in found}
        everything = walk(self.service, "documentCollections/listDocumentCollections", {}, page_size=9)
        return {(one["collectionName"], "EDITOR") for one in everything if writes and self._may_fill(one, token)}

    def _may_fill(self, one: dict[str, Any], token: str) -> bool:
        """Whether it gets as far as to be told that the metadata is wrong, which comes after its role."""
        body = {
            "documentId": self.direct["documentId"],
            "documentCollectionId": one["documentCollectionId"],
            "customMetadata": {"no such field": "x"},
        }
        said = code(self.service.call("documentCollections/addDocumentToCollection", body, api_key=token))
        assert said in {(400, "invalid_metadata"), (403, "collection_editor_required"), (404, "collection_not_found")}
        return said[0] == 400

    def _agents(self, token: str) -> list[dict[str, Any]]:
        return self._listed("permissions/listAuthorizedResources", token, action="READ", resourceType="AGENT")


def _said(response: Any) -> tuple[int, str]:
    return (200, "") if response.status_code == 200 else code(response)


SCOPES_TO_TRY = [(), *((scope,) for scope in SCOPES), ("catalog:write", "catalog:read"), tuple(SCOPES)]


def test_a_preview_is_what_the_token_then_gets(service: RunningService) -> None:
    """Endpoints, documents, collections with their roles, agents: for each scope alone, for all, and for none."""
    world = World.make(service)
    for scopes in SCOPES_TO_TRY:
        told = preview(service, world.robot, *scopes)
        real = world.reality(*scopes)
        assert told["endpoints"] == real["endpoints"], scopes
        assert told["documentCount"] == real["documentCount"] == (3 if "catalog:read" in scopes else 0), scopes
        editable = 1 if "catalog:write" in scopes else 0
        assert told["editableDocumentCount"] == real["editableDocumentCount"] == editable, scopes
        assert {(one["collectionName"], one["role"]) for one in told["collections"]} == real["collections"], scopes
        assert told["collectionCount"] == len(told["collections"])
        agents = [("Bosun", True), ("Cook", False), ("Mate", False)] if "agent:message" in scopes else []
        assert [(one["agentName"], one["apiAccessEnabled"]) for one in told["agents"]] == agents, scopes
        assert told["agentCount"] == len(agents), scopes
        assert real["agentCount"] in {None, told["agentCount"]}
        assert told["agentDocumentCount"] == 0
        token = a_token(service, world.robot, *scopes)
        assert done(service.call(PREVIEW, {"tokenId": token["tokenId"]})) == told


def test_a_preview_is_the_same_by_an_access_token(service: RunningService) -> None:
    """An admin who asks on v1 is told what one who asks with an API key is told: it is about the account's token."""
    world = World.make(service)
    deploy(service, an_agent(service, apiAccessEnabled=True), account(world.robot))
    token = Person(service).tokens(an_app(service), scope="api:admin")["access_token"]
    asked = {"serviceAccountId": world.robot["serviceAccountId"], "scopes": SCOPES}
    assert done(v1(service, PREVIEW, token, asked)) == preview(service, world.robot, *SCOPES)


def test_what_may_be_updated_is_what_the_token_then_updates(service: RunningService) -> None:
    """An upload of new contents goes through for exactly as many documents as were foretold."""
    world = World.make(service)
    foretold = preview(service, world.robot, "catalog:write")["editableDocumentCount"]
    service.http.headers["Authorization"] = f"Bearer {a_token(service, world.robot, 'catalog:write')['token']}"
    answers = {name: upload(service, name, f"The new {name} ferry.") for name in world.names}
    assert [name for name, answer in answers.items() if answer.status_code == 200] == ["editable"]
    assert {code(answer) for name, answer in answers.items() if name != "editable"} == {(403, "external_id_taken")}
    assert foretold == 1


def test_a_preview_says_what_an_admin_may_not_expect(service: RunningService) -> None:
    """What is read through groups alone, collections in which nothing would be found, agents that refuse programs."""
    world = World.make(service)
    warnings = preview(service, world.robot, *SCOPES)["warnings"]
    assert len(warnings) == 3
    assert warnings[0].startswith("In 1 of the collections it would find nothing")
    assert warnings[1].startswith("1 of 3 documents it reads only as a member of groups ('Outer'):")
    assert warnings[2].startswith("2 of 3 agents that are deployed to the service account have their API access off:")


def _answering(service: RunningService, robot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Agents by name, deployed to the account; `Bosun` and `Cook` have documents for it, each of another sort."""
    inner = a_group(service, "Inner", account(robot))
    names = ("red", "green", "blue", "black", "white")
    made = {name: uploaded(service, name, f"The {name} ferry leaves at noon.") for name in names}
    for name in ("red", "black", "white"):
        grant(service, document(made[name]), account(robot))
    grant(service, document(made["green"]), group(inner))
    sea, rail, vault, shut = (create_collection(service, name) for name in ("sea", "rail", "vault", "shut"))
    grant(service, collection(sea), account(robot))
    grant(service, collection(rail), group(inner))
    grant(service, collection(shut), account(robot))
    held = {sea: ("red", "blue"), rail: ("red", "green"), vault: ("black",), shut: ("white",)}
    for collection_id, contents in held.items():
        for name in contents:
            ok(add_to_collection(service, made[name]["documentId"], collection_id))
    agents = {
        "Bosun": an_agent(service, name="Bosun", apiAccessEnabled=True, collectionIds=[sea, vault]),
        "Cook": an_agent(service, name="Cook", apiAccessEnabled=True, collectionIds=[sea, rail]),
        "Mate": an_agent(service, name="Mate", collectionIds=[shut]),
        "Pilot": an_agent(service, name="Pilot", apiAccessEnabled=True, collectionIds=[vault]),
    }
    an_agent(service, name="Elsewhere", apiAccessEnabled=True, collectionIds=[shut])
    for name, agent in agents.items():
        deploy(service, agent, group(inner) if name == "Cook" else account(robot))
    return agents


def _quoted(service: RunningService, agents: dict[str, dict[str, Any]], token: str) -> set[str]:
    """The documents that replies to the token quote, whichever agent it asks for whichever ferry."""
    found: set[str] = set()
    for agent in agents.values():
        for name in ("red", "green", "blue", "black", "white"):
            body = {"agentId": agent["agentId"], "message": f"When does the {name} ferry leave?"}
            response = service.call("copilots/sendMessage", body, api_key=token)
            if response.status_code == 200:
                found |= {one["id"] for one in done(response)["sendChatResult"]["referencedSources"]}
    return found


def test_documents_behind_agents_are_counted_as_replies_quote_them(service: RunningService) -> None:
    """Those it may READ, in collections it may search, of agents that take its messages: each once, and no others."""
    enable_service_accounts(service)
    robot = an_account(service)
    agents = _answering(service, robot)
    told = preview(service, robot, "agent:message")
    token = a_token(service, robot, "agent:message")["token"]
    assert told["agentDocumentCount"] == len(_quoted(service, agents, token)) == 2
    assert told["documentCount"] == 0
    both = preview(service, robot, "agent:message", "catalog:read")
    assert (both["agentDocumentCount"], both["documentCount"]) == (2, 4)
    assert preview(service, robot, "catalog:read", "catalog:write")["agentDocumentCount"] == 0
    everything = {one["documentExternalId"]: one for one in walk(service, "catalog/listDocuments", {}, page_size=9)}
    done(service.call("catalog/deleteDocument", {"documentId": everything["red"]["documentId"]}))
    assert preview(service, robot, "agent:message")["agentDocumentCount"] == 1
    done(service.call("admin/agents/delete", {"agentId": agents["Cook"]["agentId"]}))
    assert preview(service, robot, "agent:message")["agentDocumentCount"] == 0


def test_a_preview_says_that_replies_quote_what_the_token_may_not_read_itself(service: RunningService) -> None:
    """Where something can be quoted, and catalog:read is not among the scopes."""
    enable_service_accounts(service)
    robot = an_account(service)
    agents = _answering(service, robot)
    quoting = "Replies of agents quote documents (2 as things are now), though the token lacks the scope catalog:read."
    assert quoting in preview(service, robot, "agent:message")["warnings"]
    assert quoting in preview(service, robot, "agent:message", "catalog:write")["warnings"]
    told = [preview(service, robot, *scopes) for scopes in (("agent:message", "catalog:read"), ("catalog:write",))]
    for name in ("Bosun", "Cook"):
        done(service.call("admin/agents/delete", {"agentId": agents[name]["agentId"]}))
    told.append(preview(service, robot, "agent:message"))
    assert not any("quote" in warning for each in told for warning in each["warnings"])


def test_a_preview_names_agents_that_have_nothing_to_search_for_the_account(service: RunningService) -> None:
    """None of their collections is open to it; one that has none, or takes no messages, isn't among them."""
    enable_service_accounts(service)
    robot = an_account(service)
    _answering(service, robot)
    deploy(service, an_agent(service, name="Bare", apiAccessEnabled=True), account(robot))

    def told(*scopes: str) -> list[str]:
        return [one for one in preview(service, robot, *scopes)["warnings"] if "none of their collections" in one]

    assert [one.split(":")[0] for one in told("agent:message")] == [
        "1 of 5 agents ('Pilot') it may message, but search none of their collections"
    ]
    assert told("catalog:read") == []
    hidden = create_collection(service, "hidden")
    for name in ("Quay", "Rope", "Sail"):
        more = an_agent(service, name=name, apiAccessEnabled=True, collectionIds=[hidden])
        deploy(service, more, account(robot))
    assert told("agent:message")[0].startswith("4 of 8 agents ('Pilot', 'Quay', 'Rope', …) it may message")
    grant(service, collection(hidden), account(robot))
    assert told("agent:message")[0].startswith("1 of 8 agents ('Pilot') it may message")


def test_an_account_without_access_reaches_nothing_and_the_preview_says_why(service: RunningService) -> None:
    """Nothing readable, nothing to change, no agent, no scopes: a sentence each."""
    enable_service_accounts(service)
    robot = an_account(service)
    grant(service, a_resource(service, "memo"), organizationWide=True)
    told = preview(service, robot, *SCOPES)
    assert [told[name] for name in ("documentCount", "editableDocumentCount", "collectionCount", "agentCount")] == [
        0
    ] * 4
    openings = ["It can read no document:", "There is no document or collection yet that it may change.", "No agent is"]
    assert len(told["warnings"]) == len(openings)
    assert all(warning.startswith(opening) for warning, opening in zip(told["warnings"], openings, strict=True))
    assert preview(service, robot)["endpoints"] == []
    assert preview(service, robot)["warnings"] == ["Without scopes a token can call nothing."]


def test_a_preview_comes_before_service_accounts_are_enabled(service: RunningService) -> None:
    """It shows what there would be, and says that nothing works until then."""
    world = World.make(service)
    before = preview(service, world.robot, "catalog:read")
    enable_service_accounts(service, enabled=False)
    after = preview(service, world.robot, "catalog:read")
    first, *rest = after.pop("warnings")
    assert first.startswith("Service accounts are not enabled")
    assert {**after, "warnings": rest} == before


def test_a_preview_follows_what_changes(service: RunningService) -> None:
    """A membership, a grant, a deletion: it is asked anew each time."""
    world = World.make(service)
    everything = {one["documentExternalId"]: one for one in walk(service, "catalog/listDocuments", {}, page_size=9)}

    def count() -> int:
        return preview(service, world.robot, "catalog:read")["documentCount"]

    grant(service, document(everything["closed"]), account(world.robot))
    assert count() == 4
    done(service.call("catalog/deleteDocument", {"documentId": everything["direct"]["documentId"]}))
    assert count() == 3
    groups = walk(service, "admin/groups/list", {"query": "Inner"}, page_size=9)
    leaving = {"groupId": groups[0]["id"], "members": [account(world.robot)]}
    done(service.call("admin/groups/removeMembers", leaving))
    assert count() == 2


def test_a_token_that_stopped_reaches_nothing(service: RunningService) -> None:
    """Revoked, expired, or its account deleted: no endpoint, no document, and the reason."""
    world = World.make(service)
    revoked, expired, orphaned = (a_token(service, world.robot, *SCOPES)["tokenId"] for _ in range(3))
    done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": revoked}))
    with service.owner_connection() as connection:
        connection.execute("UPDATE service_account_tokens SET expires_at = now() WHERE token_id = %s", [expired])
    nothing = {
        "endpoints": [],
        "documentCount": 0,
        "editableDocumentCount": 0,
        "collections": [],
        "collectionCount": 0,
        "agents": [],
        "agentCount": 0,
        "agentDocumentCount": 0,
    }
    was_revoked = ["This token was revoked: every request with it is refused (401)."]
    has_expired = ["This token has expired: every request with it is refused (401)."]
    assert done(service.call(PREVIEW, {"tokenId": revoked})) == {**nothing, "warnings": was_revoked}
    assert done(service.call(PREVIEW, {"tokenId": expired})) == {**nothing, "warnings": has_expired}
    deleted = {"serviceAccountId": world.robot["serviceAccountId"]}
    done(service.call("admin/serviceAccounts/delete", deleted))
    assert done(service.call(PREVIEW, {"tokenId": orphaned})) == {**nothing, "warnings": was_revoked}
    assert code(service.call(PREVIEW, {**deleted, "scopes": []})) == (404, "service_account_not_found")


def test_only_a_token_of_the_organization_can_be_previewed(service: RunningService) -> None:
    """Another organization's account and token are unknown, and so are groups, users and nobody."""
    enable_service_accounts(service)
    robot = an_account(service)
    token = a_token(service, robot, "catalog:read")
    theirs = another_organization(service)
    planned = {"serviceAccountId": robot["serviceAccountId"], "scopes": ["catalog:read"]}
    assert code(service.call(PREVIEW, planned, api_key=theirs)) == (404, "service_account_not_found")
    assert code(service.call(PREVIEW, {"tokenId": token["tokenId"]}, api_key=theirs)) == (404, "token_not_found")
    assert code(service.call(PREVIEW, {"tokenId": ANYBODY})) == (404, "token_not_found")
    admin = walk(service, "admin/users/list", {}, page_size=9)[0]["id"]
    for other in (ANYBODY, admin, a_group(service, "Team")["id"], str(organization_id(service))):
        asked = {"serviceAccountId": other, "scopes": ["catalog:read"]}
        assert code(service.call(PREVIEW, asked)) == (404, "service_account_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scopes": ["catalog:read"]},
        {"serviceAccountId": ANYBODY},
        {"serviceAccountId": ANYBODY, "scopes": ["catalog:read"], "tokenId": ANYBODY},
        {"serviceAccountId": ANYBODY, "scopes": ["everything"]},
        {"tokenId": "none"},
    ],
)
def test_a_preview_is_of_one_token_planned_or_there(service: RunningService, body: dict[str, Any]) -> None:
    """Half of a plan, or both a plan and a token: 400."""
    assert code(service.call(PREVIEW, body)) == (400, "invalid_request")


def test_of_many_collections_a_thousand_are_named_and_all_are_counted(service: RunningService) -> None:
    """The answer stays of a size; whether there is one to change is asked of all of them."""
    enable_service_accounts(service)
    robot = an_account(service)
    seen, changed = create_collection(service, "seen"), create_collection(service, "changed")
    grant(service, collection(seen), account(robot))
    grant(service, collection(changed), account(robot), role="EDITOR")
    with service.owner_connection() as connection:
        _copy(connection, UUID(seen), 1100, prefix="ff")
        _copy(connection, UUID(changed), 1, prefix="ffffffff")
        connection.execute("DELETE FROM resources WHERE object_id = %s", [changed])
    told = preview(service, robot, "catalog:read", "catalog:write")
    assert told["collectionCount"] == 1102
    assert len(told["collections"]) == 1000
    assert {one["role"] for one in told["collections"]} == {"VIEWER"}
    assert not any(warning.startswith("There is no document or collection") for warning in told["warnings"])


def _copy(connection: Any, collection_id: UUID, number: int, *, prefix: str) -> None:
    """Make more collections of the same organization, model and access; their ids begin with `prefix`."""
    connection.execute(
        """
        WITH made AS (
            INSERT INTO collections
                   (collection_id, organization_id, space_id, name, distance_metric, schema_fields, created_by)
            SELECT overlay(gen_random_uuid()::text PLACING %(prefix)s FROM 1)::uuid, organization_id, space_id,
                   name || number, distance_metric, schema_fields, created_by
            FROM collections, generate_series(1, %(number)s) number WHERE collection_id = %(collection_id)s
            RETURNING collection_id, organization_id
        )
        INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)
        SELECT made.collection_id, made.organization_id, 'DOCUMENT_COLLECTION', made.collection_id::text, access_class
        FROM made, resources WHERE object_id = %(collection_id)s
        """,
        {"collection_id": collection_id, "number": number, "prefix": prefix},
    )


def test_a_preview_is_for_admins_and_leaves_no_trace(service: RunningService) -> None:
    """It changes nothing, so that nothing of it is on the audit log."""
    enable_service_accounts(service)
    robot = an_account(service)
    before = done(service.call("admin/auditLog/query"))
    preview(service, robot, *SCOPES)
    assert done(service.call("admin/auditLog/query")) == before
    assert readable(service) == []
