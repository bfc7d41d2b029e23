"""Signing in by an independent provider: the npm package oidc-provider, configured like four vendors' products."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, expect

from service.identity_server.signin import id_tokens
from service.platform.networks import name_loopback
from tests.browser.people import window
from tests.harness.node import install_programs
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import App, Pkce, an_app
from tests.service.directory import another_organization, done

pytestmark = pytest.mark.slow

TENANT = "11111111-2222-3333-4444-555555555555"
CREW, DECK = "99999999-0000-0000-0000-000000000001", "99999999-0000-0000-0000-000000000002"
MAIL = ["email", "email_verified"]
# The claims of each maker, and by which scope an application gets them. Okta's ID token is thin, as the standard has it
# for one with an access token: its mail and groups are at the UserInfo endpoint.
SHAPES: dict[str, dict] = {
    "entra": {"openid": ["sub", "oid", "tid", "groups", "preferred_username", "name", "ver"], "email": ["email"]},
    "okta": {"openid": ["sub", "ver", "idp"], "email": MAIL, "profile": ["name", "preferred_username", "groups"]},
    "google": {"openid": ["sub", "hd"], "email": MAIL, "profile": ["name", "given_name"]},
    "keycloak": {"openid": ["sub", "realm_access", "groups"], "email": MAIL, "profile": ["name", "preferred_username"]},
}
THIN = {"okta"}
PATHS = {"entra": f"/{TENANT}/v2.0", "okta": "/okta", "google": "/google", "keycloak": "/realms/ships"}


def account(name: str, provider: str, **claims) -> dict:
    return {"name": name, "email": f"{name.lower()}@{provider}.test", "email_verified": True, **claims}


ENTRA = {"oid": "0e0e0e0e-0000-0000-0000-00000000000e", "tid": TENANT, "ver": "2.0"}
OKTA = {"preferred_username": "ora@okta.test", "ver": 1, "idp": "00o1"}
KEYCLOAK = {"preferred_username": "kai", "realm_access": {"roles": ["offline_access"]}}
ACCOUNTS: dict[str, dict] = {
    "enid": {"name": "Enid", "preferred_username": "enid@entra.test", "groups": [CREW, DECK], **ENTRA},
    "ora": account("Ora", "okta", groups=["Everyone", "crew"], **OKTA),
    "gil": account("Gil", "google", hd="google.test"),
    "kai": account("Kai", "keycloak", groups=["/crew"], **KEYCLOAK),
}


@dataclass
class Providers:
    """The providers of all vendors on one port; Entra's has a second host name of the machine."""

    process: "subprocess.Popen[str]"
    port: int
    accounts: dict[str, dict] = field(default_factory=lambda: json.loads(json.dumps(ACCOUNTS)))

    def issuer(self, name: str) -> str:
        return f"http://{'localhost' if name == 'entra' else '127.0.0.1'}:{self.port}{PATHS[name]}"

    def say(self, **what) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def open(self, service: RunningService, ids: dict[str, str]) -> None:
        """Register the service with each provider, following the docs and the page."""
        shapes = {}
        for name, claims in SHAPES.items():
            client = {
                "client_id": name,
                "client_secret": f"a secret of {name}'s",
                "redirect_uris": [f"{service.base_url}/api/oauth/upstream/callback"],
                "post_logout_redirect_uris": [f"{service.base_url}/account/sign-in"],
                "backchannel_logout_uri": f"{service.base_url}/api/oauth/upstream/{ids[name]}/logout",
                "backchannel_logout_session_required": True,
            }
            shape = {"issuer": self.issuer(name), "client": client, "claims": claims, "thin": name in THIN}
            shapes[PATHS[name]] = shape
        self.say(shapes=shapes, accounts=self.accounts)

    def change(self, login: str, **claims) -> None:
        self.accounts[login] = self.accounts.get(login, {}) | claims
        self.say(accounts=self.accounts)


@pytest.fixture
def providers(tmp_path) -> Iterator[Providers]:
    folder = install_programs(tmp_path / "node")
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            ["node", "provider.mjs"],  # noqa: S607 - whichever Node there is
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout
        try:
            yield Providers(process, int(process.stdout.readline()))
        finally:
            process.kill()


