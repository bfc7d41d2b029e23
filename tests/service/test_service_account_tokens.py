"""Service-account tokens: shown once, narrowed by scopes, and stopped at once."""

import time
from calendar import isleap
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.platform.secrets import hash_secret
from tests.harness.documents import upload
from tests.harness.services import RunningService
from tests.service.directory import a_key, a_user, another_organization, code, done, walk
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

READ = {"action": "READ"}
LOOKUP = "permissions/listAuthorizedResources"
MINT = "admin/serviceAccountTokens/mint"
LIST = "admin/serviceAccountTokens/list"
REVOKE = "admin/serviceAccountTokens/revoke"
NOBODY = "00000000-0000-7000-8000-000000000000"


def test_a_token_acts_as_its_account_until_it_is_revoked(service: RunningService) -> None:
    """It is 401 from the next request on, the account's other tokens work on; revoking it again changes nothing."""
    enable_service_accounts(service)
    robot = an_account(service)
    token, other = (a_token(service, robot, "catalog:read") for _ in range(2))
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    revoked = done(service.call(REVOKE, {"tokenId": token["tokenId"]}))
    assert revoked["status"] == "revoked"
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")
    assert service.call(LOOKUP, READ, api_key=other["token"]).status_code == 200
    assert done(service.call(REVOKE, {"tokenId": token["tokenId"]})) == revoked
    assert len(walk(service, "admin/auditLog/query", {"action": "serviceAccountToken.revoke"}, page_size=9)) == 1


def test_a_tokens_value_is_shown_once_and_kept_nowhere(service: RunningService) -> None:
    """Lists have all of it but its value; the database has the hash."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", name="nightly", description="loads at night")
    value = token.pop("token")
    assert value.startswith("svc_sa_")
    assert token["hint"] == value[-4:]
    assert (token["name"], token["description"], token["status"]) == ("nightly", "loads at night", "active")
    assert done(service.call(LIST))["tokens"] == [token]
    with service.owner_connection() as connection:
        row = connection.execute("SELECT secret_hash, t::text FROM service_account_tokens t").fetchone()
    assert row is not None
    assert row[0] == hash_secret(value)
    assert value not in row[1]
    assert value.removeprefix("svc_sa_") not in service.call("admin/auditLog/query", {"pageSize": 1000}).text


def test_a_token_that_is_minted_again_by_a_retry_is_not_minted_twice_nor_shown_again(service: RunningService) -> None:
    """The retry of a request whose answer was lost is told so."""
    enable_service_accounts(service)
    request = {"serviceAccountId": an_account(service)["serviceAccountId"], "name": "once", "scopes": []}
    retried = {"headers": {"Idempotency-Key": "attempt-1"}}
    assert service.call(MINT, request, **retried).status_code == 200
    assert code(service.call(MINT, request, **retried)) == (409, "already_done")
    assert len(done(service.call(LIST))["tokens"]) == 1


def test_an_expiry_is_a_year_from_now_unless_given(service: RunningService) -> None:
    """The same day and time of the next year; the day before a 29th of February that it has not."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service))
    made, ends = (datetime.fromisoformat(token[name]) for name in ("createdAt", "expiresAt"))
    leap_day = (made.month, made.day) == (2, 29) and not isleap(made.year + 1)
    assert ends == made.replace(year=made.year + 1, day=28 if leap_day else made.day)
    given = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    elsewhere = given.astimezone(tz=None).isoformat()
    assert datetime.fromisoformat(a_token(service, an_account(service), expiresAt=elsewhere)["expiresAt"]) == given
    last = a_token(service, an_account(service), expiresAt="9999-12-31T23:59:59Z")
    assert last["expiresAt"] == "9999-12-31T23:59:59Z"


