"""Users and the organization, as maintained by admins, and the credentials of requests."""

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from argon2 import PasswordHasher

from service.identity import passwords
from tests.harness.documents import list_documents, refused, uploaded
from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.oauth.flow import a_person, an_app
from tests.service.conversations import at_once, in_background
from tests.service.directory import a_group, a_key, a_user, code, done, group, on_rows, user, walk

PASSWORD = "a long enough password"


def test_an_upsert_creates_and_then_changes_only_what_is_given(service) -> None:
    new = a_user(service, "Ada.Lovelace@Example.test")
    email, name = "ada.lovelace@example.test", "ada.lovelace"
    del new["version"]
    assert new == {"id": new["id"], "email": email, "name": name, "isAdmin": False, "active": True}
    changed = new | {"name": "Ada", "isAdmin": True}
    assert a_user(service, email, name="Ada", isAdmin=True).items() >= changed.items()
    assert a_user(service, email, active=False).items() >= (changed | {"active": False}).items()


def test_an_address_is_one_however_its_letters_are_composed(service) -> None:
    """A combining accent gives the same address: no second user, no unfindable document."""
    composed, decomposed = "andr\u00e9@example.test", "Andre\u0301@example.test"
    assert a_user(service, decomposed) == a_user(service, composed)
    assert a_user(service, composed)["email"] == composed
    uploaded(service, "his", as_user=decomposed)
    assert list_documents(service, ownerEmail=decomposed) == ["his"]


def test_a_thousand_users_are_put_in_the_order_given_and_listed_completely(service) -> None:
    users = [{"email": f"u{number}@example.test"} for number in range(1000)]
    put = done(service.call("admin/users/upsert", {"users": users}))["users"]
    assert [one["email"] for one in put] == [one["email"] for one in users]
    assert done(service.call("admin/users/upsert", {"users": users}))["users"] == put
    listed = walk(service, "admin/users/list", {}, page_size=137)
    assert sorted(one["email"] for one in listed) == sorted([service.admin_email, *(one["email"] for one in users)])
    found = walk(service, "admin/users/list", {"query": "U99"}, page_size=2)
    assert {one["email"] for one in found} == {f"u{number}@example.test" for number in (99, *range(990, 1000))}
    assert walk(service, "admin/users/list", {"query": "%"}, page_size=10) == []


def test_an_address_given_twice_refuses_the_whole_call(service) -> None:
    users = [{"email": "a@example.test"}, {"email": "b@example.test"}, {"email": "A@example.test"}]
    error = refused(service.call("admin/users/upsert", {"users": users}), 400, "duplicate_user")
    assert error["details"][0]["field"] == "users.2.email"
    assert len(walk(service, "admin/users/list", {}, page_size=10)) == 1


@pytest.mark.parametrize("change", [{"isAdmin": False}, {"active": False}])
def test_the_last_active_admin_stays_one(service, change: dict[str, bool]) -> None:
    me = service.admin_email
    users = [{"email": "ben@example.test"}, {"email": me, **change}]
    assert code(service.call("admin/users/upsert", {"users": users})) == (409, "last_admin")
    assert [one["email"] for one in walk(service, "admin/users/list", {}, page_size=10)] == [me]
    a_user(service, "ben@example.test", isAdmin=True, active=False)
    assert code(service.call("admin/users/upsert", {"users": users})) == (409, "last_admin")
    users = [{"email": me, **change}, {"email": "ben@example.test", "active": True}]
    assert service.call("admin/users/upsert", {"users": users}).status_code == 200


def test_two_admins_who_demote_each_other_at_once_leave_one(service) -> None:
    """Changes to an organization's principals are serialized."""
    ben, cyd, me = "ben@example.test", "cyd@example.test", service.admin_email
    done(service.call("admin/users/upsert", {"users": [{"email": ben}, {"email": cyd}]}))
    keys = {email: a_key(service, ownerEmail=email)["apiKey"] for email in (ben, cyd)}

    def change(email: str, is_admin: bool, by: str) -> httpx.Response:
        body = {"users": [{"email": email, "isAdmin": is_admin}]}
        return service.call("admin/users/upsert", body, api_key=keys[by])

    for _ in range(5):
        users = [{"email": ben, "isAdmin": True}, {"email": cyd, "isAdmin": True}, {"email": me, "isAdmin": False}]
        done(service.call("admin/users/upsert", {"users": users}))
        answers = at_once(lambda: change(cyd, False, by=ben), lambda: change(ben, False, by=cyd))
        statuses = [one.status_code for one in answers]
        assert sorted(statuses) in ([200, 409], [200, 403])
        assert change(me, True, by=(ben, cyd)[statuses.index(200)]).status_code == 200


def test_passwords_are_kept_as_argon2id_and_never_answered(service) -> None:
    response = service.call("admin/users/upsert", {"users": [{"email": "ada@example.test", "password": PASSWORD}]})
    assert "password" not in response.text
    [(kept,)] = on_rows(service, "SELECT password_hash FROM principals", more="AND email = 'ada@example.test'")
    assert kept.startswith("$argon2id$")
    assert PasswordHasher().verify(kept, PASSWORD)
    log = service.call("admin/auditLog/query", {"pageSize": 1000}).text
    assert [secret for secret in (PASSWORD, kept) if secret in log] == []


