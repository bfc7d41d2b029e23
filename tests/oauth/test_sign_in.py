"""Signing in: access, slowing down of failures, and cookies."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import SecretStr

from service.identity import passwords
from service.identity.passwords import hash_password, verify_password
from tests.harness.services import PASSWORD_HASHER, RunningService
from tests.oauth.flow import CALLBACK, PASSWORD, App, Page, Person, asks_for_consent, asks_to_sign_in, later, sent_back
from tests.service.directory import a_user


def fail(person: Person, page: httpx.Response) -> httpx.Response:
    return person.enter(page, password="wrong password")


def with_cookie(service: RunningService, value: str) -> Person:
    person = Person(service)
    person.http.cookies.set("carrel_session", value, domain="127.0.0.1", path="/")
    return person


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
def test_whoever_is_not_let_in_is_told_the_same(app: App, ada: Person, email: str, password: str) -> None:
    a_user(app.service, "inactive@example.test", password=PASSWORD, active=False)
    a_user(app.service, "passwordless@example.test")
    refused = ada.enter(ada.open(app), email=email, password=password)
    assert refused.status_code == 403
    assert "The email address or the password is wrong." in refused.text
    assert PASSWORD not in refused.text
    assert "Set-Cookie" not in refused.headers


@pytest.fixture
def _hashed_in_full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(passwords, "_HASHER", PASSWORD_HASHER)
    passwords._dummy_hash.cache_clear()
    yield
    passwords._dummy_hash.cache_clear()


@pytest.mark.usefixtures("_hashed_in_full")
async def test_an_unknown_account_costs_what_a_wrong_password_costs() -> None:
    """By processor time: unknown accounts check a dummy hash."""
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


def test_an_address_is_compared_without_regard_to_case(standing) -> None:
    ada = standing.person()
    assert ada.enter(ada.open(standing.app), email=" ADA@Example.test").status_code == 303


@pytest.mark.usefixtures("still_clock")
def test_an_accounts_failures_are_slowed_down_more_and_more(service: RunningService, app: App, ada: Person) -> None:
    """Five are free; the right password must wait, too."""
    page = ada.open(app)
    assert [fail(ada, page).status_code for _ in range(5)] == [403] * 5
    waits = []
    for _ in range(4):
        assert fail(ada, page).status_code == 403
        refused = ada.enter(page)
        assert refused.status_code == 429
        waits.append(int(refused.headers["Retry-After"]))
        assert "failed too often" in Page(refused).text
        assert Page(refused).form("signIn").fields["email"] == ada.email
        later(service, seconds=waits[-1])
    assert waits == [1, 3, 7, 15]
    assert sent_back(ada.press(ada.follow(ada.enter(page)), "allow"))["code"]
    nobody = Person(service, "nobody@example.test")
    page = nobody.open(app)
    assert [fail(nobody, page).status_code for _ in range(7)] == [403] * 6 + [429]


@pytest.mark.usefixtures("still_clock")
def test_the_longest_wait_is_a_quarter_of_an_hour(service: RunningService, app: App, ada: Person) -> None:
    """An attack locks the owner out no longer; after an hour all is forgotten."""
    page = ada.open(app)
    for _ in range(18):
        fail(ada, page)
        later(service, minutes=15)
    fail(ada, page)
    assert fail(ada, page).headers["Retry-After"] == "900"
    later(service, hours=1)
    assert [fail(ada, page).status_code for _ in range(5)] == [403] * 5


def test_signing_in_forgets_an_accounts_failures(app: App, ada: Person) -> None:
    for _ in range(3):
        ada.http.cookies.clear()
        page = ada.open(app)
        assert [fail(ada, page).status_code for _ in range(4)] == [403] * 4
        assert ada.enter(page).status_code == 303


@pytest.mark.usefixtures("still_clock")
def test_an_address_that_fails_with_many_accounts_is_slowed_down(app: App, ada: Person) -> None:
    ada.tokens(app)
    guess = Person(app.service)
    page = guess.open(app)
    tries = [guess.enter(page, email=f"nobody{number}@example.test").status_code for number in range(22)]
    assert tries == [403] * 21 + [429]
    assert "code" in sent_back(ada.open(app))


@pytest.mark.usefixtures("still_clock")
def test_fifty_attempts_at_once_are_fifty(app: App, ada: Person) -> None:
    """Attempts are counted before they are made."""
    page = ada.open(app)
    with ThreadPoolExecutor(20) as threads:
        statuses = list(threads.map(lambda _: fail(ada, page).status_code, range(50)))
    assert (statuses.count(403), statuses.count(429)) == (6, 44)


def test_the_session_is_new_at_every_sign_in_and_hidden_from_scripts(app: App, ada: Person) -> None:
    """A cookie planted before has no value (session fixation)."""
    page = ada.open(app)
    planted = ada.http.cookies["carrel_session"]
    signed_in = ada.enter(page)
    cookie = {part.strip() for part in signed_in.headers["Set-Cookie"].split(";")}
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= cookie
    assert "Secure" not in cookie
    assert ada.http.cookies["carrel_session"] != planted
    assert asks_to_sign_in(with_cookie(app.service, planted).open(app))


def test_signing_in_again_ends_the_session_before(service: RunningService, app: App, ada: Person) -> None:
    ada.tokens(app)
    before = ada.http.cookies["carrel_session"]
    page = ada.open(app, prompt="login")
    assert asks_to_sign_in(page)
    assert "code" in sent_back(ada.sign_in(page))
    assert asks_to_sign_in(with_cookie(service, before).open(app))


def test_a_session_ends_after_twelve_hours(service: RunningService, app: App, ada: Person) -> None:
    ada.tokens(app)
    later(service, hours=11, minutes=59)
    assert "code" in sent_back(ada.open(app))
    later(service, minutes=2)
    assert asks_to_sign_in(ada.open(app))


def test_another_password_and_a_deactivation_end_sessions_at_once(app: App, ada: Person) -> None:
    ada.tokens(app)
    a_user(app.service, ada.email, active=False)
    assert asks_to_sign_in(ada.open(app))
    a_user(app.service, ada.email, active=True)
    assert asks_to_sign_in(ada.open(app))
    ada.tokens(app)
    assert "code" in sent_back(ada.open(app))
    a_user(app.service, ada.email, password="another long password")
    assert asks_to_sign_in(ada.open(app))


def test_a_sign_in_form_works_in_the_browser_it_was_shown_in_alone(app: App, ada: Person) -> None:
    """Without token or cookie, or in another browser, the form signs no person in (login CSRF)."""
    form = Page(ada.open(app)).form("signIn")
    entered = form.fields | {"email": ada.email, "password": PASSWORD, "action": "signIn"}
    stranger = Person(app.service, ada.email)
    theirs = Page(stranger.open(app)).form("signIn").fields["csrf"]
    for fields, browser in (
        ({name: value for name, value in entered.items() if name != "csrf"}, ada),
        (entered | {"csrf": "x"}, ada),
        (entered | {"csrf": theirs}, ada),
        (entered, stranger),
    ):
        refused = browser.http.post(form.action, data=fields)
        assert refused.status_code == 403
        assert "page has expired" in refused.text
        assert "signIn" in Page(refused).forms[0].buttons
    # The page that was shown instead works.
    assert ada.enter(refused).status_code in {303, 403}
    assert ada.http.post(form.action, data=entered).status_code == 303


def test_a_form_on_another_sites_page_changes_no_cookie(app: App, ada: Person) -> None:
    """Browsers send no cookie with the form, but would store a new cookie."""
    form = Page(ada.open(app)).form("signIn")
    refused = Person(ada.service).http.post(form.action, data=form.fields | {"action": "signIn"})
    assert refused.status_code == 403
    assert "page has expired" in refused.text
    assert "Set-Cookie" not in refused.headers
    assert asks_to_sign_in(ada.http.get(Page(refused).links[0]))


def test_a_form_that_is_older_than_the_session_leads_on(app: App, ada: Person) -> None:
    first, second = ada.open(app, state="first"), ada.open(app, state="second")
    consent = ada.sign_in(first)
    assert asks_for_consent(ada.http.get(first.url))
    assert asks_for_consent(ada.sign_in(first, password="whatever"))
    assert sent_back(ada.press(ada.sign_in(second), "allow"))["state"] == "second"
    assert sent_back(ada.press(consent, "allow"))["state"] == "first"


def test_prompts(app: App, ada: Person) -> None:
    """`none` never shows a page; `consent` asks again; `select_account` allows another person (OpenID Connect)."""
    assert sent_back(ada.open(app, prompt="none"))["error"] == "login_required"
    ada.sign_in(ada.open(app))
    assert sent_back(ada.open(app, prompt="none"))["error"] == "consent_required"
    ada.allow(app)
    assert "code" in sent_back(ada.open(app, prompt="none"))
    assert asks_for_consent(ada.open(app, prompt="consent"))
    assert asks_to_sign_in(ada.open(app, prompt="select_account"))
    assert asks_for_consent(ada.sign_in(ada.open(app, prompt="login consent")))


def test_somebody_else_can_sign_in_from_the_consent_page(app: App, ada: Person, ben: Person) -> None:
    page = ada.follow(ada.press(ada.sign_in(ada.open(app)), "switch"))
    assert asks_to_sign_in(page)
    ada.email = ben.email
    assert "Ben" in ada.sign_in(page).text


def test_a_password_is_in_no_address(service: RunningService, app: App, ada: Person) -> None:
    signed_in = ada.enter(ada.open(app))
    assert "csrf" not in signed_in.headers["Location"]
    assert ada.email not in signed_in.headers["Location"]
    assert Page(ada.open(app)).form("allow").action.startswith(f"{service.base_url}/api/oauth/authorize?")
    assert CALLBACK not in service.base_url
