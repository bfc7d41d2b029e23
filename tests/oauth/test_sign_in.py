"""Signing in: who is let in, how failing is slowed down, and what a browser holds."""

import html
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import SecretStr

from service.identity import passwords
from service.identity.passwords import hash_password, verify_password
from tests.harness.services import PASSWORD_HASHER, RunningService
from tests.oauth.conftest import Standing
from tests.oauth.flow import CALLBACK, PASSWORD, Page, Person, Pkce, a_person, an_app, later, sent_back
from tests.service.directory import a_user, done

WRONG = "The email address or the password is wrong."


def try_in(person: Person, page: httpx.Response, password: str = "wrong password") -> httpx.Response:  # noqa: S107
    """Try to sign in on a page that was opened."""
    return person.press(page, "signIn", email=person.email, password=password)


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("ada@example.test", "wrong password"),
        ("nobody@example.test", PASSWORD),
        ("ada@example.test", PASSWORD.upper()),
        ("ada@example.test", ""),
        ("", ""),
        ("ada@example.test\0", PASSWORD),
        ("%", PASSWORD),
        ("inactive@example.test", PASSWORD),
        ("passwordless@example.test", PASSWORD),
    ],
)
def test_whoever_is_not_let_in_is_told_the_same(standing: Standing, email: str, password: str) -> None:
    """A wrong password, an unknown, an inactive account and one without a password: one message, one status."""
    service = standing.service
    a_user(service, "inactive@example.test", password=PASSWORD, active=False)
    a_user(service, "passwordless@example.test")
    later(service, hours=2)
    ada = standing.person()
    refused = ada.press(ada.open(standing.app), "signIn", email=email, password=password)
    assert refused.status_code == 403
    assert WRONG in refused.text
    assert PASSWORD not in refused.text
    assert "Set-Cookie" not in refused.headers


@pytest.fixture
def _hashed_in_full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spend on a password what services spend that are no test's."""
    monkeypatch.setattr(passwords, "_HASHER", PASSWORD_HASHER)
    passwords._dummy_hash.cache_clear()
    yield
    passwords._dummy_hash.cache_clear()


@pytest.mark.usefixtures("_hashed_in_full")
async def test_an_unknown_account_costs_what_a_wrong_password_costs() -> None:
    """As much of the processor, so that the time tells nobody apart: without a hash one is checked all the same."""
    kept = await hash_password(SecretStr(PASSWORD))
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")

    async def cost(password_hash: str | None) -> float:
        began = time.process_time()
        for _ in range(10):
            assert not await verify_password(SecretStr("wrong password"), password_hash)
        return time.process_time() - began

    await cost(None)
    assert 0.5 < await cost(None) / await cost(kept) < 2
    assert await verify_password(SecretStr(PASSWORD), kept)


def test_an_address_is_compared_without_regard_to_case(standing: Standing) -> None:
    """As everywhere else."""
    ada = standing.person()
    page = ada.press(ada.open(standing.app), "signIn", email=" ADA@Example.test", password=PASSWORD)
    assert page.status_code == 303


@pytest.mark.usefixtures("still_clock")
def test_an_accounts_failures_are_slowed_down_more_and_more(service: RunningService) -> None:
    """Five are free; then each wait is longer than the one before, and the right password must wait, too."""
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    assert [try_in(ada, page).status_code for _ in range(5)] == [403] * 5
    waits = []
    for _ in range(4):
        assert try_in(ada, page).status_code == 403
        refused = try_in(ada, page, PASSWORD)
        assert refused.status_code == 429
        waits.append(int(refused.headers["Retry-After"]))
        assert "failed too often" in Page(refused).text
        assert Page(refused).form("signIn").fields["email"] == ada.email
        later(service, seconds=waits[-1])
    assert waits == [1, 3, 7, 15]
    assert sent_back(ada.press(ada.follow(try_in(ada, page, PASSWORD)), "allow"))["code"]


@pytest.mark.usefixtures("still_clock")
def test_the_longest_wait_is_a_quarter_of_an_hour(service: RunningService) -> None:
    """Whoever attacks an account keeps its owner out no longer than that; after an hour everything is forgotten."""
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    for _ in range(18):
        try_in(ada, page)
        later(service, minutes=15)
    try_in(ada, page)
    assert try_in(ada, page).headers["Retry-After"] == "900"
    later(service, hours=1)
    assert [try_in(ada, page).status_code for _ in range(5)] == [403] * 5


