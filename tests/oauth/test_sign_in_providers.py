"""Providers of an organization: mapping subjects to accounts, with a small real provider that may be wrong."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import httpx
import pytest
from joserfc.jwk import RSAKey
from limits import RateLimitItemPerSecond
from sqlalchemy.exc import IntegrityError

from carrel.wire.sign_in_providers import GroupsClaim
from service.identity_server.providers.service import confirm_domain
from service.identity_server.signin import id_tokens
from service.identity_server.signin import provider as upstream
from service.identity_server.signin.id_tokens import NotVouched, Subject
from service.identity_server.signin.providers import binding
from service.identity_server.signin.providers.binding import is_of_one_tenant, named_groups, vouched_address
from service.identity_server.signin.providers.queries import StoredProvider
from service.platform import copies as keeping
from service.platform.rate_limits import Counter
from tests.harness.cases import cases
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import App, Person, Pkce, a_person, an_app, entries, sent_back, works
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, serving
from tests.oauth.test_upstream import changed, come_back, leave
from tests.service.directory import a_user, another_organization, code, done, on_rows, organization_id, user
from tests.service.provisioning import Provider


@dataclass(frozen=True)
class Work:
    """A provider of the organization, without trust, and an application."""

    provider: OpenIdProvider
    service: RunningService
    app: App
    provider_id: str = ""

    def change(self, **changes) -> None:
        done(self.service.call("admin/signInProviders/update", {"providerId": self.provider_id, **changes}))

    def arrive(self, **claims) -> str:
        self.provider.person = claims
        return come_back(Person(self.service), self.app).text

    def why(self) -> str:
        return entries(self.service, "session.refuse")[0]["details"]["reason"]

    def problems(self) -> list[str]:
        return done(self.service.call("admin/signInProviders/test", {"providerId": self.provider_id}))["problems"]


@pytest.fixture(scope="module")
def known(service_harness: ServiceHarness) -> Iterator[Work]:
    with serving() as provider, service_harness.running(webhook_allowed_hosts=("127.0.0.1",)) as service:
        yield Work(provider, service, an_app(service))


@pytest.fixture
def work(known: Work) -> Iterator[Work]:
    known.provider.behave()
    made = done(create(known.service, known.provider.issuer))
    confirm(known.service)
    yield replace(known, provider_id=made["providerId"])
    done(known.service.call("admin/signInProviders/delete", {"providerId": made["providerId"]}))


def confirm(service: RunningService, *, api_key: str | None = None, confirmed: bool = True) -> bool:
    organization = organization_id(service, api_key=api_key)
    database = service.runtime.database
    return service.run(confirm_domain(database, organization, domain="example.test", confirmed=confirmed))


def create(service: RunningService, issuer: str, *, api_key: str | None = None, **changes) -> httpx.Response:
    own = {"name": "Work", "issuer": issuer, "clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}
    body = {**own, "domains": ["example.test"], **changes}
    return service.call("admin/signInProviders/create", body, api_key=api_key)


def test_entra_by_trust_binds_for_good(work: Work) -> None:
    """No `email_verified`: refused until an admin trusts the issuer; then the subject counts, not the address."""
    a_person(work.service, "enid@example.test", name="Enid")
    enid = {"sub": "pairwise", "email": "Enid@Example.test"}
    assert "trust the addresses of this provider on the page Sign-in" in work.arrive(**enid)
    refused = entries(work.service, "session.refuse")[0]
    assert (refused["details"]["reason"], refused["target"]["id"]) == ("unverified", work.provider_id)
    work.change(trustAddresses=True)
    assert "Enid" in work.arrive(**enid)
    assert "Enid" in work.arrive(sub="pairwise", email="married@elsewhere.test")
    assert "no account here" in work.arrive(sub="new", email="enid@example.test")
    assert work.why() == "taken"
    assert "not responsible for the domain" in work.arrive(sub="f", email="a@other.test")
    a_user(work.service, "enid@example.test", active=False)
    assert "no account here" in work.arrive(**enid)
    assert work.why() == "inactive"


def test_an_id_that_was_provisioned_binds_within_the_domains(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Provider(work.service)
    brought = {"one": "mia@example.test", "two": "noa@partner.test", "three": "oda@example.test"}
    for external_id, email in brought.items():
        keeper.user(email, externalId=external_id, displayName=email.partition("@")[0].title())
    a_user(work.service, "oda@example.test", isAdmin=True)
    assert "Mia" in work.arrive(sub="one")
    assert "no account here" in work.arrive(sub="two", email="noa@partner.test")
    assert "no account here" in work.arrive(sub="three", email="eve@example.test")
    assert "no account here" in work.arrive(sub="three")
    assert "Oda" in work.arrive(sub="three", email="Oda@example.test")
    keeper.user("pia@example.test", externalId="four", displayName="Pia")
    assert "no account here" in work.arrive(sub="pairwise", oid="four")
    monkeypatch.setattr(id_tokens, "ENTRA_HOSTS", frozenset({"127.0.0.1"}))
    assert "Pia" in work.arrive(sub="pairwise", oid="four")


@pytest.mark.parametrize("order", ["provisioned", "signed in", "provisioned long ago"])
def test_a_guest_of_entra_is_one_person(work: Work, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    work.change(trustAddresses=True, createAccounts=True)
    monkeypatch.setattr(id_tokens, "ENTRA_HOSTS", frozenset({"127.0.0.1"}))
    local, keeper = f"guest-{len(order)}", Provider(work.service)
    email, made_up = f"{local}@example.test", f"{local}_example.test#EXT#@tenant.onmicrosoft.com"
    given = {"externalId": f"oid-{local}", "displayName": "Gus", "emails": [{"type": "work", "value": email}]}
    claims = {"sub": "pairwise", "oid": f"oid-{local}", "email": email, "name": "Gus"}
    if order == "signed in":
        assert "Gus" in work.arrive(**claims)
    person = keeper.user(made_up, **given)
    if order == "provisioned long ago":
        renamed = "UPDATE principals SET email = CASE principal_id WHEN %s THEN %s ELSE email END"
        on_rows(work.service, renamed, person["id"], made_up.lower())
        assert keeper.user(made_up, **given)["id"] == person["id"]
    assert "Gus" in work.arrive(**claims)
    for name in (email, made_up.upper()):
        [found] = keeper.find("Users", filter=f'userName eq "{name}"')["Resources"]
        assert (found["id"], found["userName"]) == (person["id"], email)
    listed = done(work.service.call("admin/users/list", {"pageSize": 1000}))["users"]
    assert [one["email"] for one in listed if local in one["email"]] == [email]
    elsewhere = made_up.replace("tenant.onmicrosoft.com", "evil.example")
    assert "no account here" in work.arrive(sub="other", email=elsewhere, email_verified=True)


def test_accounts_and_groups_come_with_the_token(work: Work) -> None:
    service = work.service
    crew = [{"name": name, "externalId": name} for name in ("crew", "deck", "bridge")]
    ids = {one["name"]: one["id"] for one in done(service.call("admin/groups/upsert", {"groups": crew}))["groups"]}
    made = {"sub": "finn", "email": "finn@example.test", "email_verified": True, "name": "Finn"}
    assert "no account here" in work.arrive(**made)
    work.change(createAccounts=True, groupsClaim="GROUPS")

    def groups_after(**claims) -> set[str]:
        assert "Finn" in work.arrive(**made, **claims)
        listed = done(service.call("admin/groups/listMemberships", {"member": user("finn@example.test")}))
        return {one["name"] for one in listed["memberships"] if one["direct"]}

    assert groups_after(groups=["crew", "deck", "unknown"]) == {"crew", "deck"}
    assert groups_after(groups=["crew", "deck", "bridge"]) == {"crew", "deck", "bridge"}
    by_hand = {"groupId": ids["bridge"], "members": [user("finn@example.test")]}
    done(service.call("admin/groups/addMembers", by_hand))  # what a token brought before stays from now on
    assert groups_after(groups=["deck"]) == {"deck", "bridge"}
    assert groups_after(_claim_names={"groups": "src1"}) == {"deck", "bridge"}
    begun = entries(service, "session.begin")[0]["details"]
    assert begun == {"by": "openIdConnect", "providerId": work.provider_id, "groups": "leftOut"}
    for odd, said in (({}, "absent"), ({"groups": None}, "absent"), ({"groups": {"deck": 1}}, "notAList")):
        assert groups_after(**odd) == {"deck", "bridge"}
        assert entries(service, "session.begin")[0]["details"]["groups"] == said
    assert "had a groups claim that is not a list" in work.problems()[0]
    assert groups_after(groups=[]) == {"bridge"}
    assert work.problems() == []


def test_other_audiences_count_once_an_admin_names_them(work: Work) -> None:
    work.change(createAccounts=True)
    ines = {"sub": "ines", "email": "ines@example.test", "email_verified": "true", "name": "Ines"}
    several = {"aud": [CLIENT_ID, "projects-1"], "azp": CLIENT_ID}
    assert "(projects-1)" in work.arrive(**ines, **several)
    assert entries(work.service, "session.refuse")[0]["details"]["audience"] == "projects-1"
    work.change(acceptedAudiences=["projects-1"])
    assert "Ines" in work.arrive(**ines, **several)
    for odd in ({"azp": "another"}, {"azp": None}, {"aud": ["projects-1"]}, {"aud": [CLIENT_ID, {}]}):
        assert "another application" in work.arrive(**ines, **(several | odd))


@pytest.mark.parametrize("methods", [None, ["client_secret_post"], ["client_secret_post", "client_secret_basic"]])
def test_a_secret_of_any_characters_is_given_as_the_provider_wants_it(work: Work, methods: list[str] | None) -> None:
    """In the form-encoded way of RFC 6749, section 2.3.1, or in the form."""
    a_person(work.service, "sec@example.test", name="Sec")
    work.provider.secret, work.provider.describes = "a+b%c:d&e f", {"token_endpoint_auth_methods_supported": methods}
    work.change(clientSecret=work.provider.secret)
    assert "Sec" in work.arrive(sub="sec", email="sec@example.test", email_verified=True)


def logout_token(provider: OpenIdProvider, **changes) -> str:
    now = int(time.time())
    right = {"iss": provider.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "jti": "a", "sub": "gus"}
    right["events"] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    return provider.signed(changed(**changes)(right))


def test_who_signs_out_there_is_signed_out_here(work: Work, pkce: Pkce) -> None:
    provider, service, app = work.provider, work.service, work.app
    provider.describes = {"end_session_endpoint": f"{provider.issuer}/logout"}
    work.change(createAccounts=True, signOutThere=True)
    gus = Person(service)
    provider.person = {"sub": "gus", "email": "gus@example.test", "email_verified": True, "sid": "one"}
    consent = come_back(gus, app, code_challenge=pkce.challenge)
    tokens = done(app.exchange(sent_back(gus.press(consent, "allow"))["code"], pkce))

    def told(**changes) -> int:
        form = {"logout_token": logout_token(provider, **changes)}
        return service.http.post(f"/api/oauth/upstream/{work.provider_id}/logout", data=form).status_code

    now = int(time.time())
    for name, wrong in (
        ("aud", "another"),
        ("iss", "https://evil.test"),
        ("events", None),
        ("nonce", "n"),
        ("sub", None),
        ("jti", None),
        ("iat", now - 3600),
        ("exp", now - 3600),
    ):
        assert told(**{name: wrong}) == 400, name
    assert works(service, tokens["access_token"])
    assert told() == 200
    assert not works(service, tokens["access_token"])
    assert "sign-in" in gus.http.get("/account/consents").headers["Location"]
    come_back(gus, app)
    assert told() == 400  # the same token again
    account = gus.http.get("/account/consents")
    assert "form-action 'self' http://127.0.0.1:*" in account.headers["Content-Security-Policy"]
    left = gus.press(account, "signOut").headers["Location"]
    query = dict(parse_qsl(urlsplit(left).query))
    assert left.startswith(f"{provider.issuer}/logout?")
    assert query["post_logout_redirect_uri"] == f"{service.base_url}/account/sign-in"
    assert query["client_id"] == CLIENT_ID
    assert query["id_token_hint"].count(".") == 2
    come_back(gus, app)
    assert told(jti="b", sub=None, sid="one") == 200
    assert "sign-in" in gus.http.get("/account/consents").headers["Location"]


def test_an_address_leads_to_its_provider(work: Work) -> None:
    provider, service = work.provider, work.service
    left = Person(service).http.get("/account/upstream", params={"email": "Ada@Example.TEST"})
    assert left.headers["Location"].startswith(f"{provider.issuer}/authorize?")
    assert Person(service).http.get("/account/upstream", params={"email": "a@other.test"}).status_code == 400
    foreign = an_app(service, api_key=another_organization(service))
    assert "instead" not in Person(service).open(foreign).text
    address = Person(service).http.get(f"/api/oauth/upstream/{work.provider_id}", params=foreign.parameters(Pkce()))
    assert address.status_code == 404
    assert code(create(service, provider.issuer, domains=["y.test"])) == (409, "issuer_taken")
    assert code(create(service, "https://x.test")) == (409, "domain_taken")
    for domains, said in ((["a.test", "no domain"], "'no domain'"), (["b.test", "B.test"], "once each: b.test")):
        assert said in create(service, "https://y.test", domains=domains).json()["error"]["message"]


def test_a_domain_counts_when_an_operator_says_whose_it_is(work: Work) -> None:
    service = work.service
    theirs = another_organization(service, admin_email="admin@third.test")
    claimed = done(create(service, "https://third.test", createAccounts=True, api_key=theirs))
    assert (claimed["domains"], claimed["unconfirmedDomains"]) == (["example.test"], ["example.test"])
    problems = done(service.call("admin/signInProviders/test", {"providerId": claimed["providerId"]}, api_key=theirs))
    assert "not confirmed as your organization's" in problems["problems"][-1]
    with pytest.raises(IntegrityError):
        confirm(service, api_key=theirs)
    ida = {"sub": "ida", "email": "ida@example.test", "email_verified": True}
    work.change(createAccounts=True)

    def leads_there() -> bool:
        left = Person(service).http.get("/account/upstream", params={"email": "ida@example.test"})
        return left.headers.get("Location", "").startswith(work.provider.issuer)

    assert leads_there()
    assert confirm(service, confirmed=False)
    assert not confirm(service, confirmed=False)
    assert not leads_there()
    assert "not responsible for the domain" in work.arrive(**ida)
    # What it had already stays as it is, also unconfirmed; what is new waits as long as there are others.
    work.change(domains=["example.test", "new.test"])
    [listed] = done(service.call("admin/signInProviders/list"))["signInProviders"]
    assert listed["unconfirmedDomains"] == ["example.test", "new.test"]
    assert confirm(service)
    assert "Allow An App" in work.arrive(**ida)
    assert confirm(service, confirmed=False)
    assert "Allow An App" in work.arrive(**ida), "who is bound goes on"
    details = [one["details"] for one in entries(service, "signInProvider.update")]
    assert {"domain": "example.test", "confirmed": False} in details


def test_a_flood_of_requests_is_none_to_the_provider(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, service = work.provider, work.service
    monkeypatch.setattr(upstream, "KEPT_SECONDS", 300.0)
    monkeypatch.setattr(keeping, "ERROR_SECONDS", 60.0)
    discovery, logout = "/.well-known/openid-configuration", f"/api/oauth/upstream/{work.provider_id}/logout"
    work.problems()
    provider.requests.clear()

    def flood(address: str = "/account/upstream?email=a@example.test") -> set[int]:
        with ThreadPoolExecutor(8) as pool:
            return {one.status_code for one in pool.map(service.http.get, [address] * 24)}

    def log_out(token: str) -> str:
        return service.http.post(logout, data={"logout_token": token}).json()["error_description"]

    assert (flood(), provider.requests) == ({302}, {})
    wrong: list[dict] = [{"iss": "https://evil.test"}, {"aud": "x"}, {"iat": 1}, {"events": None}]
    for token in ("", "a.b.c", *(logout_token(provider, **one) for one in wrong)):
        assert "refused" in log_out(token)
    assert provider.requests == {}
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    assert ["signature" in log_out(logout_token(provider)) for _ in range(5)] == [True] * 5
    assert provider.requests == {}, "they were read just now"

    provider.key, provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"}), None
    a_person(service, "rob@example.test", name="Rob")
    rob = {"sub": "rob", "email": "rob@example.test", "email_verified": True}
    assert ["Rob" in work.arrive(**rob) for _ in range(2)] == [True, True]
    assert (provider.requests[discovery], provider.requests["/jwks"]) == (1, 1)

    provider.describes = {"issuer": "https://evil.test"}
    provider.requests.clear()
    work.problems()
    assert (flood(), provider.requests) == ({503}, {discovery: 1})
    provider.describes = {}
    monkeypatch.setattr(keeping, "ERROR_SECONDS", 0.0)
    failures = Counter(RateLimitItemPerSecond(3, 60), kind="failures", shared=None)
    monkeypatch.setattr(service.runtime.rate_limits, "_failures", failures)
    unknown = [service.call("catalog/listDocuments", api_key="unknown").status_code for _ in range(5)]
    assert unknown == [401] * 3 + [429] * 2, "a key that has expired keeps nobody from signing in"
    eve = Person(service)
    state = dict(parse_qsl(urlsplit(leave(eve, work.app).headers["Location"]).query))["state"]
    provider.requests.clear()
    tried = [
        eve.http.get("/api/oauth/upstream/callback", params={"code": f"guess-{number}", "state": state}).status_code
        for number in range(10)
    ]
    assert (tried, provider.requests["/token"]) == ([400] * 3 + [429] * 7, 3)


def test_what_is_wrong_with_a_provider_is_said(work: Work) -> None:
    assert work.problems() == []
    for described, said in (
        ({"issuer": "https://evil.test"}, "another issuer"),
        ({"token_endpoint": "https://10.0.0.1/token"}, "not public"),
    ):
        work.provider.describes = described
        (problem,) = work.problems()
        assert said in problem
    for issuer in (
        "https://10.0.0.1",
        "http://people.example",
        "https://people.example?a=b",
        "https://169.254.169.254",
    ):
        assert code(create(work.service, issuer)) == (400, "issuer_not_allowed")
    common = create(work.service, "https://login.microsoftonline.com/common/v2.0", trustAddresses=True)
    assert code(common) == (400, "addresses_not_trustable")


def test_each_provider_is_asked_again_as_it_can() -> None:
    entra = upstream._asking_again("https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0")
    assert entra == {"prompt": "login", "max_age": "900"}
    google = upstream._asking_again("https://accounts.google.com")
    assert (google["prompt"], json.loads(google["claims"])) == (
        "select_account",
        {"id_token": {"auth_time": {"essential": True}}},
    )
    assert upstream._asking_again("https://people.okta.com") == {"prompt": "login", "max_age": "0"}


def test_what_a_userinfo_endpoint_adds() -> None:
    """Only data missing in the token, of the same person; different addresses are ignored (section 5.3.2)."""
    thin = Subject.of("https://people.test", {"sub": "ada"})
    said = {"sub": "ada", "email": "ada@example.test", "email_verified": True, "groups": ["crew"]}
    whole = thin.complete_by(said)
    assert (whole.email, whole.is_verified, whole.claims["groups"]) == ("ada@example.test", True, ["crew"])
    assert thin.complete_by(said | {"auth_time": 1, "hd": "example.test", "oid": "1", "sid": "2"}) == whole
    assert thin.complete_by(said | {"sub": "eve"}) == thin
    assert thin.complete_by({}) == thin
    named = Subject.of("https://people.test", {"sub": "ada", "email": "boss@example.test"}).complete_by(said)
    assert (named.email, named.is_verified, named.claims["groups"]) == ("boss@example.test", False, ["crew"])


def test_which_issuers_are_of_one_tenant() -> None:
    tenant = "11111111-2222-3333-4444-555555555555"
    assert is_of_one_tenant(f"https://login.microsoftonline.com/{tenant}/v2.0")
    assert is_of_one_tenant("https://people.example/realms/one")
    consumers = "9188040d-6c67-4c5b-b112-36a304b66dad"
    for segment in ("common", "organizations", "consumers", "contoso.example", consumers, ""):
        assert not is_of_one_tenant(f"https://login.microsoftonline.com/{segment}/v2.0")
    assert not is_of_one_tenant("https://accounts.google.com")


@pytest.mark.parametrize("hosted", [{}, {"hd": ""}, {"hd": "other.test"}, {"hd": ["example.test"]}, {"hd": None}])
def test_a_personal_google_account_is_nobodys(hosted: dict) -> None:
    """A verified work address is not enough: the organization must have given the account."""
    issuer, given = "https://accounts.google.com", {"hd": "Example.test"}
    now, domains, off = datetime.now(UTC), ["example.test"], (False, GroupsClaim.NONE, False, False)
    there = StoredProvider(UUID(int=1), UUID(int=2), "Work", issuer, CLIENT_ID, None, domains, domains, *off, now)

    def vouched(claims: dict, provider: StoredProvider | None, issuer: str = issuer) -> str:
        return vouched_address(provider, Subject(issuer, "1", "ada@example.test", True, claims))

    assert vouched(given, there) == vouched(given, None) == vouched(hosted, there, "https://people.test")
    with pytest.raises(NotVouched, match="personal"):
        vouched(hosted, there)
    if hosted.get("hd") != "other.test":  # of the settings' provider, any organization of Google's will do
        with pytest.raises(NotVouched, match="personal"):
            vouched(hosted, None)


@pytest.mark.parametrize(("claims", "said"), cases("groups_count_where_a_token_lists_them"))
def test_groups_count_where_a_token_lists_them(claims: dict, said: list[str] | str) -> None:
    assert len(named_groups({"groups": list(map(str, range(1001)))}, "groups")) == 1001
    assert named_groups(claims, "groups") == (said if isinstance(said, str) else set(said))


def test_an_organization_can_switch_passwords_off(work: Work) -> None:
    service, change = work.service, "admin/organization/update"
    key = another_organization(service)
    assert code(service.call(change, {"passwordsEnabled": False}, api_key=key)) == (409, "no_sign_in_provider")
    pat = a_person(service, "pat@example.test", name="Pat")
    late = Person(service, pat.email)
    form = late.open(work.app)
    pat.sign_in(pat.open(work.app))
    invitation = done(service.call("admin/users/invite", {"email": "pat@example.test"}))["url"]
    assert "Pat" in pat.http.get("/account/consents").text
    done(service.call(change, {"passwordsEnabled": False}))
    try:
        assert pat.http.get("/account/consents").headers["Location"] == "sign-in"
        shown = Person(service).open(work.app).text
        assert 'type="password"' not in shown
        assert "Sign in with Work</a>" in shown
        assert "is wrong" in late.enter(form).text
        assert httpx.get(invitation).status_code == 404
        assert code(service.call("admin/users/invite", {"email": "pat@example.test"})) == (409, "passwords_off")
        assert "Pat" in work.arrive(sub="pat", email="pat@example.test", email_verified=True)
        for call, more in (("update", {"domains": ["other.test"]}), ("delete", {})):
            last = service.call(f"admin/signInProviders/{call}", {"providerId": work.provider_id, **more})
            assert code(last) == (409, "no_sign_in_provider")
    finally:
        done(service.call(change, {"passwordsEnabled": True}))


def test_who_has_just_left_is_bound_to_nothing(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offboarding during the provider's answer leaves no identity to the address's next owner."""
    service = work.service
    a_person(service, "lea@example.test", name="Lea")
    find = binding.signin.find_person

    async def find_who_leaves(*args, **whose):
        found = await find(*args, **whose)
        await asyncio.to_thread(service.call, "admin/users/offboard", {"email": "lea@example.test"})
        return found

    monkeypatch.setattr(binding.signin, "find_person", find_who_leaves)
    work.arrive(sub="lea", email="lea@example.test", email_verified=True)
    with service.owner_connection() as connection:
        assert connection.execute("SELECT FROM upstream_identities WHERE subject = 'lea'").rowcount == 0
