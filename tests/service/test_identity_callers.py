"""Credentials: who a request comes from, and that a refusal counts at once."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.harness.services import RunningService
from tests.service.directory import a_key, a_user, code

READ = {"action": "READ"}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "missing_credential"),
        ("Basic YTpi", "malformed_authorization"),
        ("Bearer", "malformed_authorization"),
        ("Bearer something-else", "invalid_credential"),
        ("Bearer svc_key_" + "x" * 40, "invalid_credential"),
        ("Bearer svc_key_\xe9", "invalid_credential"),
        ("Bearer svc_sa_" + "x" * 40, "invalid_credential"),
        ("Bearer svc_at_" + "x" * 40, "wrong_version"),
    ],
)
def test_a_request_without_a_usable_credential_is_a_401_that_says_how_to_send_one(
    service: RunningService, header: str | None, expected: str
) -> None:
    """Whatever is wrong with the header, the answer is 401 with WWW-Authenticate."""
    del service.http.headers["Authorization"]
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    response = service.call("permissions/listAuthorizedResources", READ, headers=headers)
    assert code(response) == (401, expected)
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_the_bootstrap_key_works_exactly_as_it_was_given(service: RunningService) -> None:
    """The admin's key is the value of the settings, and a mistyped one is told apart."""
    assert service.call("admin/organization/get").json()["domain"] == "example.test"
    mistyped = service.call("admin/organization/get", api_key=service.api_key[:-1] + "x")
    assert code(mistyped) == (401, "invalid_credential")


def test_a_revoked_key_stops_with_the_next_request(service: RunningService) -> None:
    """No credential is cached."""
    key = a_key(service)
    assert service.call("admin/organization/get", api_key=key["apiKey"]).status_code == 200
    revoked = service.call("admin/apiKeys/revoke", {"apiKeyId": key["apiKeyId"]})
    assert revoked.json()["status"] == "revoked"
    assert code(service.call("admin/organization/get", api_key=key["apiKey"])) == (401, "credential_revoked")
    assert service.call("admin/apiKeys/revoke", {"apiKeyId": key["apiKeyId"]}).json() == revoked.json()


def test_an_expired_key_stops(service: RunningService) -> None:
    """Expiry is looked at on every request, by the database's clock."""
    soon = (datetime.now(UTC) + timedelta(seconds=6)).isoformat()
    key = a_key(service, expiresAt=soon)
    assert service.call("admin/organization/get", api_key=key["apiKey"]).status_code == 200
    while (response := service.call("admin/organization/get", api_key=key["apiKey"])).status_code == 200:
        assert datetime.now(UTC) < datetime.fromisoformat(soon) + timedelta(seconds=30)
        time.sleep(0.2)
    assert code(response) == (401, "credential_expired")
    listed = {one["apiKeyId"]: one["status"] for one in service.call("admin/apiKeys/list").json()["apiKeys"]}
    assert listed[key["apiKeyId"]] == "expired"


def test_an_expiry_in_the_past_is_refused(service: RunningService) -> None:
    """A key that could never work is not made."""
    response = service.call("admin/apiKeys/create", {"name": "late", "expiresAt": "2020-01-01T00:00:00Z"})
    assert code(response) == (400, "expiry_past")
    assert len(service.call("admin/apiKeys/list").json()["apiKeys"]) == 1


def test_an_inactive_users_credentials_stop_at_once_and_come_back(service: RunningService) -> None:
    """The owner is looked at on every request; so is the user a key acts for."""
    a_user(service, "ben@example.test")
    key = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    acting = READ | {"userEmail": "ben@example.test"}
    assert service.call("permissions/listAuthorizedResources", READ, api_key=key).status_code == 200
    assert service.call("permissions/listAuthorizedResources", acting).status_code == 200
    a_user(service, "ben@example.test", active=False)
    assert code(service.call("permissions/listAuthorizedResources", READ, api_key=key)) == (401, "owner_inactive")
    assert code(service.call("permissions/listAuthorizedResources", acting)) == (400, "unknown_user")
    assert code(service.call("admin/apiKeys/create", {"name": "k", "ownerEmail": "ben@example.test"}))[0] == 400
    a_user(service, "ben@example.test", active=True)
    assert service.call("permissions/listAuthorizedResources", READ, api_key=key).status_code == 200


def test_only_a_key_that_may_act_for_users_does(service: RunningService) -> None:
    """403 for a key that may not, 400 for a user there is not; the address is compared without regard to case."""
    a_user(service, "ben@example.test")
    plain = a_key(service)["apiKey"]
    acting = a_key(service, mayActForUsers=True)["apiKey"]
    ask = READ | {"userEmail": "Ben@Example.TEST"}
    refused = service.call("permissions/listAuthorizedResources", ask, api_key=plain)
    assert code(refused) == (403, "key_may_not_act_for_users")
    assert service.call("permissions/listAuthorizedResources", ask, api_key=acting).status_code == 200
    unknown = service.call("permissions/listAuthorizedResources", READ | {"userEmail": "no@example.test"})
    assert code(unknown) == (400, "unknown_user")


def test_a_user_who_is_no_admin_administers_nothing_even_with_a_malformed_body(service: RunningService) -> None:
    """403 comes before anything about the body or what it names."""
    a_user(service, "ben@example.test")
    key = a_key(service, ownerEmail="ben@example.test", mayActForUsers=True)["apiKey"]
    operations = [
        path for path in service.http.get("/openapi.json").json()["paths"] if path.startswith("/api/v0/admin/")
    ]
    assert len(operations) >= 14
    admin_only = {path.removeprefix("/api/v0/") for path in operations} - {"admin/oauthClients/request"}
    for operation in [*admin_only, "permissions/listAuthorizedPrincipalsForResource"]:
        assert code(service.call(operation, {"nonsense": 1}, api_key=key)) == (403, "admin_only"), operation


def test_a_demoted_admins_key_administers_no_more(service: RunningService) -> None:
    """Being an admin is asked of the owner on every request."""
    a_user(service, "ben@example.test", isAdmin=True)
    key = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    assert service.call("admin/organization/get", api_key=key).status_code == 200
    a_user(service, "ben@example.test", isAdmin=False)
    assert service.call("admin/organization/get", api_key=key).status_code == 403


def test_a_keys_value_is_shown_once_and_kept_nowhere(service: RunningService) -> None:
    """Lists show the hint; the database has the hash."""
    key = a_key(service)
    assert key["hint"] == key["apiKey"][-4:]
    listed = service.call("admin/apiKeys/list").text
    assert key["apiKeyId"] in listed
    assert key["apiKey"] not in listed
    assert key["apiKey"] not in service.call("admin/auditLog/query", {"pageSize": 1000}).text


def test_the_last_use_of_a_key_is_known_to_the_minute(service: RunningService) -> None:
    """It is written on first use, and not again within a minute."""

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


def test_a_key_that_is_made_again_by_a_retry_is_not_made_twice_nor_shown_again(service: RunningService) -> None:
    """The retry of a request whose answer was lost is told so."""
    retried = {"headers": {"Idempotency-Key": "attempt-1"}}
    assert service.call("admin/apiKeys/create", {"name": "once"}, **retried).status_code == 200
    assert code(service.call("admin/apiKeys/create", {"name": "once"}, **retried)) == (409, "already_done")
    names = [one["name"] for one in service.call("admin/apiKeys/list").json()["apiKeys"]]
    assert names.count("once") == 1