def test_signing_in_forgets_an_accounts_failures(service: RunningService) -> None:
    """Who mistypes now and then is never slowed down."""
    app, ada = an_app(service), a_person(service)
    for _ in range(3):
        ada.http.cookies.clear()
        page = ada.open(app)
        assert [try_in(ada, page).status_code for _ in range(4)] == [403] * 4
        assert try_in(ada, page, PASSWORD).status_code == 303


@pytest.mark.usefixtures("still_clock")
def test_an_unknown_account_is_slowed_down_like_any_other(service: RunningService) -> None:
    """Whether it exists shows in nothing."""
    app = an_app(service)
    nobody = Person(service, "nobody@example.test")
    page = nobody.open(app)
    assert [try_in(nobody, page).status_code for _ in range(7)] == [403] * 6 + [429]


@pytest.mark.usefixtures("still_clock")
def test_an_address_that_fails_with_many_accounts_is_slowed_down(service: RunningService) -> None:
    """Twenty are free, whichever the accounts; whoever is signed in goes on."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    strangers = [Person(service, f"nobody{number}@example.test") for number in range(22)]
    page = strangers[0].open(app)
    cookie = strangers[0].http.cookies
    for stranger in strangers:
        stranger.http.cookies = cookie
    assert [try_in(stranger, page).status_code for stranger in strangers] == [403] * 21 + [429]
    assert "code" in sent_back(ada.open(app))


@pytest.mark.usefixtures("still_clock")
def test_fifty_attempts_at_once_are_fifty(service: RunningService) -> None:
    """They are counted before they are made: no more than the free ones are tried."""
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    with ThreadPoolExecutor(20) as threads:
        statuses = list(threads.map(lambda _: try_in(ada, page).status_code, range(50)))
    assert (statuses.count(403), statuses.count(429)) == (6, 44)


def test_the_session_is_new_at_every_sign_in_and_hidden_from_scripts(service: RunningService) -> None:
    """A cookie planted beforehand is worth nothing afterwards (session fixation)."""
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    planted = ada.http.cookies["carrel_session"]
    signed_in = try_in(ada, page, PASSWORD)
    cookie = {part.strip() for part in signed_in.headers["Set-Cookie"].split(";")}
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= cookie
    assert "Secure" not in cookie
    assert ada.http.cookies["carrel_session"] != planted
    attacker = Person(service, ada.email)
    attacker.http.cookies.set("carrel_session", planted, domain="127.0.0.1", path="/")
    assert Page(attacker.open(app)).forms[0].buttons == ["signIn"]


def test_signing_in_again_ends_the_session_before(service: RunningService) -> None:
    """`prompt=login` asks again although somebody is signed in; the old cookie is then nobody's."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    before = ada.http.cookies["carrel_session"]
    page = ada.open(app, prompt="login")
    assert Page(page).forms[0].buttons == ["signIn"]
    assert "code" in sent_back(ada.sign_in(page))
    old = Person(service, ada.email)
    old.http.cookies.set("carrel_session", before, domain="127.0.0.1", path="/")
    assert Page(old.open(app)).forms[0].buttons == ["signIn"]


def test_a_session_ends_after_twelve_hours(service: RunningService) -> None:
    """Whatever was done with it."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    later(service, hours=11, minutes=59)
    assert "code" in sent_back(ada.open(app))
    later(service, minutes=2)
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]


def test_another_password_and_a_deactivation_end_sessions_at_once(service: RunningService) -> None:
    """Being active again brings no session back."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    a_user(service, ada.email, active=False)
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]
    a_user(service, ada.email, active=True)
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]
    ada.tokens(app)
    assert "code" in sent_back(ada.open(app))
    a_user(service, ada.email, password="another long password")
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]


def test_a_sign_in_form_works_in_the_browser_it_was_shown_in_alone(service: RunningService) -> None:
    """Without its token, with another browser's, or without the cookie nobody is signed in (login CSRF)."""
    app, ada = an_app(service), a_person(service)
    form = Page(ada.open(app)).form("signIn")
    entered = form.fields | {"email": ada.email, "password": PASSWORD, "action": "signIn"}
    stranger = Person(service, ada.email)
    theirs = Page(stranger.open(app)).form("signIn").fields["csrf"]
    for fields, browser in (
        ({name: value for name, value in entered.items() if name != "csrf"}, ada),
        (entered | {"csrf": "x"}, ada),
        (entered | {"csrf": theirs}, ada),
        (entered, stranger),
    ):
        refused = browser.http.post(form.action, data=fields)
        assert refused.status_code == 403
        assert "out of date" in refused.text
        assert "signIn" in Page(refused).forms[0].buttons
    # The page that was shown instead works.
    assert try_in(ada, refused, PASSWORD).status_code in {303, 403}
    assert ada.http.post(form.action, data=entered).status_code == 303


