"""An admin adds a person, who sets a password, signs in, and reads what a group opens: all in a real browser."""

import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from carrel import Carrel
from tests.browser.people import sign_in
from tests.harness.documents import uploaded
from tests.harness.services import RunningService, ServiceHarness
from tests.harness.workbench import Workbench

pytestmark = pytest.mark.timeout(300)

PASSWORD = "a password of her own"
DRAWN = "[data-testid='stApp'][data-test-script-state='notRunning']"


@pytest.fixture(scope="module")
def workbench(
    service_harness: ServiceHarness, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Workbench, RunningService]]:
    """A workbench before a service with a document that a group may read."""
    service, stack = service_harness.start()
    workbench = Workbench(service, tmp_path_factory.mktemp("workbench"))
    try:
        document_id = uploaded(service, "tides", "High water at the quay is at noon.")["documentId"]
        with Carrel(service.api_key, service.base_url) as client:
            [crew] = client.admin.groups.upsert([{"name": "Harbour crew"}]).groups
            grants = [{"principal": {"type": "group", "id": crew.id}, "role": "VIEWER"}]
            client.admin.grants.set({"resource_id": document_id, "resource_type": "UPLOADED_DOCUMENT"}, grants)
        yield workbench.start(), service
    finally:
        workbench.stop()
        service_harness.stop(service, stack)


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


def search(page: Page, url: str) -> None:
    """Search for what the document says."""
    page.goto(url)
    page.get_by_placeholder("What are you looking for?").fill("high water at the quay")
    page.get_by_role("button", name="Search", exact=True).click()


def test_a_press_on_a_scope_counts_right_after_typing(page: Page, workbench: tuple[Workbench, RunningService]) -> None:
    """No scope of a new application is chosen beforehand, so the first press chooses; leaving the field loses none."""
    made, service = workbench
    sign_in(page, made.url, email=service.admin_email, password=service.admin_password)
    page.goto(f"{made.url}/oauth_clients")
    page.get_by_role("button", name="New application").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Travel")
    dialog.get_by_role("textbox", name="Redirect addresses").fill("https://app.example.test/callback")
    dialog.get_by_text("Read and search", exact=True).click()
    page.locator(DRAWN).wait_for()
    expect(dialog.get_by_role("checkbox", name="Read and search")).to_be_checked()
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_text("The application's secret")).to_be_visible()
    page.get_by_role("button", name="I have copied it").click()


def test_a_new_person_gets_from_an_invitation_to_a_document(
    browser: Browser, page: Page, workbench: tuple[Workbench, RunningService]
) -> None:
    """They find nothing before they are in the group, and the document from then on."""
    made, service = workbench
    sign_in(page, made.url, email=service.admin_email, password=service.admin_password)
    email = f"ida.{secrets.token_hex(4)}@example.test"  # where the test is run once more, she is there already
    link = add_person(page, made.url, email)
    theirs = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
    set_password(theirs, link, email)
    sign_in(theirs, made.url, email=email, password=PASSWORD)
    search(theirs, made.url)
    theirs.locator(DRAWN).wait_for()
    expect(theirs.locator("mark", has_text="water")).to_have_count(0)
    put_into_group(page)
    search(theirs, made.url)
    expect(theirs.locator("mark", has_text="water").first).to_be_visible()
    with Carrel(service.api_key, service.base_url) as client:
        devices = {entry.device for entry in client.admin.audit_log.query(action="user.invite")}
        assert devices == {"Chrome on Linux"}
    page.goto(f"{made.url}/groups")
    expect(page.get_by_role("button", name="Add group")).to_be_visible()
    theirs.context.close()
