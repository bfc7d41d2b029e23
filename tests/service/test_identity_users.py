"""Users and the organization, as admins keep them."""

import threading
from types import SimpleNamespace

import httpx
import pytest
from argon2 import PasswordHasher

from service.identity import passwords
from tests.harness.documents import list_documents, uploaded
from tests.service.agents import at_once
from tests.service.conversations import in_background
from tests.service.directory import a_key, a_user, code, done, on_rows, walk

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
    """An accent as a character of its own is the same address; so no second user, nor a document nobody finds."""
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
    response = service.call("admin/users/upsert", {"users": users})
    assert code(response) == (400, "duplicate_user")
    assert response.json()["error"]["details"][0]["field"] == "users.2.email"
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
    """Changes to an organization's principals happen one at a time, so that both cannot see the other still there."""
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
    assert PASSWORD not in log
    assert kept not in log


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
