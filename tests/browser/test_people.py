"""An admin adds a person, who sets a password, signs in, and reads what a group opens: all in a real browser."""

import secrets

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.people import DRAWN, search, sign_in, window
from tests.harness.documents import uploaded
from tests.harness.workbench import Workbench
from tests.service.directory import a_group, done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PASSWORD = "a password of her own"


@pytest.fixture(scope="module", autouse=True)
def _crew(workbench: Workbench) -> None:
    """A group that may read a document."""
    service = workbench.service
    document_id = uploaded(service, "tides", "High water at the quay is at noon.")["documentId"]
    crew = {"type": "group", "id": a_group(service, "Harbour crew")["id"]}
    resource = {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    done(service.call("admin/grants/set", {"resource": resource, "grants": [{"principal": crew, "role": "VIEWER"}]}))


@pytest.fixture
def admin(page: Page, workbench: Workbench) -> Page:
    """A window in which the admin is signed in."""
    service = workbench.service
    sign_in(page, workbench.url, email=service.admin_email, password=service.admin_password)
    return page


def add_person(page: Page, url: str, email: str) -> str:
    """Add somebody new, and return the link of their invitation, which is shown once."""
    page.goto(f"{url}/people")
    page.get_by_role("button", name="Add person").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Email address").fill(email)
    dialog.get_by_label("Name", exact=True).fill("Ida Wells")
    page.keyboard.press("Tab")
    page.locator(DRAWN).wait_for()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("heading", name="Ida Wells")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Invite").click()
    page.get_by_role("button", name="Create the link").click()
    expect(page.get_by_text("Link to set a password")).to_be_visible()
    link = page.get_by_role("dialog").locator("code").inner_text().strip()
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text("svc_iv_")).to_have_count(0)
    return link


def set_password(page: Page, link: str, email: str) -> None:
    """Set the password of the invitation, after typing it wrongly once."""
    page.goto(link)
    expect(page.get_by_text(f"You are Ida Wells ({email})")).to_be_visible()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same again").fill("something else")
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("alert")).to_contain_text("not the same")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same again").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("heading", name="Your password is set")).to_be_visible()
    page.goto(link)
    expect(page.get_by_text("Ask an admin of your organization for a new one.")).to_be_visible()


def put_into_group(page: Page) -> None:
    """Put the person whose page is open into the group, seeing what they will read more."""
    page.reload()
    page.get_by_role("button", name="Add to groups").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Groups").fill("Harbour")
    expect(dialog.get_by_text("Ida Wells joins Harbour crew, and can read 1 document more.")).to_be_visible()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("link", name="Harbour crew")).to_be_visible()


def test_a_press_on_a_scope_counts_right_after_typing(admin: Page, workbench: Workbench) -> None:
    """No scope of a new application is chosen beforehand, so the first press chooses; leaving the field loses none."""
    admin.goto(f"{workbench.url}/oauth_clients")
    admin.get_by_role("button", name="New application").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Travel")
    dialog.get_by_role("textbox", name="Redirect addresses").fill("https://app.example.test/callback")
    dialog.get_by_text("Read and search", exact=True).click()
    admin.locator(DRAWN).wait_for()
    expect(dialog.get_by_role("checkbox", name="Read and search")).to_be_checked()
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(admin.get_by_text("The application's secret")).to_be_visible()
    admin.get_by_role("button", name="I have copied it").click()


def test_a_new_person_gets_from_an_invitation_to_a_document(
    browser: Browser, admin: Page, workbench: Workbench
) -> None:
    """They find nothing before they are in the group, and the document from then on."""
    email = f"ida.{secrets.token_hex(4)}@example.test"
    link = add_person(admin, workbench.url, email)
    with window(browser) as theirs:
        set_password(theirs, link, email)
        sign_in(theirs, workbench.url, email=email, password=PASSWORD)
        search(theirs, workbench.url, "high water at the quay")
        theirs.locator(DRAWN).wait_for()
        expect(theirs.locator("mark", has_text="water")).to_have_count(0)
        put_into_group(admin)
        search(theirs, workbench.url, "high water at the quay")
        expect(theirs.locator("mark", has_text="water").first).to_be_visible()
    entries = done(workbench.service.call("admin/auditLog/query", {"action": "user.invite"}))["entries"]
    assert {entry["device"] for entry in entries} == {"Chrome on Linux"}
    admin.goto(f"{workbench.url}/groups")
    expect(admin.get_by_role("button", name="Add group")).to_be_visible()