def test_other_requests_are_answered_while_passwords_are_hashed(service, monkeypatch) -> None:
    begun, may_end, hasher = threading.Event(), threading.Event(), passwords._HASHER

    def hash_when_told(password: str) -> str:
        begun.set()
        assert may_end.wait(60)
        return hasher.hash(password)

    monkeypatch.setattr(passwords, "_HASHER", SimpleNamespace(hash=hash_when_told))
    users = [{"email": f"p{number}@example.test", "password": PASSWORD} for number in range(5)]
    upsert = in_background(lambda: service.call("admin/users/upsert", {"users": users}))
    assert begun.wait(60)
    assert service.call("admin/organization/get", timeout=30).status_code == 200
    may_end.set()
    assert upsert.result(60).status_code == 200


def test_the_organizations_settings_are_changed_one_at_a_time(service) -> None:
    before = done(service.call("admin/organization/get"))
    del before["version"]
    assert before["serviceAccountsEnabled"] is False
    changed = done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    assert changed.items() >= {"serviceAccountsEnabled": True, "name": before["name"]}.items()
    changed = done(service.call("admin/organization/update", {"name": "Ferries", "domain": "Ferries.Example"}))
    after = before | {"serviceAccountsEnabled": True, "name": "Ferries", "domain": "ferries.example"}
    assert {name: value for name, value in changed.items() if name != "version"} == after
    assert done(service.call("admin/organization/get")) == changed
    assert code(service.call("admin/organization/update", {"domain": "a@b"}))[0] == 400


READ = {"action": "READ"}


def test_a_credential_that_is_no_ascii_is_a_401(service) -> None:
    headers = {"Authorization": "Bearer svc_key_\xe9".encode("latin-1")}
    response = service.call("permissions/listAuthorizedResources", READ, headers=headers)
    assert code(response) == (401, "invalid_credential")
    assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


def test_a_list_of_keys_says_which_were_revoked_or_have_expired(service) -> None:
    late = {"name": "late", "expiresAt": "2020-01-01T00:00:00Z"}
    refused(service.call("admin/apiKeys/create", late), 400, "expiry_past")
    revoked, expired = a_key(service), a_key(service, expiresAt="2036-01-01T00:00:00Z")
    service.execute("UPDATE api_keys SET expires_at = now() WHERE api_key_id = %s", [expired["apiKeyId"]])
    one, again = (done(service.call("admin/apiKeys/revoke", {"apiKeyId": revoked["apiKeyId"]})) for _ in range(2))
    assert one == again == one | {"status": "revoked"}
    for key, why in ((revoked, "credential_revoked"), (expired, "credential_expired")):
        assert code(service.call("admin/organization/get", api_key=key["apiKey"])) == (401, why)
    listed = {one["apiKeyId"]: one["status"] for one in done(service.call("admin/apiKeys/list"))["apiKeys"]}
    assert sorted(listed.values()) == ["active", "expired", "revoked"]
    assert (listed[revoked["apiKeyId"]], listed[expired["apiKeyId"]]) == ("revoked", "expired")


def test_an_inactive_users_credentials_stop_at_once_and_come_back(service) -> None:
    a_user(service, "ben@example.test", isAdmin=True)
    key = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    acting = READ | {"userEmail": "Ben@Example.TEST"}
    assert service.call("permissions/listAuthorizedResources", READ, api_key=key).status_code == 200
    assert service.call("permissions/listAuthorizedResources", acting).status_code == 200
    a_user(service, "ben@example.test", active=False)
    assert code(service.call("permissions/listAuthorizedResources", READ, api_key=key)) == (401, "owner_inactive")
    assert code(service.call("permissions/listAuthorizedResources", acting)) == (400, "unknown_user")
    assert code(service.call("admin/apiKeys/create", {"name": "k", "ownerEmail": "ben@example.test"}))[0] == 400
    a_user(service, "ben@example.test", active=True)
    assert service.call("admin/organization/get", api_key=key).status_code == 200
    a_user(service, "ben@example.test", isAdmin=False)
    assert service.call("admin/organization/get", api_key=key).status_code == 403
    assert service.call("permissions/listAuthorizedResources", READ, api_key=key).status_code == 200


def test_a_keys_value_is_shown_once_and_kept_nowhere(service) -> None:
    key = a_key(service)
    assert key["hint"] == key["apiKey"][-4:]
    listed = service.call("admin/apiKeys/list").text
    assert key["apiKeyId"] in listed
    assert key["apiKey"] not in listed
    assert key["apiKey"] not in service.call("admin/auditLog/query", {"pageSize": 1000}).text


def test_the_last_use_of_a_key_is_known_to_the_minute(service) -> None:
    def last_used() -> list[str | None]:
        keys = service.call("admin/apiKeys/list").json()["apiKeys"]
        return [one.get("lastUsedAt") for one in keys if one["name"] == "watched"]

    key = a_key(service, name="watched")["apiKey"]
    assert last_used() == [None]
    service.call("admin/organization/get", api_key=key)
    first = last_used()
    assert datetime.now(UTC) - datetime.fromisoformat(first[0] or "") < timedelta(minutes=1)
    service.call("admin/organization/get", api_key=key)
    assert last_used() == first


