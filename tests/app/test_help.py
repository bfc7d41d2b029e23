"""The documentation in the workbench: for people who are signed in, and linked from pages and errors."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from app.asgi import KnownPages, SecurityHeaders
from app.auth import container
from app.documentation_routes import Documentation
from app.navigation import addresses
from app.ui.errors import problem_of
from carrel.errors import APIError
from tests.app.conftest import APP_URL, House, html_of, sign_in


@pytest.fixture(scope="module")
def browser(house: House) -> httpx.AsyncClient:
    """A browser without a session, before the routes of help and what stands in front of them."""
    assert house.service
    routes = Documentation(container.sessions(), cookie=container.sign_in().cookie).routes()
    known = Middleware(KnownPages, pages=addresses())
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders), known])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=APP_URL, headers={"Accept": "text/html"})


@pytest.fixture(scope="module")
def cookies(house: House) -> dict[str, str]:
    """The cookie of the admin's session."""
    return {container.sign_in().cookie: sign_in(house.service)}


async def test_help_is_for_people_who_are_signed_in(browser: httpx.AsyncClient) -> None:
    """Somebody who is not signed in is sent to sign in, and comes back to the page."""
    for address in ("/help/loading", "/help/", "/help/pages/search.png", "/help/../.env"):
        answer = await browser.get(address)
        assert answer.status_code in {303, 404}, address
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/oauth/login?next=%2Fhelp%2F")


async def test_a_page_of_help_has_its_contents_and_anchors(browser: httpx.AsyncClient, cookies: dict[str, str]) -> None:
    """A page shows its headings as a list of links, and the strict policy of all pages holds for it."""
    answer = await browser.get("/help/troubleshooting", headers=_cookie(cookies))
    assert answer.status_code == 200
    assert '<a href="#loading-documents">Loading documents</a>' in answer.text
    assert '<code id="file_corrupt">' in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]


async def test_the_first_page_of_help_lists_all(browser: httpx.AsyncClient, cookies: dict[str, str]) -> None:
    """/help and /help/ show the sections of the documentation with their pages."""
    for address in ("/help", "/help/"):
        answer = await browser.get(address, headers=_cookie(cookies))
        assert answer.status_code == 200
        assert '<a href="/help/first-hour">The first hour</a>' in answer.text


async def test_pictures_are_shown_and_nothing_else_is(browser: httpx.AsyncClient, cookies: dict[str, str]) -> None:
    """A picture of the documentation is served; other files and unknown pages are not there."""
    answer = await browser.get("/help/pages/search.png", headers=_cookie(cookies))
    assert answer.headers["content-type"] == "image/png"
    for name in ("pages/none.png", "..%2F..%2F.env", "pages/..%2F..%2Fpyproject.toml", "nowhere", "%2Fetc%2Fx.png"):
        answer = await browser.get(f"/help/{name}", headers=_cookie(cookies))
        assert answer.status_code == 404, name


def test_the_title_of_a_page_leads_to_help_about_it(house: House) -> None:
    """Help beside a title opens the page's part of the documentation, and names the page for a screen reader."""
    shown = html_of(house.open("health"))
    assert '<a href="/help/workbench#health" target="_blank" rel="noopener" aria-label="Help: Health">Help</a>' in shown


def test_an_error_leads_to_what_to_do_about_it() -> None:
    """An error of the service links to the entry of its code; one without an entry has no link."""
    known = APIError("Full.", status=507, code="storage_full", request_id=None, details=[])
    assert problem_of(known).help_at == "/help/troubleshooting#storage_full"
    unknown = APIError("Odd.", status=400, code="no_such_code", request_id=None, details=[])
    assert problem_of(unknown).help_at is None


def _cookie(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
