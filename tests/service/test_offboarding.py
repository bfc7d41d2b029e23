"""Offboarding: what a plan tells, what ends at once, and what is handed over, however often it is cut off."""

from typing import Any
from uuid import UUID

import pytest

from service.domains.owners import offboarding, transferring
from service.platform.identifiers import uuid7
from service.platform.secrets import SESSION, mint
from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_key,
    a_user,
    another_organization,
    code,
    done,
    group,
    organization_id,
    user,
)
from tests.service.service_accounts import an_account, enable_service_accounts
from tests.service.test_owners import entries, make_resources, owned, sees, transferred, upload

PLAN, OFFBOARD = "admin/users/planOffboarding", "admin/users/offboard"
ADA, BEN, EVE = "ada@example.test", "ben@example.test", "eve@example.test"
NOTHING_ENDED = {
    "apiKeyCount": 0,
    "browserSessionCount": 0,
    "applicationCount": 0,
    "applicationTokenCount": 0,
    "groupIds": [],
}


@pytest.fixture
def ids(service: RunningService) -> dict[str, str]:
    """Ada, an admin, Ben, and Eve, who is inactive, by address."""
    return {email: a_user(service, email, active=email != EVE, isAdmin=email == ADA)["id"] for email in (ADA, BEN, EVE)}


