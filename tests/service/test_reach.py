"""Previews of a token's rights equal the real access over HTTP."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID, uuid4

import pytest

from carrel.wire.api import OPERATIONS
from carrel.wire.permissions import WhoAmIRequest
from carrel.wire.scopes import Scope
from service.auth.authorization import require_confirmation
from service.auth.callers import Caller
from service.domains.access.lookups.service import who_am_i
from service.platform.errors import Unauthenticated
from tests.harness.cases import statement
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded
from tests.harness.services import RunningService
from tests.oauth.flow import an_app, v1
from tests.service.conversations import an_access_token, an_agent, deploy
from tests.service.directory import (
    a_group,
    a_resource,
    code,
    collection,
    document,
    done,
    grant,
    group,
    organization_id,
    walk,
)
from tests.service.service_accounts import a_token, account, an_account, enable_service_accounts

PREVIEW, LOOKUP = "admin/serviceAccountTokens/previewReach", "permissions/listAuthorizedResources"
ANYBODY = "00000000-0000-7000-8000-000000000000"
NOT_CALLABLE = {(403, "missing_scope"), (403, "service_account_not_allowed")}
SCOPES = [scope.value for scope in Scope]


def preview(service: RunningService, robot: dict, *scopes: str) -> dict:
    return done(service.call(PREVIEW, {"serviceAccountId": robot["serviceAccountId"], "scopes": list(scopes)}))


@dataclass(frozen=True)
class World:
    """A service account with access by every possible way; `names` are its documents' external ids."""

    service: RunningService
    robot: dict
    names: tuple[str, ...]
    direct_id: str

    @classmethod
    def make(cls, service: RunningService) -> "World":
        enable_service_accounts(service)
        robot = an_account(service)
        inner = a_group(service, "Inner", account(robot))
        outer = a_group(service, "Outer", group(inner))
        done(service.call("admin/groups/addMembers", {"groupId": inner["id"], "members": [group(outer)]}))
        names = ("direct", "editable", "nested", "open", "closed")
        made = {name: uploaded(service, name, f"The {name} ferry.")["documentId"] for name in names}
        grant(service, document(made["direct"]), account(robot), group(outer))
        grant(service, document(made["editable"]), account(robot), role="EDITOR")
        grant(service, document(made["nested"]), group(outer))
        grant(service, document(made["open"]), organizationWide=True)
        seen, filled, bare, _ = (create_collection(service, name) for name in ("seen", "filled", "bare", "hidden"))
        grant(service, collection(seen), account(robot))
        grant(service, collection(filled), group(inner), role="EDITOR")
        grant(service, collection(bare), group(outer), account(robot))
        for collection_id, name in ((seen, "direct"), (filled, "nested"), (bare, "closed")):
            ok(add_to_collection(service, made[name], collection_id))
        an_agent(service, name="Elsewhere", apiAccessEnabled=True)
        deploy(service, an_agent(service, name="Bosun", apiAccessEnabled=True), account(robot))
        deploy(service, an_agent(service, name="Cook"), group(outer))
        deploy(service, an_agent(service, name="Mate"), account(robot), group(inner))
        deploy(service, an_agent(service, name="Pilot"), organizationWide=True)
        return cls(service, robot, names, made["direct"])

    def reality(self, *scopes: str) -> dict:
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
            "agentCount": len(self._listed(LOOKUP, token, action="READ", resourceType="AGENT")) if agents else None,
        }

    def _listed(self, operation: str, token: str, **body) -> list[dict]:
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

    def _may_fill(self, one: dict, token: str) -> bool:
        body = {
            "documentId": self.direct_id,
            "documentCollectionId": one["documentCollectionId"],
            "customMetadata": {"no such field": "x"},
        }
        said = code(self.service.call("documentCollections/addDocumentToCollection", body, api_key=token))
        assert said in {(400, "invalid_metadata"), (403, "collection_editor_required"), (404, "collection_not_found")}
        return said[0] == 400


def _said(response) -> tuple[int, str]:
    return (200, "") if response.status_code == 200 else code(response)


@pytest.fixture(scope="module")
def world(module_service: RunningService) -> World:
    return World.make(module_service)


def test_a_preview_is_what_the_token_then_gets(world: World) -> None:
    service = world.service
    for scopes in [(), *((scope,) for scope in SCOPES), ("catalog:write", "catalog:read"), tuple(SCOPES)]:
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
        assert done(service.call(PREVIEW, {"tokenId": a_token(service, world.robot, *scopes)["tokenId"]})) == told


