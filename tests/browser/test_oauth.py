"""Signing in and consent in a real browser, with the running service and an application on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID, uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import give_password
from tests.harness.documents import create_collection
from tests.harness.http_servers import Handler, serving
from tests.oauth.flow import PASSWORD, App, Pkce, a_person, an_app, an_mcp_client, call_mcp, works
from tests.service.directory import done

pytestmark = pytest.mark.timeout(300)


@dataclass
class Application:
    url: str
    answers: list[dict[str, str]] = field(default_factory=list)
    referrers: list[str | None] = field(default_factory=list)
    app: App | None = None
    home: str = "/home"
    email: str = ""

    @property
    def callback(self) -> str:
        return f"{self.url}/callback"

    def start(self, pkce: Pkce | None = None, **changes: str | None) -> str:
        assert self.app is not None
        parameters = self.app.parameters(pkce or Pkce(), **changes)
        return f"{self.app.service.base_url}/api/oauth/authorize?{urlencode(parameters)}"

    def token(self, pkce: Pkce) -> str:
        assert self.app is not None
        return str(done(self.app.exchange(self.answers[0]["code"], pkce))["access_token"])

    def sign_in(self, page: Page, password: str = PASSWORD) -> None:
        give_password(page, self.email, password)


@contextmanager
def listening() -> Iterator[Application]:
    """An application on a free port; it redirects once more after the callback, as most applications do."""
    application = Application("")

    class Pages(Handler):
        def answer(self, _body: bytes) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/callback":
                application.answers.append(dict(parse_qsl(parts.query)))
                application.referrers.append(self.headers.get("Referer"))
                self.respond(302, Location=application.home)
                return
            page = b"<!doctype html><title>The app</title><h1>Back in the app</h1>"
            self.respond(200 if parts.path == "/home" else 404, page, Content_Type="text/html")

    with serving(Pages) as application.url:
        yield application


@pytest.fixture
def application(service) -> Iterator[Application]:
    with listening() as application:
        application.app = an_app(service, application.callback)
        application.email = a_person(service, f"{uuid4().hex[:8]}@example.test").email
        yield application


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    yield found
    # The icon that browsers ask for by themselves is not there, and a wrong password is a 403.
    assert [text for text in found if "status of 40" not in text] == []


def expect_home(page: Page) -> None:
    expect(page.get_by_role("heading", name="Back in the app")).to_be_visible()


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def test_sign_in_and_consent_lead_back_to_the_application(service, application, page, complaints) -> None:
    pkce = Pkce()
    page.goto(application.start(pkce))
    expect(page.get_by_role("heading", name="Sign in to example.test")).to_be_visible()
    application.sign_in(page)
    expect(page.get_by_role("heading", name="Use An App with your account?")).to_be_visible()
    expect(page.get_by_text("Search and read the documents")).to_be_visible()
    press(page, "Allow")
    expect_home(page)
    (answer,) = application.answers
    assert answer["state"] == "a state"
    assert works(service, application.token(pkce))
    # Remembered: no page the next time, and none at all in between for who signs in anew.
    page.goto(application.start())
    expect_home(page)
    # An application may send people on to another host, as many do after their callback.
    application.home = application.url.replace("127.0.0.1", "localhost") + "/home"
    page.goto(application.start(prompt="login"))
    application.sign_in(page)
    expect_home(page)
    page.goto(application.start(prompt="consent"))
    press(page, "Allow")
    page.wait_for_url(application.home)
    assert len(application.answers) == 4
    assert not any(application.referrers)
    assert complaints == [text for text in complaints if "404" in text]


@pytest.mark.usefixtures("complaints")
def test_a_wrong_password_says_so_and_denying_leads_back_without_a_code(application: Application, page: Page) -> None:
    page.goto(application.start())
    application.sign_in(page, "wrong password")
    expect(page.get_by_role("alert")).to_have_text("The email address or the password is wrong.")
    expect(page.get_by_label("Email address")).to_have_value(application.email)
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Password")).to_be_focused()
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    press(page, "Deny")
    expect_home(page)
    assert application.answers[0]["error"] == "access_denied"


def test_the_back_button_breaks_nothing(application: Application, page: Page) -> None:
    page.goto("about:blank")
    page.goto(application.start())
    application.sign_in(page)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    page.go_back()
    if page.get_by_label("Password").is_visible():
        application.sign_in(page)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    press(page, "Allow")
    expect_home(page)
    page.go_back()
    if page.get_by_role("button", name="Allow").is_visible():
        press(page, "Allow")
    expect_home(page)
    assert all("code" in answer for answer in application.answers)
    assert len({answer["code"] for answer in application.answers}) == len(application.answers)


def test_two_tabs_at_once(application: Application, page: Page) -> None:
    other = page.context.new_page()
    page.goto(application.start(state="first"))
    other.goto(application.start(state="second"))
    application.sign_in(page)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    application.sign_in(other)
    expect(other.get_by_role("button", name="Allow")).to_be_visible()
    press(other, "Allow")
    expect_home(other)
    press(page, "Allow")
    expect_home(page)
    assert [answer["state"] for answer in application.answers] == ["second", "first"]


def test_the_keyboard_and_a_narrow_window_are_enough(application: Application, page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(application.start())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    expect(page.get_by_label("Email address")).to_be_focused()
    page.keyboard.type(application.email)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    allow = page.get_by_role("button", name="Allow")
    expect(allow).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for _ in range(5):
        if allow.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(allow).to_be_focused()
    page.keyboard.press("Enter")
    expect_home(page)


def test_what_was_allowed_can_be_taken_back(service, application: Application, page: Page) -> None:
    pkce = Pkce()
    page.goto(application.start(pkce))
    application.sign_in(page)
    press(page, "Allow")
    expect_home(page)
    token = application.token(pkce)
    page.goto(application.start(prompt="consent"))
    page.get_by_role("link", name="Connected applications").click()
    expect(page.get_by_role("heading", name="Connected applications")).to_be_visible()
    press(page, "Revoke the access of An App")
    expect(page.get_by_text("You have not connected an application.")).to_be_visible()
    assert not works(service, token)
    press(page, "Sign out")
    expect(page.get_by_role("heading", name="Sign in to example.test")).to_be_visible()
    application.sign_in(page)
    expect(page.get_by_text("You have not connected an application.")).to_be_visible()


@pytest.mark.usefixtures("complaints")
def test_an_agent_is_let_read_one_collection_alone(service, application, page) -> None:
    for name in ("Harbour", "Ledger"):
        collection_id = create_collection(service, name)
        resource = {"resourceId": collection_id, "resourceType": "DOCUMENT_COLLECTION"}
        done(service.call("admin/grants/set", {"resource": resource, "grants": [], "organizationWide": True}))
    application.app, pkce = an_mcp_client(service, application.callback), Pkce()
    page.goto(application.start(pkce))
    application.sign_in(page)
    expect(page.get_by_label("Everything that I may read")).to_be_checked()
    expect(page.get_by_label("Ledger")).to_be_hidden()
    page.get_by_label("Only these collections:").check()
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        for one in page.locator("label:visible").all():
            _stands_before_its_words(one)
    press(page, "Allow")
    expect(page.get_by_role("alert")).to_contain_text("at least one collection")
    page.get_by_label("Ledger").check()
    press(page, "Allow")
    expect_home(page)
    assert call_mcp(service, application.token(pkce)).collection_ids == {UUID(collection_id)}
    page.goto(f"{service.base_url}/account/consents")
    expect(page.get_by_text("Only in these collections: Ledger.")).to_be_visible()
    page.goto(application.start(prompt="consent"))
    page.get_by_label("Everything that I may read").check()
    expect(page.get_by_label("Ledger")).to_be_hidden()
    press(page, "Allow")
    expect(page.get_by_role("alert")).to_contain_text("collections are still selected")
    page.get_by_label("Everything that I may read, and ignore the selection").check()
    expect(page.get_by_label("Ledger")).to_be_visible()
    press(page, "Allow")
    expect_home(page)


def _stands_before_its_words(label: Locator) -> None:
    outer, inner = label.bounding_box(), label.locator("input").bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["width"] < 30
    assert inner["x"] - outer["x"] < 2
    assert inner["y"] - outer["y"] < 16
