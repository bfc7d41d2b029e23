"""Signing in to the workbench in a real browser, and attacks on the way."""

from base64 import b64encode

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from app.auth.routes import path_of
from carrel import Carrel
from tests.browser import people
from tests.harness.cases import script
from tests.harness.workbench import Workbench
from tests.oauth.flow import PASSWORD, a_person, later
from tests.oauth.test_second_factor import demand, set_up
from tests.service.directory import done, walk

EMAIL, NAME = "ada@example.test", "Ada Lovelace"


@pytest.fixture(scope="module", autouse=True)
def _ada(workbench: Workbench) -> None:
    a_person(workbench.service, EMAIL)


@pytest.fixture
def ada(page: Page, workbench: Workbench) -> Page:
    sign_in(page, workbench)
    return page


def cookies_of(page: Page, workbench: Workbench) -> dict[str, str]:
    return {cookie["name"]: cookie["value"] for cookie in page.context.cookies(workbench.url)}


def sign_in(page: Page, workbench: Workbench, path: str = "/", email: str = EMAIL) -> None:
    people.sign_in(page, workbench.url + path, email=email, password=PASSWORD)


def test_a_person_signs_in_and_out(page: Page, workbench: Workbench) -> None:
    wanted = workbench.url.replace("127.0.0.1", "localhost") + "/?q=ferries"
    page.context.add_cookies([{"name": "carrel_workbench", "value": "planted", "url": workbench.url}])
    page.goto(wanted)
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    assert page.get_by_text("What are you looking for").count() == 0
    people.sign_in(page, wanted, email=EMAIL, password=PASSWORD)
    assert page.url.startswith(workbench.url + "/?q=ferries")
    [session] = [cookie for cookie in page.context.cookies() if cookie["name"] == "carrel_workbench"]
    assert "planted" not in session["value"]
    assert (session["httpOnly"], session["sameSite"]) == (True, "Lax")
    assert "svc_" not in page.content() + page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    page.get_by_role("link", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    # A copy of the cookie opens nothing any more.
    page.context.add_cookies([session])
    page.goto(workbench.url)
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    # Whoever comes next at this computer is not let in by what the service remembers.
    page.get_by_role("link", name="Sign in").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_an_invitation_ends_in_the_workbench_signed_in(page, workbench, monkeypatch) -> None:
    monkeypatch.setitem(vars(workbench.service.runtime.settings), "workbench_url", workbench.url)
    done(workbench.service.call("admin/users/upsert", {"users": [{"email": "ines@example.test", "name": "Ines"}]}))
    for password in ("the first password", "the second password"):
        page.goto(done(workbench.service.call("admin/users/invite", {"email": "ines@example.test"}))["url"])
        page.get_by_label("New password").fill(password)
        page.get_by_label("Repeat the password").fill(password)
        page.get_by_role("button", name="Set the password and sign in").click()
        expect(page.get_by_text("Next time, open")).to_contain_text(workbench.url)
        expect(page.get_by_text("ines@example.test").first).to_be_visible()
        assert page.url.startswith(workbench.url)
        page.get_by_role("link", name="Sign out").click()
        page.get_by_role("link", name="Sign in").click()
        expect(page.get_by_label("Password")).to_be_visible()


@pytest.mark.slow
def test_what_had_to_be_confirmed_is_done_then(page: Page, workbench: Workbench) -> None:
    admin = a_person(workbench.service, "admiral@example.test", isAdmin=True)
    _, codes = set_up(admin)
    page.goto(workbench.url + "/api_keys")
    page.get_by_role("link", name="Sign in").click()
    people.give_password(page, admin.email, PASSWORD)
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("button", name="Allow").click()
    demand(workbench.service, "ADMINS")
    later(workbench.service, minutes=16)
    try:
        page.get_by_role("button", name="New API key").click()
        page.get_by_label("Name").fill("A key worth a confirmation")
        page.get_by_role("button", name="Create", exact=True).click()
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Confirm that it is you").click()
        confirming = opened.value
        confirming.get_by_label("Password").fill(PASSWORD)
        confirming.get_by_label("Code from your app").fill(codes[1])
        confirming.get_by_role("button", name="Confirm", exact=True).click()
        expect(confirming.get_by_role("heading", name="Confirmed")).to_be_visible()
        confirming.close()
        expect(page.get_by_text("Carrel shows this once")).to_be_visible()
    finally:
        demand(workbench.service, "NOBODY")
    made = walk(workbench.service, "admin/apiKeys/list", {}, page_size=100)
    assert [one["name"] for one in made].count("A key worth a confirmation") == 1


@pytest.mark.slow
def test_a_restart_keeps_people_signed_in_until_they_sign_out_in_one_tab(ada: Page, workbench: Workbench) -> None:
    """Sessions are stored on disk, encrypted."""
    workbench.stop()
    kept = b"".join(path.read_bytes() for path in (workbench.folder / "workbench").rglob("*") if path.is_file())
    assert kept
    assert b"svc_" not in kept
    workbench.start()
    other = ada.context.new_page()
    for tab in (ada, other):
        tab.goto(workbench.url)
        expect(tab.get_by_text(NAME)).to_be_visible()
    ada.get_by_role("link", name="Sign out").click()
    expect(ada.get_by_role("link", name="Sign in")).to_be_visible()
    expect(other.get_by_role("link", name="Sign in")).to_be_visible()
    # What the page showed before is taken away when all of the new one is there.
    expect(other.get_by_text(NAME)).to_have_count(0)


@pytest.mark.slow
def test_a_callback_is_good_once_and_in_its_own_browser(browser: Browser, page: Page, workbench: Workbench) -> None:
    callbacks: list[str] = []
    page.on("request", lambda request: callbacks.append(request.url) if "/oauth/callback" in request.url else None)
    sign_in(page, workbench)
    replayed = page.context.new_page()
    replayed.goto(callbacks[0])
    expect(replayed.get_by_role("heading", name="This sign-in cannot be completed")).to_be_visible()
    with people.window(browser) as stranger:
        stranger.goto(f"{workbench.url}/oauth/login")
        stranger.goto(callbacks[0])
        expect(stranger.get_by_role("heading", name="This sign-in cannot be completed")).to_be_visible()
        assert "carrel_workbench" not in cookies_of(stranger, workbench)


def test_a_callback_that_another_browser_was_to_bring_is_refused(workbench: Workbench) -> None:
    """A person lured to an attacker's callback is not signed in as the attacker; the state stays valid."""
    with httpx.Client(base_url=workbench.url) as attacker, httpx.Client(base_url=workbench.url) as victim:
        state = attacker.get("/oauth/login").headers["location"].partition("state=")[2].partition("&")[0]
        assert state
        victim.get("/oauth/login")
        assert victim.get("/oauth/callback", params={"state": state, "code": "x"}).status_code == 400
        assert "carrel_workbench" not in victim.cookies
        said = {"state": state, "error": "access_denied", "iss": workbench.service.base_url}
        assert attacker.get("/oauth/callback", params=said).status_code == 403


def test_signing_in_leads_nowhere_else(workbench: Workbench) -> None:
    elsewhere = ("https://evil.test/", "//evil.test", "//[", "/\\evil.test", "/%5cevil.test", "/\t/evil.test")
    elsewhere += ("/.//evil.test", "/%2f/evil.test", "javascript:alert(1)")
    for wanted in (*elsewhere, "/oauth/logout", "/%6fauth/logout", "/x/../oauth/logout?really"):
        assert httpx.get(f"{workbench.url}/oauth/login", params={"next": wanted}).status_code == 303, wanted
        assert path_of(wanted) == "/", wanted
    asked = "/documents?name=a%2F%2Fb%5C&of=https://example.test/oauth/"
    assert path_of(asked) == asked


def test_another_site_signs_nobody_out(ada: Page, workbench: Workbench) -> None:
    """Without https browsers hide the site, so the page's form is required."""
    with httpx.Client(base_url=workbench.url, cookies=cookies_of(ada, workbench)) as client:
        for method, headers in (
            ("GET", {"Sec-Fetch-Site": "cross-site"}),
            ("GET", {}),
            ("HEAD", {}),
            ("HEAD", {"Sec-Fetch-Site": "same-origin"}),
            ("POST", {"Origin": "http://127.0.0.1:1"}),
            ("POST", {"Origin": "null"}),
            ("POST", {"Sec-Fetch-Site": "same-site"}),
        ):
            answer = client.request(method, "/oauth/logout", headers=headers)
            assert answer.status_code == 403, (method, headers)
            if method == "GET" and not headers:
                assert '<form method="post" action="/oauth/logout">' in answer.text
        ada.reload()
        expect(ada.get_by_text(NAME)).to_be_visible()
        assert client.post("/oauth/logout", headers={"Origin": workbench.url}).status_code == 303
    ada.reload()
    expect(ada.get_by_role("link", name="Sign in")).to_be_visible()


def test_files_pass_for_who_is_signed_in_alone(page: Page, workbench: Workbench, tmp_path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The offer for HERON was refused.")
    asked: dict[str, str] = {}
    page.on("request", lambda request: asked.update({request.method: request.url}) if is_of_a_file(request) else None)
    sign_in(page, workbench, "/documents")
    page.get_by_role("button", name="Add documents").click()
    page.locator('input[type="file"]').set_input_files(note)
    page.get_by_text("Everyone in the organization").click()
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("button", name="Done")).to_be_visible()
    with Carrel(workbench.service.api_key, workbench.service.base_url) as admin:
        document = next(iter(admin.catalog.list_documents(document_name="note")))
    page.goto(f"{workbench.url}/documents?document={document.document_id}&part=versions")
    with page.expect_download() as loaded:
        page.get_by_role("button", name="Download").click()
    assert loaded.value.path().read_text() == note.read_text()
    up, down = asked["PUT"], loaded.value.url
    with httpx.Client() as anybody:
        for answer in (anybody.put(up, content=b"x"), anybody.delete(up), anybody.get(down)):
            assert (answer.status_code, answer.text) == (403, "Sign in to the workbench first.")
    answer = httpx.get(down, cookies=cookies_of(page, workbench))
    assert answer.text == note.read_text()
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["content-security-policy"].endswith("sandbox")


def test_what_streamlit_has_beside_pages_is_for_who_is_signed_in(workbench: Workbench) -> None:
    """Streamlit's metrics and the API for driving pages require a session; the health check doesn't."""
    for path in ("metrics", "script-health-check", "agent/openapi.json", "agent/interact", "agent/mcp"):
        for method in ("GET", "POST"):
            answer = httpx.request(method, f"{workbench.url}/_stcore/{path}")
            assert (answer.status_code, answer.text) == (403, "Sign in to the workbench first."), path
    assert httpx.get(f"{workbench.url}/_stcore/health").text == "ok"


def test_an_address_of_no_page_is_said(page: Page, workbench: Workbench) -> None:
    page.goto(f"{workbench.url}/no_such_page?q=x")
    expect(page.get_by_role("heading", name="This page does not exist")).to_be_visible()
    page.get_by_role("link", name="Go to the home page").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    html = {"Accept": "text/html"}
    for path, status in {"/search": 200, "/health/": 301, "/first": 404, "/search/x": 404, "/favicon.png": 200}.items():
        assert httpx.get(f"{workbench.url}{path}", headers=html).status_code == status


def is_of_a_file(request: Request) -> bool:
    return "/upload_file/" in request.url or "/media/" in request.url


def connecting(workbench: Workbench, origin: str) -> int:
    """Return the status of a WebSocket handshake from a page of the origin."""
    headers = {
        "Origin": origin,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": b64encode(bytes(16)).decode(),
    }
    with httpx.stream("GET", f"{workbench.url}/_stcore/stream", headers=headers) as answer:
        return answer.status_code


def test_pages_of_others_cant_connect(workbench: Workbench) -> None:
    for origin in ("https://evil.test", "http://127.0.0.1:1", "http://localhost:3000", "null", "http://["):
        assert connecting(workbench, origin) == 403
    assert connecting(workbench, workbench.url) == 101


def test_other_windows_have_no_say(workbench: Workbench) -> None:
    answer = httpx.get(workbench.url)
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert httpx.get(f"{workbench.url}/_stcore/host-config").json()["allowedOrigins"] == []


def test_no_script_of_others_may_run(page: Page, workbench: Workbench) -> None:
    refused: list[str] = []
    page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)
    sign_in(page, workbench)
    expect(page.get_by_placeholder("What are you looking for?")).to_be_visible()
    assert refused == []
    page.evaluate(script("foreign_content.js"))
    page.wait_for_function("() => document.images.length > 0")
    assert page.evaluate("() => window.ran") is None
    assert any("evil.example" in line for line in refused)
