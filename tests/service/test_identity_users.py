"""Users and the organization, as admins keep them."""

import asyncio
import threading
import time

import httpx
import pytest
from argon2 import PasswordHasher

from service.identity import passwords
from tests.harness.databases import TestDatabases
from tests.harness.documents import list_documents, uploaded
from tests.harness.services import PASSWORD_HASHER, RunningService
from tests.service.directory import a_key, a_user, another_organization, code, done, walk

PASSWORD = "a long enough password"


def test_an_upsert_creates_and_then_changes_only_what_is_given(service: RunningService) -> None:
    """A new user is active and no admin; what is left out stays."""
    new = a_user(service, "Ada.Lovelace@Example.test")
    assert new == {
        "id": new["id"],
        "email": "ada.lovelace@example.test",
        "name": "ada.lovelace",
        "isAdmin": False,
        "active": True,
    }
    assert a_user(service, "ada.lovelace@example.test", name="Ada", isAdmin=True) == new | {
        "name": "Ada",
        "isAdmin": True,
    }
    assert a_user(service, "ada.lovelace@example.test", active=False) == new | {
        "name": "Ada",
        "isAdmin": True,
        "active": False,
    }


def test_an_address_is_one_however_its_letters_are_composed(service: RunningService) -> None:
    """An accent as a character of its own is the same address; so no second user, nor a document nobody finds."""
    composed, decomposed = "andr\u00e9@example.test", "Andre\u0301@example.test"
    assert a_user(service, decomposed) == a_user(service, composed)
    assert a_user(service, composed)["email"] == composed
    uploaded(service, "his", as_user=decomposed)
    assert list_documents(service, ownerEmail=decomposed) == ["his"]


def test_a_thousand_users_are_put_in_the_order_given_and_listed_completely(service: RunningService) -> None:
    """One call of 1000, then pages that show each exactly once."""
    users = [{"email": f"u{number}@example.test"} for number in range(1000)]
    put = done(service.call("admin/users/upsert", {"users": users}))["users"]
    assert [one["email"] for one in put] == [one["email"] for one in users]
    assert done(service.call("admin/users/upsert", {"users": users}))["users"] == put
    listed = walk(service, "admin/users/list", {}, page_size=137)
    assert sorted(one["email"] for one in listed) == sorted([service.admin_email, *(one["email"] for one in users)])
    found = walk(service, "admin/users/list", {"query": "U99"}, page_size=2)
    assert {one["email"] for one in found} == {f"u{number}@example.test" for number in (99, *range(990, 1000))}
    assert walk(service, "admin/users/list", {"query": "%"}, page_size=10) == []


def test_an_address_given_twice_refuses_the_whole_call(service: RunningService) -> None:
    """All or none, and the place is named."""
    users = [{"email": "a@example.test"}, {"email": "b@example.test"}, {"email": "A@example.test"}]
    response = service.call("admin/users/upsert", {"users": users})
    assert code(response) == (400, "duplicate_user")
    assert response.json()["error"]["details"][0]["field"] == "users.2.email"
    assert len(walk(service, "admin/users/list", {}, page_size=10)) == 1


@pytest.mark.parametrize("change", [{"isAdmin": False}, {"active": False}])
def test_the_last_active_admin_stays_one(service: RunningService, change: dict[str, bool]) -> None:
    """409 and nothing changed, until somebody else is an admin too."""
    me = service.admin_email
    users = [{"email": "ben@example.test"}, {"email": me, **change}]
    assert code(service.call("admin/users/upsert", {"users": users})) == (409, "last_admin")
    assert [one["email"] for one in walk(service, "admin/users/list", {}, page_size=10)] == [me]
    a_user(service, "ben@example.test", isAdmin=True, active=False)
    assert code(service.call("admin/users/upsert", {"users": users})) == (409, "last_admin")
    users = [{"email": me, **change}, {"email": "ben@example.test", "active": True}]
    assert service.call("admin/users/upsert", {"users": users}).status_code == 200


