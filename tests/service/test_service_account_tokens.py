"""Service-account tokens: shown once, narrowed by scopes, and stopped at once."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.harness.services import RunningService
from tests.service.directory import code, done
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

READ = {"action": "READ"}
LOOKUP = "permissions/listAuthorizedResources"


def test_a_token_acts_as_its_account_until_it_is_revoked(service: RunningService) -> None:
    """It is 401 from the next request on; revoking it again changes nothing."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", name="nightly", description="loads at night")
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    revoked = done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": token["tokenId"]}))
    assert revoked["status"] == "revoked"
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")
    assert done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": token["tokenId"]})) == revoked


def test_a_tokens_value_is_shown_once(service: RunningService) -> None:
    """Lists have all of it but its value."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", description="loads at night")
    value = token.pop("token")
    assert value.startswith("svc_sa_")
    assert token["hint"] == value[-4:]
    assert done(service.call("admin/serviceAccountTokens/list"))["tokens"] == [token]


def test_an_expiry_is_a_year_from_now_unless_given(service: RunningService) -> None:
    """A year of the calendar."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service))
    made, ends = (datetime.fromisoformat(token[name]) for name in ("createdAt", "expiresAt"))
    assert (ends.year, ends.time()) == (made.year + 1, made.time())
    assert timedelta(days=365) <= ends - made <= timedelta(days=366)
    given = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    short = a_token(service, an_account(service), expiresAt=given.isoformat())
    assert datetime.fromisoformat(short["expiresAt"]) == given


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"scopes": ["catalog:everything"]}, (400, "invalid_request")),
        ({"scopes": None}, (400, "invalid_request")),
        ({"name": ""}, (400, "invalid_request")),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, (400, "expiry_past")),
        ({"serviceAccountId": "00000000-0000-7000-8000-000000000000"}, (404, "service_account_not_found")),
    ],
)
def test_a_token_that_could_not_be_used_as_asked_is_not_made(
    service: RunningService, body: dict[str, object], expected: tuple[int, str]
) -> None:
    """An unknown scope, a past expiry, nobody to act as."""
    enable_service_accounts(service)
    request = {"serviceAccountId": an_account(service)["serviceAccountId"], "name": "a token", "scopes": []}
    assert code(service.call("admin/serviceAccountTokens/mint", {**request, **body})) == expected
    assert done(service.call("admin/serviceAccountTokens/list"))["tokens"] == []