def test_a_preview_says_what_an_admin_may_not_expect(world: World) -> None:
    service = world.service
    before = done(service.call("admin/auditLog/query"))
    told = preview(service, world.robot, *SCOPES)
    assert done(service.call("admin/auditLog/query")) == before
    warnings = told["warnings"]
    assert len(warnings) == 3
    assert warnings[0].startswith("It finds nothing in 1 of the collections")
    assert warnings[1].startswith("It reads 1 of 3 documents only through groups ('Outer').")
    assert warnings[2].startswith("2 of the 3 agents deployed to the service account have API access off")
    [admin] = walk(service, "admin/users/list", {}, page_size=9)
    token = an_access_token(an_app(service), admin["id"], scope="api:admin")
    asked = {"serviceAccountId": world.robot["serviceAccountId"], "scopes": SCOPES}
    assert done(v1(service, PREVIEW, token, asked)) == told


def _answering(service: RunningService, robot: dict) -> dict[str, dict]:
    inner = a_group(service, "Inner", account(robot))
    names = ("red", "green", "blue", "black", "white")
    made = {name: uploaded(service, name, f"The {name} ferry leaves at noon.")["documentId"] for name in names}
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
            ok(add_to_collection(service, made[name], collection_id))
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


def _quoted(service: RunningService, agents: dict[str, dict], token: str) -> set[str]:
    found: set[str] = set()
    for agent in agents.values():
        for name in ("red", "green", "blue", "black", "white"):
            body = {"agentId": agent["agentId"], "message": f"When does the {name} ferry leave?"}
            response = service.call("copilots/sendMessage", body, api_key=token)
            if response.status_code != 200:
                break
            found |= {one["id"] for one in done(response)["sendChatResult"]["referencedSources"]}
    return found


def test_documents_behind_agents_are_counted_as_replies_quote_them(service: RunningService) -> None:
    enable_service_accounts(service)
    robot = an_account(service)
    agents = _answering(service, robot)

    def quotes(*scopes: str) -> tuple[int, list[str]]:
        shown = preview(service, robot, *scopes)
        return shown["agentDocumentCount"], [warning for warning in shown["warnings"] if "quote" in warning]

    def told(*scopes: str) -> list[str]:
        return [one for one in preview(service, robot, *scopes)["warnings"] if "can't search their collections" in one]

    assert len(_quoted(service, agents, a_token(service, robot, "agent:message")["token"])) == 2
    quoting = "Agents' replies quote documents (2 at present), even if the token lacks the scope catalog:read."
    assert quotes("agent:message") == quotes("agent:message", "catalog:write") == (2, [quoting])
    assert quotes("agent:message", "catalog:read") == (2, [])
    assert quotes("catalog:read", "catalog:write") == quotes("catalog:write") == (0, [])
    counts = [preview(service, robot, "agent:message", *more)["documentCount"] for more in ((), ("catalog:read",))]
    assert counts == [0, 4]
    deploy(service, an_agent(service, name="Bare", apiAccessEnabled=True), account(robot))
    assert [one.split(", so")[0] for one in told("agent:message")] == [
        "It may message 1 of 5 agents ('Pilot'), but can't search their collections"
    ]
    assert told("catalog:read") == []
    hidden = create_collection(service, "hidden")
    for name in ("Quay", "Rope", "Sail"):
        more = an_agent(service, name=name, apiAccessEnabled=True, collectionIds=[hidden])
        deploy(service, more, account(robot))
    assert told("agent:message")[0].startswith("It may message 4 of 8 agents ('Pilot', 'Quay', 'Rope', …)")
    grant(service, collection(hidden), account(robot))
    assert told("agent:message")[0].startswith("It may message 1 of 8 agents ('Pilot')")
    everything = {one["documentExternalId"]: one for one in walk(service, "catalog/listDocuments", {}, page_size=9)}
    done(service.call("catalog/deleteDocument", {"documentId": everything["red"]["documentId"]}))
    assert quotes("agent:message")[0] == 1
    for name in ("Cook", "Bosun"):
        done(service.call("admin/agents/delete", {"agentId": agents[name]["agentId"]}))
        assert quotes("agent:message")[0] == 0
    assert quotes("agent:message") == (0, [])


