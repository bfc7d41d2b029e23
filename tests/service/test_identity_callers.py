"""Credentials: who a request comes from, and that a refusal counts at once."""

from datetime import UTC, datetime, timedelta

from tests.service.directory import a_key, a_user, code, done

READ = {"action": "READ"}


def test_a_credential_that_is_no_ascii_is_a_401(service) -> None:
    headers = {"Authorization": "Bearer svc_key_\xe9".encode("latin-1")}
    response = service.call("permissions/listAuthorizedResources", READ, headers=headers)
    assert code(response) == (401, "invalid_credential")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_list_of_keys_says_which_were_revoked_or_have_expired(service) -> None:
    """A key is revoked again with the same answer; a key that could never work is not made."""
    late = service.call("admin/apiKeys/create", {"name": "late", "expiresAt": "2020-01-01T00:00:00Z"})
    assert code(late) == (400, "expiry_past")
    revoked, expired = a_key(service), a_key(service, expiresAt="2036-01-01T00:00:00Z")
    service.execute("UPDATE api_keys SET expires_at = now() WHERE api_key_id = %s", [expired["apiKeyId"]])
    answers = [service.call("admin/apiKeys/revoke", {"apiKeyId": revoked["apiKeyId"]}) for _ in range(2)]
    assert done(answers[0]) == done(answers[1])
    assert done(answers[0])["status"] == "revoked"
    for key, why in ((revoked, "credential_revoked"), (expired, "credential_expired")):
        assert code(service.call("admin/organization/get", api_key=key["apiKey"])) == (401, why)
    listed = {one["apiKeyId"]: one["status"] for one in done(service.call("admin/apiKeys/list"))["apiKeys"]}
    assert sorted(listed.values()) == ["active", "expired", "revoked"]
    assert (listed[revoked["apiKeyId"]], listed[expired["apiKeyId"]]) == ("revoked", "expired")


def test_an_inactive_users_credentials_stop_at_once_and_come_back(service) -> None:
    """The owner is looked at on every request, also whether they are an admin; so is the user a key acts for."""
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
