"""The most used paths of the workbench, in a real browser: search, chat, and an admin's job."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import carrel
from sample.organization import FOLDER
from tests.browser.accessibility import findings
from tests.browser.people import ASKED, DRAWN, ask, choose_row, page_in, press, search, sign_in, window
from tests.browser.test_jobs import Hand
from tests.harness.documents import add_to_collection, create_collection, uploaded
from tests.service.directory import walk

pytestmark = pytest.mark.timeout(300)

LIVESTOCK = FOLDER / "documents" / "operations" / "livestock-carriage.md"


@pytest.fixture(scope="module")
def admins(workbench, browser: Browser) -> Iterator[BrowserContext]:
    service = workbench.service
    collection_id = create_collection(service, "Livestock")
    names = {"file_name": LIVESTOCK.name, "documentName": "Carrying livestock"}
    document = uploaded(service, "livestock", LIVESTOCK.read_bytes(), **names)
    add_to_collection(service, document["documentId"], collection_id)
    with carrel.Carrel(service.api_key, base_url=service.base_url) as client:
        agent = client.admin.agents.create("Livestock desk", collection_ids=[collection_id])
        client.admin.agents.deploy(agent.agent_id, organization_wide=True)
    with window(browser) as page:
        sign_in(page, workbench.url, email=service.admin_email, password=service.admin_password)
        page.close()
        yield page.context


@pytest.fixture
def page(admins: BrowserContext) -> Iterator[Page]:
    with page_in(admins) as page:
        yield page


def test_what_is_found_takes_feedback_that_stands_on_the_audit_log(workbench, page: Page) -> None:
    search(page, workbench.url, "how many sheep can we take")
    expect(page.get_by_text("Carrying livestock").first).to_be_visible()
    expect(page.locator("mark", has_text="Sheep").first).to_be_visible()
    page.get_by_role("button", name="Not helpful").first.dblclick()
    page.get_by_role("button", name="Thank you. Add a comment?").click()
    page.get_by_placeholder("What was missing?").fill("And goats?")
    page.get_by_role("button", name="Send comment").click()
    expect(page.get_by_text("Admins can read your comment.")).to_be_visible()
    expect(page.get_by_placeholder("What was missing?")).to_have_count(0)
    page.goto(f"{workbench.url}/audit_log?action=search.feedback")
    for _ in range(2):  # one click each time
        with page.expect_download() as download:
            page.get_by_role("button", name="Export as CSV").click()
        assert "And goats?" in download.value.path().read_text()
    choose_row(page)
    expect(page.get_by_role("heading", name="admin judged document “Carrying livestock” not helpful")).to_be_visible()
    expect(page.get_by_text("And goats?")).to_be_visible()


def test_an_agent_answers_with_its_sources_and_remembers(workbench, page: Page) -> None:
    page.goto(f"{workbench.url}/chat")
    source = ask(page)
    page.get_by_role("textbox", name="Search conversations").press_sequentially("sheep")
    page.wait_for_function("() => !(sessionStorage['carrel.typed'] ?? '').includes('sheep')")
    assert "conversation" in parse_qs(urlsplit(page.url).query)
    page.reload()
    expect(page.get_by_text(ASKED).first).to_be_visible()
    with page.context.expect_page() as opened:
        source.click()
    expect(opened.value.get_by_role("heading", name="Carrying livestock")).to_be_visible()


def test_a_source_opens_beside_the_reply_by_keyboard_in_a_wide_window_alone(workbench, page: Page) -> None:
    page.goto(f"{workbench.url}/chat")
    page.set_viewport_size({"width": 1600, "height": 1000})
    source, panel = ask(page), page.get_by_role("region", name="Source")
    with page.context.expect_page() as opened:
        source.click(modifiers=["ControlOrMeta"])
    opened.value.close()
    expect(panel).to_have_count(0)
    chip = page.locator(".carrel-chip").first
    chip.press("Enter")
    expect(panel).to_be_focused()
    expect(panel.locator("mark")).to_be_visible()
    expect(panel.get_by_role("link", name="Open the document")).to_be_visible()
    assert findings(page, within=".carrel-preview") == []
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(chip).to_be_focused()
    chip.click()
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)
    page.set_viewport_size({"width": 1280, "height": 1000})
    with page.context.expect_page() as opened:
        source.click()
    expect(opened.value.get_by_role("heading", name="Carrying livestock")).to_be_visible()
    expect(panel).to_have_count(0)


def test_the_keyboard_alone_leads_from_a_question_to_who_can_read_the_answer(workbench, page: Page) -> None:
    """/ and Enter ask; Enter opens, Escape closes; Space chooses a thumb; ↓, Enter, Tab and arrows reach readers."""
    page.goto(workbench.url)
    page.get_by_placeholder("What are you looking for?").wait_for()
    page.locator(DRAWN).wait_for()
    page.get_by_role("button", name="Go to …").wait_for()  # keys are listened to from then on
    page.keyboard.press("/")
    page.keyboard.type("how many sheep can we take")
    page.keyboard.press("Enter")
    page.locator("mark").first.wait_for()
    page.locator(DRAWN).wait_for()
    page.get_by_role("button", name="Details").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Direct access")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Direct access")).to_have_count(0)
    page.get_by_role("button", name="Add a filter").press("Enter")
    expect(page.get_by_role("button", name="Add a filter")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Field")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Helpful", exact=True).first.focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Thank you. Add a comment?")).to_be_visible()
    page.get_by_placeholder("What are you looking for?").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Carrying livestock", exact=True)).to_be_visible()
    page.locator(DRAWN).wait_for()
    press_tab_until(page, "About")
    for _part in ("Versions", "Text as indexed", "Who may read it"):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**part=readers*")


def press_tab_until(page: Page, name: str) -> None:
    focused = page.locator("*:focus")
    for _stop in range(60):
        page.keyboard.press("Tab")
        if focused.count() and focused.first.inner_text().strip() == name:
            return
    raise AssertionError(name)


def test_the_palette_leads_by_keyboard_or_button_to_pages_names_and_actions(workbench, page: Page) -> None:
    page.goto(f"{workbench.url}/settings")
    page.locator("h1").wait_for()
    opener, palette = page.get_by_role("button", name="Go to …"), page.get_by_role("dialog", name="Go to")
    opener.wait_for()
    page.keyboard.press("/")
    assert findings(page, within=".carrel-palette") == []
    page.keyboard.press("Escape")
    composed = "new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, isComposing: true, bubbles: true})"
    page.evaluate(f"document.body.dispatchEvent({composed})")
    expect(palette).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("livestock")
    expect(palette.get_by_role("option", name="Livestock desk")).to_be_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Livestock desk")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("add pers")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Email address")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-testid=stSidebarNavLink][aria-current]")).to_contain_text("Settings")
    page.keyboard.press("Control+k")
    page.keyboard.type("settings")
    expect(palette.get_by_role("status")).to_be_empty()  # the page is called that
    page.keyboard.press("Escape")
    name = f"Quagga{uuid4().hex}"
    for outcome in ("Nothing that you may read is called that.", name):
        page.keyboard.press("Control+k")
        page.keyboard.type(name)
        expect(palette.get_by_text(outcome, exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        uploaded(workbench.service, name, documentName=name)
    page.set_viewport_size({"width": 390, "height": 844})
    opener.and_(page.locator(".is-apart")).click()
    page.keyboard.type("audit")
    palette.get_by_role("option", name="Audit log").click()
    expect(page.get_by_role("heading", name="Audit log")).to_be_visible()


def test_values_are_edited_by_keyboard_and_filtered_on_a_phone(workbench, page: Page) -> None:
    service, note = workbench.service, "First line\nSecond line"
    collection_id = create_collection(service, f"Ferries {uuid4()}", port="STRING", note="STRING")
    for name in ("Sun", "Moon"):
        document = uploaded(service, f"ferry-{name}", documentName=name)
        values = {"port": "Oslo", "note": note}
        add_to_collection(service, document["documentId"], collection_id, customMetadata=values)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{workbench.url}/collections?collection={collection_id}")
    page.get_by_role("button", name="Edit values").click()
    fields = page.locator("[data-at='1'] .carrel-cell")
    fields.nth(0).fill("Bergen")
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    fields.nth(0).press("Enter")
    expect(fields.nth(1)).to_be_focused()
    page.keyboard.type("Hamar")
    page.keyboard.press("Escape")
    expect(fields.nth(1)).to_have_value("Oslo")
    for part in ("About", "Documents"):  # the edits outlive the rows
        page.get_by_role("radio", name=part, exact=True).click()
    expect(fields.nth(0)).to_have_value("Bergen")
    with page.expect_event("dialog") as asked:
        page.evaluate("setTimeout(() => location.reload())")
    asked.value.dismiss()
    assert findings(page, within=".carrel-rows") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    press(page.get_by_role("button", name="Save"), page.get_by_role("button", name="Edit values"))
    page.get_by_role("combobox", name="port").click()
    page.get_by_role("option", name="Bergen (1)").click()
    expect(page.locator(".carrel-row")).to_have_count(1)
    expect(page.locator(".carrel-rows").get_by_text("Bergen")).to_be_visible()
    listed = walk(service, "documentCollections/listDocumentsInCollection", {"documentCollectionId": collection_id})
    assert [one["customMetadata"]["note"] for one in listed] == [note] * 2


def test_fields_are_added_renamed_required_converted_and_removed_by_plan(workbench, page: Page) -> None:
    service = workbench.service
    collection_id = create_collection(service, f"Piers {uuid4()}", length="STRING")
    for name, length in (("North", "12"), ("South", "long")):
        document = uploaded(service, f"pier-{name}-{collection_id}", documentName=name)
        add_to_collection(service, document["documentId"], collection_id, customMetadata={"length": length})
    page.goto(f"{workbench.url}/collections?collection={collection_id}&part=fields")
    preview, save = (page.get_by_role("button", name=name) for name in ("Preview changes", "Save"))
    fields = page.locator(".carrel-table").first

    def choose(label: str, option: str, name: str) -> None:
        page.get_by_role("combobox", name=label).click()
        page.get_by_role("option", name=option, exact=True).click()
        expect(page.locator(f"input[aria-label=Name][value='{name}']")).to_have_count(1)
        expect(page.get_by_label("Name", exact=True)).to_have_count(1)

    def write(label: str, text: str) -> None:
        page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Tab")
        expect(preview).to_be_enabled()

    def check(label: str) -> None:
        page.get_by_test_id("stCheckbox").filter(has_text=label).click()
        expect(page.get_by_role("checkbox", name=label)).to_be_checked()

    def finish(told: str, row: str) -> None:
        press(preview, page.get_by_text(told).first)
        assert findings(page) == []
        press(save, fields.get_by_role("row", name=row))
        expect(page.locator("input[aria-label=Name][value='']")).to_have_count(1)

    expect(preview).to_be_disabled()
    write("Name", "berths")
    finish("stay the same", "berths Text No")
    choose("Change", "berths", "berths")
    write("Name", "places")
    finish("stay the same", "places Text No")
    choose("Change", "places", "places")
    write("Value for documents without a value", "4")
    check("Required")
    finish("the empty field gets the value", "places Text Yes")
    choose("Change", "length", "length")
    choose("Type", "Whole number", "length")
    press(preview, page.get_by_role("cell", name="long"))
    expect(save).to_be_disabled()
    check("Leave the field empty where no value fits")
    press(save, fields.get_by_role("row", name="length Whole number No"))
    choose("Change", "places", "places")
    check("Remove the field and its values")
    press(preview, page.get_by_text("the value is removed"))
    save.click()
    expect(fields.get_by_text("places")).to_have_count(0)


def test_an_admin_adds_a_person_with_five_clicks_at_most(workbench, page: Page) -> None:
    Hand(page, workbench.url, "screen").do("add_person")
