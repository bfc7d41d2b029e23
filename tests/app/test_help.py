"""The documentation in the workbench: for people who are signed in, and linked from pages and errors."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from app.asgi import KnownPages, SecurityHeaders
from app.auth import current
from app.documentation import Documentation
from app.navigation import addresses
from app.ui.errors import problem_of
from carrel.errors import APIError
from tests.app.conftest import APP_URL, House


@pytest.fixture(scope="module")
def browser(house: House) -> httpx.AsyncClient:
    """A browser before the routes of help and what stands in front of them, with the admin's session."""
    cookie = current.sign_in().cookie
    routes = Documentation(current.sessions(), cookie=cookie).routes()
    known = Middleware(KnownPages, pages=addresses())
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders), known])
    headers = {"Accept": "text/html", "Cookie": f"{cookie}={house.sign_in()}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=APP_URL, headers=headers)


async def test_help_is_for_people_who_are_signed_in(browser: httpx.AsyncClient) -> None:
    for address in ("/help/loading", "/help/", "/help/pages/search.png", "/help/../.env"):
        answer = await browser.get(address, headers={"Cookie": ""})
        assert answer.status_code in {303, 404}, address
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/oauth/login?next=%2Fhelp%2F")


async def test_pages_and_pictures_of_help_are_shown_and_nothing_else_is(browser: httpx.AsyncClient) -> None:
    """A page shows its headings as a list of links, the first one all pages; the policy of all pages holds for both."""
    answer = await browser.get("/help/troubleshooting")
    assert answer.status_code == 200
    assert '<a href="#loading-documents">Loading documents</a>' in answer.text
    assert '<code id="file_corrupt">' in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    for address in ("/help", "/help/"):
        answer = await browser.get(address)
        assert answer.status_code == 200
        assert '<a href="/help/first-hour">The first hour</a>' in answer.text
    answer = await browser.get("/help/pages/search.png")
    assert answer.headers["content-type"] == "image/png"
    for name in ("pages/none.png", "..%2F..%2F.env", "pages/..%2F..%2Fpyproject.toml", "nowhere", "%2Fetc%2Fx.png"):
        answer = await browser.get(f"/help/{name}")
        assert answer.status_code == 404, name


def test_the_title_of_a_page_leads_to_help_about_it(house: House) -> None:
    shown = house.open("health").shown
    assert '<a href="/help/workbench#health" target="_blank" rel="noopener" aria-label="Help: Health">Help</a>' in shown


def test_an_error_leads_to_what_to_do_about_it() -> None:
    known = APIError("Full.", status=507, code="storage_full", request_id=None, details=[])
    assert problem_of(known).help_at == "/help/troubleshooting#storage_full"
    assert problem_of(APIError("Odd.", status=400, code="no_such_code", request_id=None, details=[])).help_at is None
