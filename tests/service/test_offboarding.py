"""Offboarding: the plan, the immediate end of access, and the transfer, despite interruptions."""

from typing import Any, LiteralString
from unittest.mock import AsyncMock

import pytest

from service.domains.oversight.owners import transferring
from tests.harness.cases import cases
from tests.harness.documents import create_collection, uploaded
from tests.harness.services import RunningService
from tests.oauth.flow import an_app
from tests.service.conversations import an_access_token
from tests.service.directory import a_group, a_key, a_user, code, document, done, entries, grant, group, on_rows, user
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts
from tests.service.test_owners import CALM, counted, make_resources, owned, sees

PLAN, OFFBOARD = "admin/users/planOffboarding", "admin/users/offboard"
ADA, BEN, EVE = "ada@example.test", "ben@example.test", "eve@example.test"
ADAS = {"version": "", "email": ADA, "name": "ada"}
COUNTS = ("apiKeyCount", "browserSessionCount", "applicationCount", "applicationTokenCount")
NOTHING_ENDED = {**dict.fromkeys(COUNTS, 0), "groupIds": []}


@pytest.fixture(autouse=True)
def ids(service: RunningService) -> dict[str, str]:
    return {email: a_user(service, email, active=email != EVE, isAdmin=email == ADA)["id"] for email in (ADA, BEN, EVE)}


# What gives a person a browser's session, and an application (%(client)s) a consent and a code not used yet.
HELD: dict[str, LiteralString] = cases("held_by_a_person")


def sign_in(service: RunningService, person_id: str) -> None:
    app = an_app(service)
    an_access_token(app, person_id, scope="api:catalog:read")
    with service.owner_connection() as connection:
        for statement in HELD.values():
            values = {"client": app.client_id, "person": person_id}
            connection.execute(f"{statement} FROM principals WHERE principal_id = %(person)s", values)


def test_a_plan_says_what_would_end_and_what_is_owned(service: RunningService, ids: dict[str, str]) -> None:
    key = a_key(service, ownerEmail=ADA, name="Deck")["apiKey"]
    done(service.call("admin/apiKeys/revoke", {"apiKeyId": a_key(service, ownerEmail=ADA)["apiKeyId"]}))
    sign_in(service, ids[ADA])
    a_group(service, "Outer", group(a_group(service, "Team", user(ADA), user(BEN))))
    uploaded(service, "log", CALM, as_user=ADA)
    create_collection(service, "Logs", as_user=ADA)
    enable_service_accounts(service)
    bosun = an_account(service)
    for name, options in (("Hers", {"api_key": key}), ("Gone", {"api_key": key}), ("Another's", {})):
        body = {"serviceAccountId": bosun["serviceAccountId"], "name": name, "scopes": []}
        made = done(service.call("admin/serviceAccountTokens/mint", body, **options))
        if name == "Gone":
            done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": made["tokenId"]}))
    for _ in range(2):
        plan = done(service.call(PLAN, {"email": "Ada@example.test", "newOwner": user(BEN)}))
        assert plan["user"] | {"version": ""} == {**ADAS, "id": ids[ADA], "isAdmin": True, "active": True}
        assert (plan["newOwner"]["id"], plan["newOwner"]["type"]) == (ids[BEN], "user")
        assert [one["name"] for one in plan["apiKeys"]] == ["Deck"]
        held = (plan["browserSessionCount"], plan["applicationCount"], plan["applicationTokenCount"])
        assert held == (1, 1, 1)
        assert [one["name"] for one in plan["madeTokens"]] == ["Hers"]
        assert [one["name"] for one in plan["groups"]] == ["Team"]
        one_each = {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 1}
        assert counted(plan["owned"]) == counted(plan["onlyReader"]) == one_each
    assert entries(service, action="user.offboard") == []
    assert "newOwner" not in done(service.call(PLAN, {"email": BEN}))


def test_what_somebody_alone_reads_is_what_nobody_else_does(service: RunningService) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    enable_service_accounts(service)
    bosun = an_account(service)
    inner = a_group(service, "Inner", user(BEN))
    outer, mixed = a_group(service, "Outer", group(inner), user(ADA)), a_group(service, "Mixed", user(ADA), user(EVE))
    a_group(service, "Inner", user(BEN), group(outer), id=inner["id"])
    granted: dict[str, list[dict[str, Any]]] = {
        "own": [],
        "with inactive": [user(EVE)],
        "with own group": [group(mixed)],
        "with ben": [user(BEN)],
        "with account": [account(bosun)],
        "with nested": [group(outer)],
    }
    documents = {name: uploaded(service, name, CALM, as_user=ADA)["documentId"] for name in granted}
    for name, principals in granted.items():
        grant(service, document(documents[name]), *principals)
    uploaded(service, "everyone", CALM, as_user=ADA, internalPublic="true")
    of_ben = uploaded(service, "ben's", CALM, as_user=BEN, allowedUsersEmailAddresses=ADA)["documentId"]

    def alone() -> int:
        return sum(counted(done(service.call(PLAN, {"email": ADA}))["onlyReader"]).values())

    assert alone() == 3
    a_user(service, BEN, active=False)
    assert alone() == 6, "with ben, nested, and what Ben owns"
    assert sees(service, key, of_ben) == (True, True, True)
    delete_account(service, bosun)
    assert alone() == 7
    a_user(service, ADA, active=False)
    assert alone() == 7, "as if Ada were active"