def test_an_expired_token_stops(service: RunningService) -> None:
    """Expiry is looked at on every request and in every list, by the database's clock."""
    enable_service_accounts(service)
    soon = datetime.now(UTC) + timedelta(seconds=6)
    token = a_token(service, an_account(service), "catalog:read", expiresAt=soon.isoformat())
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    while (response := service.call(LOOKUP, READ, api_key=token["token"])).status_code == 200:
        assert datetime.now(UTC) < soon + timedelta(seconds=30)
        time.sleep(0.2)
    assert code(response) == (401, "credential_expired")
    assert [one["status"] for one in done(service.call(LIST))["tokens"]] == ["expired"]
    assert done(service.call(REVOKE, {"tokenId": token["tokenId"]}))["status"] == "revoked"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"scopes": ["catalog:everything"]}, (400, "invalid_request")),
        ({"scopes": ["CATALOG:READ"]}, (400, "invalid_request")),
        ({"scopes": None}, (400, "invalid_request")),
        ({"name": ""}, (400, "invalid_request")),
        ({"name": "x" * 201}, (400, "invalid_request")),
        ({"expiresAt": "2031-01-01"}, (400, "invalid_request")),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, (400, "expiry_past")),
        ({"serviceAccountId": NOBODY}, (404, "service_account_not_found")),
    ],
)
def test_a_token_that_could_not_be_used_as_asked_is_not_minted(
    service: RunningService, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    """An unknown scope, a past expiry, nobody to act as."""
    enable_service_accounts(service)
    request = {"serviceAccountId": an_account(service)["serviceAccountId"], "name": "a token", "scopes": []}
    assert code(service.call(MINT, {**request, **body})) == expected
    assert done(service.call(LIST))["tokens"] == []


def test_a_token_is_for_a_service_account_alone(service: RunningService) -> None:
    """Not for a user or the whole organization by their ids."""
    enable_service_accounts(service)
    organization = done(service.call("admin/organization/get"))["organizationId"]
    for who in (a_user(service, "ben@example.test")["id"], organization):
        request = {"serviceAccountId": who, "name": "a token", "scopes": ["catalog:read"]}
        assert code(service.call(MINT, request)) == (404, "service_account_not_found")


def test_a_scope_given_twice_counts_once(service: RunningService) -> None:
    """They are a set, shown in one order."""
    enable_service_accounts(service)
    robot = an_account(service)
    assert a_token(service, robot, "catalog:read", "catalog:read")["scopes"] == ["catalog:read"]
    assert a_token(service, robot, "catalog:read", "agent:message")["scopes"] == ["agent:message", "catalog:read"]


def test_scopes_say_what_a_token_may_call(service: RunningService) -> None:
    """403 names the one that is missing, before the body is looked at; without any, nothing may be called."""
    enable_service_accounts(service)
    robot = an_account(service)
    none, reading = (a_token(service, robot, *scopes)["token"] for scopes in ((), ("catalog:read",)))
    for token, operation, scope in (
        (none, LOOKUP, "catalog:read"),
        (none, "catalog/planUpload", "catalog:write"),
        (reading, "catalog/planUpload", "catalog:write"),
    ):
        refused = service.call(operation, {"nonsense": 1}, api_key=token)
        assert code(refused) == (403, "missing_scope")
        assert scope in refused.json()["error"]["message"]
    assert service.call(LOOKUP, READ, api_key=reading).status_code == 200
    assert code(service.call("admin/organization/get", api_key=reading)) == (403, "service_account_not_allowed")


def test_a_token_never_acts_as_a_person(service: RunningService) -> None:
    """Not even as a user who exists, and not by an upload."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", "catalog:write")["token"]
    acting = {**READ, "userEmail": service.admin_email}
    assert code(service.call(LOOKUP, acting, api_key=token)) == (400, "service_account_acts_as_itself")
    service.http.headers["Authorization"] = f"Bearer {token}"
    assert code(upload(service, "a", as_user=service.admin_email)) == (400, "service_account_acts_as_itself")


def test_tokens_are_listed_by_account_and_page(service: RunningService) -> None:
    """All, or one account's; an account that is unknown has no list."""
    enable_service_accounts(service)
    one, other = an_account(service), an_account(service)
    made = [a_token(service, of)["tokenId"] for of in (one, other, one, one, other)]
    named = {"serviceAccountId": one["serviceAccountId"]}
    assert [token["tokenId"] for token in walk(service, LIST, {}, page_size=2)] == made
    assert [token["tokenId"] for token in walk(service, LIST, named, page_size=2)] == [made[0], made[2], made[3]]
    assert code(service.call(LIST, {"serviceAccountId": NOBODY})) == (404, "service_account_not_found")


def test_another_organizations_token_is_unknown(service: RunningService) -> None:
    """It is neither listed nor revoked there, and a token that never was answers the same."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read")
    theirs = another_organization(service)
    assert done(service.call(LIST, api_key=theirs))["tokens"] == []
    for token_id, key in ((token["tokenId"], theirs), (NOBODY, None)):
        assert code(service.call(REVOKE, {"tokenId": token_id}, api_key=key)) == (404, "token_not_found")
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200


def test_the_last_use_of_a_token_is_known_and_is_its_own(service: RunningService) -> None:
    """It is written on first use; another token of the account, or an API key, is told apart."""
    enable_service_accounts(service)
    robot = an_account(service)
    used, _ = (a_token(service, robot, "catalog:read") for _ in range(2))
    a_key(service)
    assert [one.get("lastUsedAt") for one in done(service.call(LIST))["tokens"]] == [None, None]
    service.call(LOOKUP, READ, api_key=used["token"])
    times = [one.get("lastUsedAt") for one in done(service.call(LIST))["tokens"]]
    assert datetime.now(UTC) - datetime.fromisoformat(times[0]) < timedelta(minutes=1)
    assert times[1] is None
