"""The second factor in a real browser, with an authenticator app and Chromium's software passkey."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_oauth import listening
from tests.harness.services import RunningService
from tests.oauth.flow import PASSWORD, Pkce, a_person, an_app, later, v1
from tests.oauth.test_second_factor import HERE, Phone, demand
from tests.service.directory import code, done

pytestmark = pytest.mark.slow

ADA = "augusta@example.test"


@pytest.fixture
def know_person(page: Page) -> Iterator[Callable[[bool], object]]:
    """Add a passkey device to Chromium that recognizes the person; the function sets whether recognition works."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    identity = {"authenticatorId": added["authenticatorId"]}
    yield lambda known: session.send("WebAuthn.setUserVerified", {**identity, "isUserVerified": known})
    session.detach()


@pytest.fixture(autouse=True)
def _demand(service: RunningService) -> Iterator[None]:
    """Restore the policy: the second factor is optional."""
    yield
    demand(service, "NOBODY")


class Walk:
    def __init__(self, page: Page, service: RunningService) -> None:
        self.page, self.service, self.base = page, service, service.settings.issuer

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def sees(self, heading: str) -> None:
        expect(self.page.get_by_role("heading", name=heading, level=1)).to_be_visible()

    def fill(self, **fields: str) -> None:
        for field, text in fields.items():
            self.page.locator(f"#{field}").fill(text)

    def give_password(self, email: str = ADA) -> None:
        self.open("/account/sign-in")
        self.fill(email=email, password=PASSWORD)
        self.press("Sign in")

    def sign_out(self) -> None:
        self.open("/account/consents")
        self.press("Sign out")

    def set_up_app(self) -> tuple[Phone, list[str]]:
        self.page.get_by_text("Key:").wait_for()
        phone = Phone(self.service, httpx.Response(200, text=self.page.content()))
        self.fill(code=phone.code(steps=-1))
        self.press("Set up the app")
        return phone, self.keep_codes()

    def keep_codes(self) -> list[str]:
        self.sees("Your recovery codes")
        codes = self.page.locator("ul.codes code").all_inner_texts()
        assert len(codes) == 10
        self.page.get_by_role("link", name="I have stored the codes: continue").click()
        return codes


def test_a_second_factor_from_app_to_passkey(service, page, know_person) -> None:
    """At 127.0.0.1 no passkey works: pages lead to `localhost`."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda one: complaints.append(one.text) if "Content Security Policy" in one.text else None)
    a_person(service, ADA, isAdmin=True)
    walk = Walk(page, service)
    walk.give_password()
    page.get_by_role("link", name="Second factor").click()
    walk.fill(password=PASSWORD)
    walk.press("Set up an authenticator app")
    phone, codes = walk.set_up_app()
    for given in (phone.code(), codes[0]):
        walk.sign_out()
        walk.give_password()
        walk.fill(code=given)
        walk.press("Sign in")
        walk.sees("Connected applications")
    # A passkey beside it: named, listed, and it signs in alone.
    walk.open(HERE)
    walk.fill(password=PASSWORD, code=codes[1])
    walk.press("Add a passkey")
    walk.fill(name="Ada's laptop")
    walk.press("Create passkey")
    expect(page.get_by_role("heading", name="Ada's laptop")).to_be_visible()
    walk.sign_out()
    know_person(False)
    walk.press("Sign in with a passkey")
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("No passkey was used")
    know_person(True)
    walk.press("Sign in with a passkey")
    walk.sees("Connected applications")
    walk.sign_out()
    walk.give_password()
    walk.press("Use a passkey")
    walk.sees("Connected applications")
    walk.open(HERE)
    walk.press("Use a passkey")
    expect(page.locator("#password")).to_have_count(0)
    walk.press("Create new recovery codes")
    walk.keep_codes()
    _confirm(walk)
    _must_have_one(walk)
    assert complaints == []


def _confirm(walk: Walk) -> None:
    with listening() as application:
        app, pkce = an_app(walk.service, application.callback), Pkce()
        walk.open(f"/api/oauth/authorize?{urlencode(app.parameters(pkce, scope='api:admin'))}")
        walk.press("Allow")
        walk.sees("Back in the app")
        token = done(app.exchange(application.answers[0]["code"], pkce))["access_token"]
    demand(walk.service, "EVERYBODY")
    later(walk.service, minutes=16)
    body = {"name": "Ada's key"}
    refused = v1(walk.service, "admin/apiKeys/create", token, body)
    assert code(refused) == (403, "confirmation_required")
    walk.page.goto(refused.json()["error"]["confirmationUrl"])
    walk.press("Confirm with a passkey")
    walk.sees("Confirmed")
    assert v1(walk.service, "admin/apiKeys/create", token, body).status_code == 200
    walk.sign_out()


def _must_have_one(walk: Walk) -> None:
    walk.give_password(a_person(walk.service, "ben@example.test", name="Ben").email)
    walk.sees("Set up an authenticator app")
    walk.press("Add a passkey instead")
    walk.sees("Add a passkey")
    expect(walk.page.get_by_text(re.compile("can't make passkeys"))).to_be_hidden()
    walk.press("Create passkey")
    walk.keep_codes()
    walk.sees("Connected applications")