def test_an_account_without_access_reaches_nothing_and_the_preview_says_why(service: RunningService) -> None:
    enable_service_accounts(service)
    robot = an_account(service)
    grant(service, a_resource(service, "memo"), organizationWide=True)
    told = preview(service, robot, *SCOPES)
    assert not any(told[name] for name in ("documentCount", "editableDocumentCount", "collectionCount", "agentCount"))
    openings = ["It can read no document,", "It may not change any existing document or collection.", "No agent is"]
    assert len(told["warnings"]) == len(openings)
    assert all(warning.startswith(opening) for warning, opening in zip(told["warnings"], openings, strict=True))
    assert preview(service, robot)["endpoints"] == ["permissions/whoAmI"]
    assert preview(service, robot)["warnings"] == ["Without scopes, a token can't call any operation."]


def test_a_preview_follows_what_changes(service: RunningService) -> None:
    world = World.make(service)
    everything = {one["documentExternalId"]: one for one in walk(service, "catalog/listDocuments", {}, page_size=9)}
    robot = {"serviceAccountId": world.robot["serviceAccountId"]}
    before = preview(service, world.robot, "catalog:read")
    enable_service_accounts(service, enabled=False)
    after = preview(service, world.robot, "catalog:read")
    first, *rest = after.pop("warnings")
    assert first.startswith("Service accounts are not enabled")
    assert {**after, "warnings": rest} == before
    enable_service_accounts(service)

    def count() -> int:
        return preview(service, world.robot, "catalog:read")["documentCount"]

    grant(service, document(everything["closed"]["documentId"]), account(world.robot))
    assert count() == 4
    done(service.call("catalog/deleteDocument", {"documentId": everything["direct"]["documentId"]}))
    assert count() == 3
    groups = walk(service, "admin/groups/list", {"query": "Inner"}, page_size=9)
    done(service.call("admin/groups/removeMembers", {"groupId": groups[0]["id"], "members": [account(world.robot)]}))
    assert count() == 2
    revoked, expired, orphaned = (a_token(service, world.robot, *SCOPES)["tokenId"] for _ in range(3))
    done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": revoked}))
    service.execute("UPDATE service_account_tokens SET expires_at = now() WHERE token_id = %s", [expired])
    numbers = ("documentCount", "editableDocumentCount", "collectionCount", "agentCount", "agentDocumentCount")
    nothing = {"endpoints": [], "collections": [], "agents": [], **dict.fromkeys(numbers, 0)}
    was_revoked = ["This token was revoked: every request with it is refused (401)."]
    has_expired = ["This token has expired: every request with it is refused (401)."]
    assert done(service.call(PREVIEW, {"tokenId": revoked})) == {**nothing, "warnings": was_revoked}
    assert done(service.call(PREVIEW, {"tokenId": expired})) == {**nothing, "warnings": has_expired}
    done(service.call("admin/serviceAccounts/delete", robot))
    assert done(service.call(PREVIEW, {"tokenId": orphaned})) == {**nothing, "warnings": was_revoked}
    assert code(service.call(PREVIEW, {**robot, "scopes": []})) == (404, "service_account_not_found")


def test_a_preview_is_of_one_token_planned_or_there(module_service: RunningService) -> None:
    of, scopes = {"serviceAccountId": ANYBODY}, {"scopes": ["catalog:read"]}
    wrong = [{}, scopes, of, of | scopes | {"tokenId": ANYBODY}, of | {"scopes": ["everything"]}, {"tokenId": "none"}]
    for body in wrong:
        assert code(module_service.call(PREVIEW, body)) == (400, "invalid_request"), body


def test_of_many_collections_a_thousand_are_named_and_all_are_counted(service: RunningService) -> None:
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
    assert not any(warning.startswith("It may not change any") for warning in told["warnings"])


def _copy(connection, collection_id: UUID, number: int, *, prefix: str) -> None:
    """Make more collections of equal organization, model and access; ids begin with `prefix`."""
    connection.execute(
        statement("many_collections"), {"collection_id": collection_id, "number": number, "prefix": prefix}
    )


def test_a_credential_that_is_deleted_during_a_request_is_refused(service: RunningService) -> None:
    here, me = organization_id(service), uuid4()
    caller = Caller(
        here, me, (me, here), kind="user", email="", name="", is_admin=True, credential_id=me, may_act_for_users=False,
        page_key=b"",
    )  # fmt: skip
    described = partial(who_am_i, caller=caller, request=WhoAmIRequest())
    for check in (described, partial(require_confirmation, caller=caller, now=datetime.now(UTC), issuer="")):
        with pytest.raises(Unauthenticated, match="no longer exists"):
            service.in_transaction(here, check)
