"""Helpers for service accounts and tokens in tests."""

from tests.harness.services import RunningService
from tests.service.directory import done


def enable_service_accounts(service: RunningService, *, enabled: bool = True, **options) -> None:
    done(service.call("admin/organization/update", {"serviceAccountsEnabled": enabled}, **options))


def an_account(service: RunningService, name: str = "Nightly load", **options) -> dict:
    return done(service.call("admin/serviceAccounts/create", {"displayName": name}, **options))


def account(one: dict) -> dict[str, str]:
    return {"type": "serviceAccount", "id": one["serviceAccountId"]}


def a_token(service: RunningService, of: dict, *scopes: str, **body) -> dict:
    request = {"serviceAccountId": of["serviceAccountId"], "name": "a token", "scopes": list(scopes), **body}
    return done(service.call("admin/serviceAccountTokens/mint", request))


def delete_account(service: RunningService, one: dict) -> dict:
    return done(service.call("admin/serviceAccounts/delete", {"serviceAccountId": one["serviceAccountId"]}))