def test_all_access_ends_and_everything_is_handed_over(service: RunningService, ids: dict[str, str]) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    a_key(service, ownerEmail=ADA)
    sign_in(service, ids[ADA])
    team = a_group(service, "Team", user(ADA), user(BEN))
    document_id = uploaded(service, "log", CALM, as_user=ADA)["documentId"]
    bens = a_key(service, ownerEmail=BEN)["apiKey"]
    assert sees(service, bens, document_id) == (False, False, False)

    answer = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))

    ended = {**dict.fromkeys(COUNTS, 1), "apiKeyCount": 2, "groupIds": [team["id"]]}
    assert answer["ended"] == ended
    assert answer["user"] | {"version": ""} == {**ADAS, "id": ids[ADA], "isAdmin": False, "active": False}
    assert (counted(answer["transferred"]), answer["remaining"]) == ({"UPLOADED_DOCUMENT": 1}, [])
    assert code(service.call("catalog/listDocuments", {}, api_key=key)) == (401, "credential_revoked")
    assert sees(service, bens, document_id) == (True, True, True)
    [listed] = done(service.call("admin/users/list", {"query": ADA}))["users"]
    assert listed.items() >= answer["user"].items()
    members = done(service.call("admin/groups/listMembers", {"groupId": team["id"]}))["members"]
    assert [one["email"] for one in members] == [BEN]
    for gone in ("SELECT FROM browser_sessions", "SELECT FROM oauth_consents", "SELECT FROM oauth_codes"):
        assert on_rows(service, gone) == []
    for revoked in ("SELECT FROM oauth_token_families", "SELECT FROM oauth_access_tokens"):
        assert on_rows(service, revoked, more="AND revoked_at IS NULL") == []
    working = on_rows(service, "SELECT owner_id FROM api_keys", more="AND revoked_at IS NULL")
    assert [str(owner) == ids[ADA] for (owner,) in working] == [False, False]

    (entry,) = entries(service, action="user.offboard")
    assert (entry["target"]["id"], entry["details"]) == (ids[ADA], ended)
    assert len(entries(service, action="apiKey.revoke")) == 2
    left = entries(service, action="group.members")[0]
    assert (left["target"]["id"], left["details"]) == (team["id"], {"removed": [ids[ADA]]})
    assert entries(service, action="owners.transfer")[0]["details"]["ownerId"] == ids[ADA]

    again = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))
    assert again == {"user": answer["user"], "ended": NOTHING_ENDED, "transferred": [], "remaining": []}
    assert len(entries(service, action="user.offboard")) == len(entries(service, action="owners.transfer")) == 1


def test_a_killed_handover_is_finished_by_the_next(service, ids, monkeypatch) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    make_resources(service, ids[ADA], count=25)
    monkeypatch.setattr(transferring, "BATCH", 10)
    change_owner, calls = transferring.permissions.change_owner, list[int]()

    async def fail_in_the_third(*args: Any, **options: Any) -> Any:
        before = await change_owner(*args, **options)
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError
        return before

    with monkeypatch.context() as patch:
        patch.setattr(transferring.permissions, "change_owner", fail_in_the_third)
        assert service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}).status_code == 500
    assert code(service.call("catalog/listDocuments", {}, api_key=key)) == (401, "credential_revoked")
    assert (len(owned(service, ADA)), len(owned(service, BEN))) == (5, 20)
    plan = done(service.call(PLAN, {"email": ADA, "newOwner": user(BEN)}))
    assert (counted(plan["owned"]), plan["apiKeys"], plan["user"]["active"]) == ({"BOX_FILE": 5}, [], False)
    answer = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))
    assert (answer["ended"], counted(answer["transferred"])) == (NOTHING_ENDED, {"BOX_FILE": 5})
    assert len(owned(service, BEN)) == 25


def test_access_ends_in_one_piece(service, ids, monkeypatch) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    team = a_group(service, "Team", user(ADA))
    with monkeypatch.context() as patch:
        patch.setattr(transferring, "leave_groups", AsyncMock(side_effect=RuntimeError))
        assert service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}).status_code == 500
    done(service.call("admin/users/list", {}, api_key=key))
    assert len(done(service.call("admin/groups/listMembers", {"groupId": team["id"]}))["members"]) == 1
    assert ids[ADA] not in {entry["target"]["id"] for entry in entries(service, action="user.offboard")}


def test_who_can_not_be_offboarded_or_own_is_refused(service: RunningService) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    uploaded(service, "log", CALM, as_user=ADA)
    enable_service_accounts(service)
    bosun = an_account(service)
    for operation in (PLAN, OFFBOARD):
        assert code(service.call(operation, {"email": service.admin_email})) == (409, "own_account")
        for email in ("nobody@example.test", bosun["email"]):
            assert code(service.call(operation, {"email": email})) == (400, "unknown_user")
        for new_owner in (ADA, EVE):
            refused = service.call(operation, {"email": ADA, "newOwner": user(new_owner)})
            assert code(refused) == (400, "invalid_new_owner")
    assert code(service.call(OFFBOARD, {"email": ADA})) == (400, "new_owner_required")
    done(service.call("catalog/listDocuments", {}, api_key=key))
    assert done(service.call(OFFBOARD, {"email": EVE}))["ended"] == NOTHING_ENDED
    assert entries(service, action="user.offboard") == []


def test_an_admin_is_left_when_two_offboard_each_other(service, ids, monkeypatch) -> None:
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    find_both, hindered = transferring._find_both, list[int]()

    async def meanwhile(*args: Any) -> Any:
        found = await find_both(*args)
        if not hindered:
            hindered.append(1)
            # As another admin's request does that came first.
            service.execute("UPDATE principals SET is_admin = false WHERE principal_id = %s", [ids[ADA]])
        return found

    monkeypatch.setattr(transferring, "_find_both", meanwhile)
    refused = service.call(OFFBOARD, {"email": service.admin_email, "newOwner": user(BEN)}, api_key=key)
    assert code(refused) == (409, "last_admin")
    assert ids[ADA] in {one["id"] for one in done(service.call("admin/users/list", {}))["users"]}
