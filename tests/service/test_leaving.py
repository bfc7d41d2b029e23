"""Leavers: after every way of ending access, no credential works from the next request on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, LiteralString

import pytest
from psycopg import sql

from service.platform.errors import Forbidden
from tests.harness.services import RunningService
from tests.oauth.flow import App, a_person, an_app, works
from tests.service.conversations import MESSAGES, Desk, Script, Visitor, Watch, a_reply
from tests.service.directory import a_key, done
from tests.service.provisioning import Provider
from tests.service.service_accounts import an_account, enable_service_accounts

pytestmark = pytest.mark.own_service

Way = Callable[[RunningService, Provider, str, str], Any]
WAYS: dict[str, tuple[bool, Way]] = {
    "inactive": (False, lambda _, provider, _email, path: provider.patch(path, active(value=False)).raise_for_status()),
    "deleted": (True, lambda _, provider, _email, path: provider.send("DELETE", path).raise_for_status()),
    "changed": (
        False,
        lambda service, _, email, _path: done(
            service.call("admin/users/upsert", {"users": [{"email": email, "active": False}]})
        ),
    ),
    "offboarded": (True, lambda service, _, email, _path: done(service.call("admin/users/offboard", {"email": email}))),
}
# What gives somebody of an address an identity at a provider, a second factor, and a passkey.
FORGOTTEN: dict[str, LiteralString] = {
    "upstream_identities": "INSERT INTO upstream_identities (organization_id, principal_id, issuer, subject, bound_at)"
    " SELECT organization_id, principal_id, 'https://idp.test', email, now() FROM principals WHERE email = %s",
    "second_factors": "INSERT INTO second_factors (organization_id, principal_id, factor_id, kind, created_at)"
    " SELECT organization_id, principal_id, gen_random_uuid(), 'passkey', now() FROM principals WHERE email = %s",
    "passkeys": "INSERT INTO passkeys SELECT factor_id, second_factors.organization_id, principal_id, email::bytea,"
    " 'key', 'handle', 0, 'Phone' FROM second_factors JOIN principals USING (principal_id) WHERE email = %s",
}


def active(*, value: bool) -> dict[str, Any]:
    return {"op": "replace", "value": {"active": value}}


@dataclass(frozen=True)
class Leaver:
    """An admin with every kind of sign-in; `robot` is a service account's token made by the admin."""

    service: RunningService
    email: str
    app: App
    tokens: dict[str, Any]
    key: str
    robot: str

    @classmethod
    def of(cls, service: RunningService, email: str, app: App, account: dict[str, Any]) -> "Leaver":
        tokens = a_person(service, email, isAdmin=True).tokens(app, scope=f"{MESSAGES} api:catalog:read")
        key = a_key(service, ownerEmail=email)["apiKey"]
        body = {"serviceAccountId": account["serviceAccountId"], "name": "theirs", "scopes": ["catalog:read"]}
        robot = done(service.call("admin/serviceAccountTokens/mint", body, api_key=key))["token"]
        done(service.call("admin/users/invite", {"email": email}))
        with service.owner_connection() as connection:
            for statement in FORGOTTEN.values():
                connection.execute(statement, [email])
        return cls(service, email, app, tokens, key, robot)

    def held(self, table: str) -> int:
        statement = sql.SQL("SELECT FROM {} JOIN principals USING (principal_id) WHERE email = %s")
        with self.service.owner_connection() as connection:
            return connection.execute(statement.format(sql.Identifier(table)), [self.email]).rowcount

    def check_refused(self) -> None:
        assert not works(self.service, self.tokens["access_token"])
        assert self.app.refresh(self.tokens["refresh_token"]).status_code == 400
        assert self.service.call("catalog/listDocuments", api_key=self.key).status_code == 401


@pytest.mark.timeout(180)
def test_nothing_that_a_leaver_held_works_from_the_next_request_on(desk: Desk, script: Script) -> None:
    service = desk.service
    provider, app = Provider(service), an_app(service)
    enable_service_accounts(service)
    account = an_account(service)
    for number, (way, (for_good, end)) in enumerate(WAYS.items()):
        leaver = Leaver.of(service, f"{way}@example.test", app, account)
        service.call("catalog/listDocuments", api_key=leaver.key).raise_for_status()
        [found] = provider.find("Users", filter=f'userName eq "{leaver.email}"')["Resources"]
        path, crew = f"Users/{found['id']}", provider.group(f"Crew of {way}", found)
        visitor = Visitor(desk, leaver.tokens["access_token"], app)
        with Watch(visitor, done(visitor.send())["jobId"]) as watch:
            script.tell("At", number=number)
            assert watch.next().data == {"text": "At"}
            end(service, provider, leaver.email, path)
            leaver.check_refused()
            script.tell("At noon", number=number)
            assert list(watch) == [], way
        with pytest.raises(Forbidden, match="no longer active"):
            service.run(script.scene(number).assignment.sender())
        script.end(a_reply("At noon"), number=number)
        service.call("catalog/listDocuments", api_key=leaver.robot).raise_for_status()
        assert [leaver.held(table) for table in ("browser_sessions", "invitations", "oauth_codes")] == [0, 0, 1], way
        assert [leaver.held(table) for table in FORGOTTEN] == [not for_good] * 3, way
        assert len(done(provider.send("GET", f"Groups/{crew['id']}")).get("members", [])) == (not for_good), way
        if way == "deleted":
            assert provider.user(leaver.email, externalId="again")["id"] == found["id"]
        else:
            provider.patch(path, active(value=True)).raise_for_status()
        assert not works(service, leaver.tokens["access_token"])
        assert leaver.app.refresh(leaver.tokens["refresh_token"]).status_code == 400
        back = service.call("admin/users/list", {"query": leaver.email}, api_key=leaver.key)
        # Their key works again where it was only refused while they were away, and is no admin's any more.
        assert back.status_code == (401 if for_good else 403), way
        [person] = done(service.call("admin/users/list", {"query": leaver.email}))["users"]
        assert (person["isAdmin"], person["hasPassword"]) == (False, not for_good), way
