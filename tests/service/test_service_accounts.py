"""Service accounts: made with an address of their own, with no access but what they are given, and deleted at once."""



from tests.harness.services import RunningService
from tests.service.directory import code, done
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

READ = {"action": "READ"}
LOOKUP = "permissions/listAuthorizedResources"


def test_nothing_is_made_before_the_organization_enables_service_accounts(service: RunningService) -> None:
    """Creating and minting are 403 until then, whatever the body, and a token stops when it is taken back."""
    for operation in ("admin/serviceAccounts/create", "admin/serviceAccountTokens/mint"):
        assert code(service.call(operation, {"nonsense": 1})) == (403, "service_accounts_disabled")
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == []
    enable_service_accounts(service)
    account = an_account(service, "Nightly load")
    token = a_token(service, account, "catalog:read")
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    enable_service_accounts(service, enabled=False)
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (403, "service_accounts_disabled")
    assert code(service.call("admin/serviceAccounts/create", {"displayName": "x"}))[0] == 403
    enable_service_accounts(service)
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200


def test_an_account_is_reported_as_it_was_made(service: RunningService) -> None:
    """By its name, and an address on the organization's domain."""
    enable_service_accounts(service)
    made = an_account(service, "Nightly load")
    assert made["displayName"] == "Nightly load"
    assert made["email"] == "nightly-load@example.test"
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == [made]


def test_a_deleted_account_is_gone_with_its_tokens(service: RunningService) -> None:
    """From the next request on its tokens are 401, and it can't be deleted twice."""
    enable_service_accounts(service)
    account = an_account(service, "Nightly load")
    tokens = [a_token(service, account, "catalog:read") for _ in range(2)]
    done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": tokens[1]["tokenId"]}))
    named = {"serviceAccountId": account["serviceAccountId"]}
    gone = done(service.call("admin/serviceAccounts/delete", named))
    assert gone == {**named, "revokedTokenCount": 1}
    assert code(service.call(LOOKUP, READ, api_key=tokens[0]["token"])) == (401, "credential_revoked")
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == []
    for operation, more in (
        ("admin/serviceAccounts/delete", {}),
        ("admin/serviceAccountTokens/mint", {"name": "late", "scopes": []}),
        ("admin/serviceAccountTokens/list", {}),
    ):
        assert code(service.call(operation, {**named, **more})) == (404, "service_account_not_found")
    listed = done(service.call("admin/serviceAccountTokens/list"))["tokens"]
    assert [one["status"] for one in listed] == ["revoked", "revoked"]