@dataclass
class Walk:
    """A person with a separate window and cookies."""

    page: Page
    service: RunningService
    app: App

    def by_address(self, email: str) -> "Walk":
        self.page.goto(f"{self.service.base_url}/account/sign-in")
        self.page.get_by_label("Email address at your organization").fill(email)
        self.page.get_by_role("button", name="Sign in with your organization's provider instead").click()
        return self

    def by_button(self, name: str) -> "Walk":
        query = "&".join(f"{key}={value}" for key, value in self.app.parameters(Pkce(), state="s").items())
        self.page.goto(f"{self.service.base_url}/api/oauth/authorize?{query}")
        self.page.get_by_role("link", name=f"Sign in with {name} instead").click()
        return self

    def as_login(self, login: str) -> "Walk":
        self.page.get_by_placeholder("Enter any login").fill(login)
        self.page.get_by_placeholder("and password").fill("any")
        self.page.get_by_role("button", name="Sign-in").click()
        self.page.get_by_role("button", name="Continue").click()
        return self

    def reads(self, text: str) -> "Walk":
        expect(self.page.get_by_text(text)).to_be_visible()
        assert self.page.url.startswith(name_loopback(self.service.base_url))
        return self

    def signs_out_everywhere(self) -> None:
        self.page.goto(f"{self.service.base_url}/account/consents")
        self.page.get_by_role("button", name="Sign out").click()
        self.page.get_by_role("button", name="Yes, sign me out").click()
        self.page.wait_for_url(f"{name_loopback(self.service.base_url)}/account/sign-in")


@pytest.fixture
def walks(browser: Browser, service_harness: ServiceHarness) -> Iterator[Callable[[], Walk]]:
    with service_harness.running(webhook_allowed_hosts=("127.0.0.1", "localhost")) as service, ExitStack() as windows:
        app = an_app(service)
        yield lambda: Walk(windows.enter_context(window(browser)), service, app)


def test_people_sign_in_by_foreign_providers(walks, providers, monkeypatch) -> None:
    # Whose `oid` counts is told by the host of the issuer alone, and no test can have Entra's.
    monkeypatch.setattr(id_tokens, "ENTRA_HOSTS", frozenset({"localhost"}))
    service = walks().service
    ids = keep_all(service, providers)

    walks().by_address("enid@entra.test").as_login("enid").reads("trust the addresses of this provider")
    done(service.call("admin/signInProviders/update", {"providerId": ids["entra"], "trustAddresses": True}))
    enid = walks().by_address("Enid@entra.test").as_login("enid").reads("Enid (enid@entra.test)")
    assert groups_of(service, "enid@entra.test") == {CREW, DECK}
    providers.change("enid", preferred_username="enid.married@entra.test", groups=[DECK])
    walks().by_button("entra").as_login("enid").reads("enid@entra.test")
    assert groups_of(service, "enid@entra.test") == {DECK}
    enid.signs_out_everywhere()

    for name, login, brought in (("okta", "ora", ["crew"]), ("google", "gil", []), ("keycloak", "kai", ["/crew"])):
        email = f"{login}@{name}.test"
        walk = walks().by_button(name).as_login(login).reads(email)
        assert groups_of(service, email) == set(brought)
        elsewhere = walks().by_address(email).as_login(login).reads(f"{login.title()} ({email})")
        walk.signs_out_everywhere()
        # The provider told the service by its back channel, which ended what this person had in the other browser.
        elsewhere.page.reload()
        expect(elsewhere.page.get_by_label("Password")).to_be_visible()
        assert elsewhere.page.url.startswith(f"{name_loopback(service.base_url)}/account/sign-in")

    providers.change("gil", email="gil@other.test", hd="other.test")
    walks().by_button("google").as_login("gil").reads("gil@google.test")
    providers.change("eve", **account("Eve", "other"))
    walks().by_button("keycloak").as_login("eve").reads("not responsible for the domain of your address")


def keep_all(service: RunningService, providers: Providers) -> dict[str, str]:
    groups = [{"name": name, "externalId": name} for name in (CREW, DECK, "crew", "/crew")]
    done(service.call("admin/groups/upsert", {"groups": groups}))
    ids = {name: keep(service, providers, name) for name in SHAPES}
    other = another_organization(service)
    foreign = {"name": "Theirs", "issuer": "https://id.other.test", "clientId": "c", "clientSecret": "s"}
    done(service.call("admin/signInProviders/create", {**foreign, "domains": ["other.test"]}, api_key=other))
    providers.open(service, ids)
    for provider_id in ids.values():
        assert done(service.call("admin/signInProviders/test", {"providerId": provider_id}))["problems"] == []
    return ids


def keep(service: RunningService, providers: Providers, name: str) -> str:
    """Add a provider that creates accounts and is responsible for a domain; return the id."""
    body = {
        "name": name,
        "issuer": providers.issuer(name),
        "clientId": name,
        "clientSecret": f"a secret of {name}'s",
        "domains": [f"{name}.test"],
        "createAccounts": True,
        "signOutThere": True,
        "groupsClaim": "NONE" if name == "google" else "GROUPS",
    }
    return done(service.call("admin/signInProviders/create", body))["providerId"]


def groups_of(service: RunningService, email: str) -> set[str]:
    member = {"member": {"type": "user", "email": email}}
    return {one["name"] for one in done(service.call("admin/groups/listMemberships", member))["memberships"]}