ADA, BOB, CAT = "ada@example.test", "bob@example.test", "cat@example.test"


def users(service: RunningService, **filters) -> list[str]:
    found = [one["email"] for one in walk(service, "admin/users/list", filters, page_size=2)]
    assert done(service.call("admin/users/count", filters))["count"] == len(found)
    return sorted(found)


def test_users_are_narrowed_by_what_is_known_of_them(own_service: RunningService) -> None:
    service, admin = own_service, own_service.admin_email
    a_person(service, ADA).tokens(an_app(service))
    a_user(service, BOB, active=False)
    a_user(service, CAT, isAdmin=True)
    crew = a_group(service, "Crew", user(ADA), user(BOB))
    a_group(service, "Ship", group(crew))  # whose members are not counted, as they are not in it themselves
    assert users(service) == sorted([admin, ADA, BOB, CAT])
    assert users(service, active=True) == sorted([admin, ADA, CAT])
    assert users(service, active=False) == [BOB]
    assert users(service, isAdmin=True) == sorted([admin, CAT])
    assert users(service, isAdmin=False) == [ADA, BOB]
    assert users(service, signedIn=True) == [ADA]
    assert users(service, signedIn=False) == sorted([admin, BOB, CAT])
    assert users(service, inGroup=True) == [ADA, BOB]
    assert users(service, inGroup=False) == sorted([admin, CAT])
    assert users(service, inGroup=True, active=True) == [ADA]
    assert users(service, query="CAT@", isAdmin=False) == []
    rows = walk(service, "admin/users/list", {}, page_size=9)
    ada, bob = (next(row for row in rows if row["email"] == email) for email in (ADA, BOB))
    assert (ada["groupCount"], ada["hasPassword"], bob["groupCount"], bob["hasPassword"]) == (1, True, 1, False)
    [signed_in] = walk(service, "admin/auditLog/query", {"action": "session.begin"}, page_size=9)
    assert ada["lastSignedInAt"] == signed_in["at"]
    assert not {"lastSignedInAt", "invitedUntil"} & bob.keys()


def test_groups_that_somebody_is_in_say_through_what(service: RunningService) -> None:
    a_user(service, ADA)
    crew = a_group(service, "Crew", user(ADA))
    watch = a_group(service, "Watch", user(ADA))
    ship = a_group(service, "Ship", group(crew), group(watch))
    fleet = a_group(service, "Fleet", group(ship), user(ADA))
    a_group(service, "Ship", group(crew), group(watch), group(fleet), id=ship["id"])
    a_group(service, "Apart")
    found = walk(service, "admin/groups/listMemberships", {"member": user(ADA)}, page_size=1)
    assert [(one["name"], one["direct"], {inner["name"] for inner in one["through"]}) for one in found] == [
        ("Crew", True, set()),
        ("Watch", True, set()),
        ("Ship", False, {"Crew", "Watch", "Fleet"}),
        ("Fleet", True, {"Ship"}),
    ]
    assert [one["memberCount"] for one in found] == [1, 1, 3, 2]
    around = walk(service, "admin/groups/listMemberships", {"member": group(ship)}, page_size=9)
    assert [(one["name"], one["direct"]) for one in around] == [("Fleet", True)]
    assert walk(service, "admin/groups/listMemberships", {"member": user(service.admin_email)}, page_size=9) == []


def test_keys_are_narrowed_to_an_owner(service: RunningService) -> None:
    a_user(service, ADA)
    made = a_key(service, name="Deck", ownerEmail=ADA)["apiKeyId"]
    for address, expected in ((ADA.upper(), [made]), ("nobody@example.test", [])):
        keys = walk(service, "admin/apiKeys/list", {"ownerEmail": address}, page_size=9)
        assert [one["apiKeyId"] for one in keys] == expected


@pytest.mark.timeout(120)
def test_fifty_thousand_users_are_listed_by_one_statement(own_service: RunningService) -> None:
    """A statement for a page, a second for a count, each within a second."""
    own_service.execute(
        "INSERT INTO principals (principal_id, organization_id, kind, name, email)"
        " SELECT gen_random_uuid(), organization_id, 'user', 'User ' || n, 'u' || n || '@example.test'"
        " FROM organizations, generate_series(1, 50000) n"
    )
    for filters in ({}, {"signedIn": False, "inGroup": False, "active": True}, {"query": "49999"}, {"inGroup": True}):
        with messages_of(own_service) as said:
            own_service.call("admin/users/list", filters | {"pageSize": 50})
        assert sum("FROM principals" in one and "password_hash IS NOT NULL" in one for one in said) == 1
        for operation in ("list", "count"):
            answer = own_service.call(f"admin/users/{operation}", filters)
            assert answer.status_code == 200
            assert answer.elapsed.total_seconds() < 1, (operation, filters)