async def test_two_admins_who_demote_each_other_at_once_leave_one(service: RunningService) -> None:
    """Changes to an organization's principals happen one at a time, so that both cannot see the other still there."""
    emails = ["ben@example.test", "cyd@example.test"]
    for _ in range(5):
        for email in emails:
            a_user(service, email, isAdmin=True)
        a_user(service, service.admin_email, isAdmin=True)
        keys = [a_key(service, ownerEmail=email)["apiKey"] for email in emails]
        a_user(service, service.admin_email, active=True, isAdmin=False)
        async with httpx.AsyncClient(base_url=service.base_url) as http:
            answers = await asyncio.gather(
                *(
                    http.post(
                        "/api/v0/admin/users/upsert",
                        json={"users": [{"email": other, "isAdmin": False}]},
                        headers={"Authorization": f"Bearer {key}"},
                    )
                    for key, other in zip(keys, reversed(emails), strict=True)
                )
            )
        assert sorted(one.status_code for one in answers) in ([200, 409], [200, 403])
        left = keys[[one.status_code for one in answers].index(200)]
        restored = {"users": [{"email": service.admin_email, "isAdmin": True}]}
        assert service.call("admin/users/upsert", restored, api_key=left).status_code == 200


def test_passwords_are_kept_as_argon2id_and_never_answered(service: RunningService, databases: TestDatabases) -> None:
    """The hash verifies; no answer and no audit entry has the password."""
    response = service.call("admin/users/upsert", {"users": [{"email": "ada@example.test", "password": PASSWORD}]})
    assert "password" not in response.text
    with databases.connect(service.database) as connection:
        query = "SELECT password_hash FROM principals WHERE email = 'ada@example.test'"
        kept = str((connection.execute(query).fetchone() or ["", ""])[0])
    assert kept.startswith("$argon2id$")
    assert PasswordHasher().verify(kept, PASSWORD)
    log = service.call("admin/auditLog/query", {"pageSize": 1000}).text
    assert PASSWORD not in log
    assert kept not in log


def test_other_requests_are_answered_while_many_passwords_are_hashed(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashing is off the event loop: the slowest answer beside it takes a fraction of the whole."""
    monkeypatch.setattr(passwords, "_HASHER", PASSWORD_HASHER)  # other services of tests spend nothing on a password
    users = [{"email": f"p{number}@example.test", "password": PASSWORD} for number in range(150)]
    took: list[float] = []
    upsert = threading.Thread(target=lambda: took.append(_timed(service, "admin/users/upsert", {"users": users})))
    upsert.start()
    beside: list[float] = []
    while upsert.is_alive():
        beside.append(_timed(service, "admin/organization/get", {}))
    assert len(beside) > 5
    assert max(beside) < took[0] / 2


def test_the_organizations_settings_are_changed_one_at_a_time(service: RunningService) -> None:
    """What is left out stays; a domain that is none is refused."""
    before = done(service.call("admin/organization/get"))
    assert before["serviceAccountsEnabled"] is False
    changed = done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    assert changed == before | {"serviceAccountsEnabled": True}
    changed = done(service.call("admin/organization/update", {"name": "Ferries", "domain": "Ferries.Example"}))
    assert changed == before | {"serviceAccountsEnabled": True, "name": "Ferries", "domain": "ferries.example"}
    assert done(service.call("admin/organization/get")) == changed
    assert code(service.call("admin/organization/update", {"domain": "a@b"}))[0] == 400


def test_another_organization_does_not_exist_for_this_one(service: RunningService) -> None:
    """Users, keys and the log are its own; the same address may be in both."""
    other = another_organization(service)
    here, there = a_user(service, "ada@example.test"), {"email": "ada@example.test", "name": "Other Ada"}
    theirs = done(service.call("admin/users/upsert", {"users": [there]}, api_key=other))["users"][0]
    assert theirs["id"] != here["id"]
    assert {one["name"] for one in walk(service, "admin/users/list", {}, page_size=10)} == {"admin", "ada"}
    seen = walk(service, "admin/users/list", {}, page_size=10, api_key=other)
    assert {one["name"] for one in seen} == {"admin", "Other Ada"}
    mine = done(service.call("admin/apiKeys/list"))["apiKeys"]
    assert len(mine) == 1
    stranger = service.call("admin/apiKeys/revoke", {"apiKeyId": mine[0]["apiKeyId"]}, api_key=other)
    assert code(stranger) == (404, "api_key_not_found")
    page = {"pageSize": 1, "pageToken": done(service.call("admin/users/list", {"pageSize": 1}))["nextPageToken"]}
    assert code(service.call("admin/users/list", page, api_key=other)) == (400, "invalid_page_token")


def _timed(service: RunningService, operation: str, body: object) -> float:
    start = time.perf_counter()
    with httpx.Client(base_url=service.base_url, timeout=60) as http:
        headers = {"Authorization": f"Bearer {service.api_key}"}
        assert http.post(f"/api/v0/{operation}", json=body, headers=headers).status_code == 200
    return time.perf_counter() - start