def test_a_form_on_another_sites_page_changes_no_cookie(service: RunningService) -> None:
    """Browsers send none with it, and would keep a new one: whoever is signed in stays so. A link leads on."""
    app, ada = an_app(service), a_person(service)
    form = Page(ada.open(app)).form("signIn")
    refused = Person(service).http.post(form.action, data=form.fields | {"action": "signIn"})
    assert refused.status_code == 403
    assert "out of date" in refused.text
    assert "Set-Cookie" not in refused.headers
    again = refused.url.join(html.unescape(refused.text.split('<p><a href="')[1].split('"')[0]))
    assert "signIn" in Page(ada.http.get(again)).forms[0].buttons


def test_a_second_tab_goes_on_when_the_first_has_signed_in(service: RunningService) -> None:
    """Its form is older than the session; it is taken to what is left to do, as whoever is signed in."""
    app, ada = an_app(service), a_person(service)
    first, second = ada.open(app, state="first"), ada.open(app, state="second")
    consent = ada.follow(try_in(ada, first, PASSWORD))
    other = ada.follow(try_in(ada, second, PASSWORD))
    assert sent_back(ada.press(other, "allow"))["state"] == "second"
    assert sent_back(ada.press(consent, "allow"))["state"] == "first"


def test_going_back_to_the_sign_in_page_goes_on(service: RunningService) -> None:
    """Its address shows the next page now, and its old form leads there."""
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    ada.follow(try_in(ada, page, PASSWORD))
    assert "allow" in Page(ada.http.get(page.url)).forms[0].buttons
    assert "allow" in Page(ada.follow(try_in(ada, page, "whatever"))).forms[0].buttons


def test_prompts(service: RunningService) -> None:
    """`none` never shows a page; `consent` asks again; `select_account` lets somebody else sign in (OpenID Connect)."""
    app, ada = an_app(service), a_person(service)
    assert sent_back(ada.open(app, prompt="none"))["error"] == "login_required"
    ada.sign_in(ada.open(app))
    assert sent_back(ada.open(app, prompt="none"))["error"] == "consent_required"
    ada.allow(app)
    assert "code" in sent_back(ada.open(app, prompt="none"))
    assert "allow" in Page(ada.open(app, prompt="consent")).forms[0].buttons
    assert Page(ada.open(app, prompt="select_account")).forms[0].buttons == ["signIn"]
    both = ada.open(app, prompt="login consent")
    assert "allow" in Page(ada.sign_in(both)).forms[0].buttons


def test_somebody_else_can_sign_in_from_the_consent_page(service: RunningService) -> None:
    """The one before is signed out."""
    app, ada, ben = an_app(service), a_person(service), a_person(service, "ben@example.test", name="Ben")
    consent = ada.sign_in(ada.open(app))
    page = ada.follow(ada.press(consent, "switch"))
    assert Page(page).forms[0].buttons == ["signIn"]
    ada.email = ben.email
    assert "Ben" in ada.sign_in(page).text


def test_signing_in_is_on_the_audit_log(service: RunningService) -> None:
    """By whom, and how."""
    app, ada = an_app(service), a_person(service)
    ada.tokens(app)
    (entry,) = done(service.call("admin/auditLog/query", {"action": "session.begin"}))["entries"]
    assert entry["actor"]["email"] == ada.email
    assert entry["details"] == {"by": "password"}


def test_a_password_is_in_no_address(service: RunningService) -> None:
    """Forms are posted; where a browser is sent says nothing of what was entered."""
    app, ada, pkce = an_app(service), a_person(service), Pkce()
    signed_in = try_in(ada, ada.open(app, pkce), PASSWORD)
    assert "csrf" not in signed_in.headers["Location"]
    assert ada.email not in signed_in.headers["Location"]
    assert Page(ada.open(app)).form("allow").action.startswith(f"{service.base_url}/api/oauth/authorize?")
    assert CALLBACK not in service.base_url