def sign_in(service: RunningService, person_id: str) -> None:
    """Give a person a browser's session, and an application with a consent, a token and a code not used yet."""
    client, family, far = uuid7(), uuid7(), "now() + interval '1 day'"
    organization, person = organization_id(service), UUID(person_id)
    rows: list[tuple[str, dict[str, Any]]] = [
        ("browser_sessions", {"session_id": uuid7(), "secret_hash": mint(SESSION).hash}),
        ("oauth_consents", {"client_id": client, "scopes": ["api:catalog:read"]}),
        ("oauth_token_families", {"family_id": family, "client_id": client, "scopes": ["api:catalog:read"]}),
        (
            "oauth_access_tokens",
            {"token_id": uuid7(), "family_id": family, "client_id": client, "scopes": [], "secret_hash": b"t"},
        ),
        (
            "oauth_codes",
            {
                "code_id": uuid7(),
                "client_id": client,
                "secret_hash": b"c",
                "redirect_uri": "https://app.example.test",
                "scopes": [],
                "code_challenge": "x",
            },
        ),
    ]
    times = {
        "browser_sessions": ("created_at", "expires_at"),
        "oauth_consents": ("granted_at",),
        "oauth_token_families": ("created_at",),
        "oauth_access_tokens": ("expires_at",),
        "oauth_codes": ("expires_at",),
    }
    with service.owner_connection() as connection:
        connection.execute(
            "INSERT INTO oauth_clients (client_id, organization_id, name, redirect_uris, scopes, status, hint,"
            " secret_hash, requested_by) VALUES (%s, %s, 'Log', '{}', '{}', 'approved', 'x', 'x', %s)",
            [client, organization, person],
        )
        for table, values in rows:
            row = {**values, "organization_id": organization, "principal_id": person}
            names = ", ".join([*row, *times[table]])
            marks = ", ".join([*["%s"] * len(row), *[far] * len(times[table])])
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])  # noqa: S608


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Counts by type."""
    return {row["resourceType"]: row["count"] for row in rows}


def test_a_plan_says_what_would_end_and_what_is_owned(service: RunningService, ids: dict[str, str]) -> None:
    """Keys, sessions, applications, groups, and what is owned by type; nothing of it is changed."""
    key = a_key(service, ownerEmail=ADA, name="Deck")["apiKey"]
    revoked = a_key(service, ownerEmail=ADA)
    done(service.call("admin/apiKeys/revoke", {"apiKeyId": revoked["apiKeyId"]}))
    sign_in(service, ids[ADA])
    team = a_group(service, "Team", user(ADA), user(BEN))
    a_group(service, "Outer", group(team))
    upload(service, key, "log")
    done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=key))
    enable_service_accounts(service)
    account = an_account(service)
    for name, options in (("Hers", {"api_key": key}), ("Gone", {"api_key": key}), ("Another's", {})):
        body = {"serviceAccountId": account["serviceAccountId"], "name": name, "scopes": []}
        made = done(service.call("admin/serviceAccountTokens/mint", body, **options))
        if name == "Gone":
            done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": made["tokenId"]}))
    for _ in range(2):
        plan = done(service.call(PLAN, {"email": "Ada@example.test", "newOwner": user(BEN)}))
        assert plan["user"] == {"id": ids[ADA], "email": ADA, "name": "ada", "isAdmin": True, "active": True}
        assert (plan["newOwner"]["id"], plan["newOwner"]["type"]) == (ids[BEN], "user")
        assert [one["name"] for one in plan["apiKeys"]] == ["Deck"]
        held = (plan["browserSessionCount"], plan["applicationCount"], plan["applicationTokenCount"])
        assert held == (1, 1, 1)
        assert [one["name"] for one in plan["madeTokens"]] == ["Hers"]
        assert [one["name"] for one in plan["groups"]] == ["Team"]
        assert counted(plan["owned"]) == {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 1}
        assert counted(plan["onlyReader"]) == {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 1}
    assert entries(service, "user.offboard") == []
    assert "newOwner" not in done(service.call(PLAN, {"email": BEN}))


@pytest.mark.usefixtures("ids")
def test_what_somebody_alone_reads_is_what_nobody_else_does(service: RunningService) -> None:
    """By every way: as owner, by a grant, by groups in groups, by a group of their own; others count while active."""
    key, bens = (a_key(service, ownerEmail=email)["apiKey"] for email in (ADA, BEN))
    done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    account = done(service.call("admin/serviceAccounts/create", {"displayName": "Bosun"}))
    bosun = {"type": "serviceAccount", "id": account["serviceAccountId"]}
    inner = a_group(service, "Inner", user(BEN))
    outer, mixed = a_group(service, "Outer", group(inner), user(ADA)), a_group(service, "Mixed", user(ADA), user(EVE))
    a_group(service, "Inner", user(BEN), group(outer), id=inner["id"])
    granted: dict[str, list[dict[str, Any]]] = {
        "own": [],
        "with inactive": [user(EVE)],
        "with own group": [group(mixed)],
        "with ben": [user(BEN)],
        "with account": [bosun],
        "with nested": [group(outer)],
    }
    documents = {name: upload(service, key, name) for name in granted}
    for name, principals in granted.items():
        resource = {"resourceId": documents[name], "resourceType": "UPLOADED_DOCUMENT"}
        grants = [{"principal": one, "role": "VIEWER"} for one in principals]
        done(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    everyone = upload(service, key, "everyone", internalPublic="true")
    of_ben = upload(service, bens, "ben's", allowedUsersEmailAddresses=ADA)
    assert everyone != of_ben

    def alone() -> int:
        return sum(counted(done(service.call(PLAN, {"email": ADA}))["onlyReader"]).values())

    assert alone() == 3
    a_user(service, BEN, active=False)
    assert alone() == 6, "with ben, nested, and what Ben owns"
    assert sees(service, key, of_ben) == (True, True, True)
    done(service.call("admin/serviceAccounts/delete", {"serviceAccountId": account["serviceAccountId"]}))
    assert alone() == 7
    a_user(service, ADA, active=False)
    assert alone() == 7, "as if Ada were active"


def test_all_access_ends_and_everything_is_handed_over(service: RunningService, ids: dict[str, str]) -> None:
    """At once and for good; the new owner reads it; the log names what ended; again changes nothing."""
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    a_key(service, ownerEmail=ADA)
    sign_in(service, ids[ADA])
    team = a_group(service, "Team", user(ADA), user(BEN))
    document = upload(service, key, "log")
    bens = a_key(service, ownerEmail=BEN)["apiKey"]
    assert sees(service, bens, document) == (False, False, False)

    answer = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))

    ended = {
        "apiKeyCount": 2,
        "browserSessionCount": 1,
        "applicationCount": 1,
        "applicationTokenCount": 1,
        "groupIds": [team["id"]],
    }
    assert answer["ended"] == ended
    assert answer["user"] == {"id": ids[ADA], "email": ADA, "name": "ada", "isAdmin": False, "active": False}
    assert (transferred(answer), answer["remaining"]) == ({"UPLOADED_DOCUMENT": 1}, [])
    assert code(service.call("catalog/listDocuments", {}, api_key=key)) == (401, "credential_revoked")
    assert sees(service, bens, document) == (True, True, True)
    [listed] = done(service.call("admin/users/list", {"query": ADA}))["users"]
    assert listed.items() >= answer["user"].items()
    members = done(service.call("admin/groups/listMembers", {"groupId": team["id"]}))["members"]
    assert [one["email"] for one in members] == [BEN]
    with service.owner_connection() as connection:
        for table in ("browser_sessions", "oauth_consents", "oauth_codes"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608
        for table in ("oauth_token_families", "oauth_access_tokens", "api_keys"):
            working = f"SELECT count(*) FROM {table} WHERE revoked_at IS NULL"  # noqa: S608
            others = 2 if table == "api_keys" else 0
            assert connection.execute(working).fetchone() == (others,), table

    (entry,) = entries(service, "user.offboard")
    assert (entry["target"]["id"], entry["details"]) == (ids[ADA], ended)
    assert len(entries(service, "apiKey.revoke")) == 2
    left = entries(service, "group.members")[0]
    assert (left["target"]["id"], left["details"]) == (team["id"], {"removed": [ids[ADA]]})
    assert entries(service, "owners.transfer")[0]["details"]["ownerId"] == ids[ADA]

    again = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))
    assert again == {"user": answer["user"], "ended": NOTHING_ENDED, "transferred": [], "remaining": []}
    assert len(entries(service, "user.offboard")) == len(entries(service, "owners.transfer")) == 1


def test_a_killed_handover_is_finished_by_the_next(
    service: RunningService, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off in the middle of a batch: access has ended, whole batches are handed over, the next does the rest."""
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    make_resources(service, ids[ADA], count=25)
    monkeypatch.setattr(transferring, "BATCH", 10)
    change_owner, calls = transferring.change_owner, list[int]()

    async def fail_in_the_third(*args: Any, **options: Any) -> Any:
        before = await change_owner(*args, **options)
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError
        return before

    with monkeypatch.context() as patch:
        patch.setattr(transferring, "change_owner", fail_in_the_third)
        assert service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}).status_code == 500
    assert code(service.call("catalog/listDocuments", {}, api_key=key)) == (401, "credential_revoked")
    assert (len(owned(service, ADA)), len(owned(service, BEN))) == (5, 20)
    plan = done(service.call(PLAN, {"email": ADA, "newOwner": user(BEN)}))
    assert (counted(plan["owned"]), plan["apiKeys"], plan["user"]["active"]) == ({"BOX_FILE": 5}, [], False)
    answer = done(service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}))
    assert (answer["ended"], transferred(answer)) == (NOTHING_ENDED, {"BOX_FILE": 5})
    assert len(owned(service, BEN)) == 25


def test_access_ends_in_one_piece(
    service: RunningService, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails while access ends, all of it is as it was."""
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    team = a_group(service, "Team", user(ADA))

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(offboarding, "leave_groups", fail)
        assert service.call(OFFBOARD, {"email": ADA, "newOwner": user(BEN)}).status_code == 500
    done(service.call("admin/users/list", {}, api_key=key))
    assert len(done(service.call("admin/groups/listMembers", {"groupId": team["id"]}))["members"]) == 1
    assert ids[ADA] not in {entry["target"]["id"] for entry in entries(service, "user.offboard")}


def test_who_can_not_be_offboarded_or_own_is_refused(service: RunningService, ids: dict[str, str]) -> None:
    """Oneself, the unknown, service accounts; a new owner who is inactive, unknown or the same, or none for what is."""
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    upload(service, key, "log")
    team = a_group(service, "Team", user(BEN))
    done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    account = done(service.call("admin/serviceAccounts/create", {"displayName": "Bosun"}))
    for operation in (PLAN, OFFBOARD):
        assert code(service.call(operation, {"email": service.admin_email})) == (409, "own_account")
        for email in ("nobody@example.test", account["email"]):
            assert code(service.call(operation, {"email": email})) == (400, "unknown_user")
        for new_owner, expected in (
            (user(ADA), "invalid_new_owner"),
            (user(EVE), "invalid_new_owner"),
            (group(team), "invalid_new_owner"),
            (user("nobody@example.test"), "unknown_principal"),
        ):
            refused = service.call(operation, {"email": ADA, "newOwner": new_owner})
            assert code(refused) == (400, expected)
    assert code(service.call(OFFBOARD, {"email": ADA})) == (400, "new_owner_required")
    done(service.call("catalog/listDocuments", {}, api_key=key))
    assert done(service.call(OFFBOARD, {"email": EVE}))["ended"] == NOTHING_ENDED
    assert entries(service, "user.offboard") == []
    assert ids.keys() == {ADA, BEN, EVE}


def test_an_admin_is_left_when_two_offboard_each_other(
    service: RunningService, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two requests that were let in, the second finds that it would leave nobody."""
    key = a_key(service, ownerEmail=ADA)["apiKey"]
    find_both, hindered = offboarding._find_both, list[int]()

    async def meanwhile(*args: Any) -> Any:
        found = await find_both(*args)
        if not hindered:
            hindered.append(1)
            # As another admin's request does that came first.
            with service.owner_connection() as connection:
                connection.execute("UPDATE principals SET is_admin = false WHERE email = %s", [ADA])
        return found

    monkeypatch.setattr(offboarding, "_find_both", meanwhile)
    refused = service.call(OFFBOARD, {"email": service.admin_email, "newOwner": user(BEN)}, api_key=key)
    assert code(refused) == (409, "last_admin")
    done(service.call("admin/users/list", {}))
    assert ids[ADA] in {one["id"] for one in done(service.call("admin/users/list", {}))["users"]}


def test_it_is_for_admins_and_of_one_organization(service: RunningService, ids: dict[str, str]) -> None:
    """Others are refused; another organization knows nobody here."""
    bens = a_key(service, ownerEmail=BEN)["apiKey"]
    stranger = another_organization(service)
    for operation in (PLAN, OFFBOARD):
        assert code(service.call(operation, {"email": ADA}, api_key=bens)) == (403, "admin_only")
        assert code(service.call(operation, {"email": ADA}, api_key=stranger)) == (400, "unknown_user")
        a_user(service, "zoe@example.test")
        refused = service.call(operation, {"email": "zoe@example.test", "newOwner": user("admin@other.test")})
        assert code(refused) == (400, "unknown_principal")
    users = done(service.call("admin/users/list", {"pageSize": 1000}))["users"]
    assert {one["email"] for one in users if one["active"]} >= {ADA, BEN}
    assert ids.keys() == {ADA, BEN, EVE}
