"""What a person does in the workbench, in a real browser, over everything `make up` starts."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

import carrel
from tests.harness.stack import Stack

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def client(stack: Stack) -> Iterator[carrel.Carrel]:
    """The admin's client of the stack's service."""
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        yield client


def search(page: Page, stack: Stack, words: str) -> None:
    """Open the search page and ask."""
    page.goto(stack.workbench)
    page.get_by_placeholder("What are you looking for?").fill(words)
    page.get_by_role("button", name="Search", exact=True).click()


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of one of the page's select boxes."""
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option).click()


def test_search_finds_marks_and_takes_feedback(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    """A question finds its document with the match marked; a thumb and its comment are on the audit log."""
    search(page, stack, "how many sheep can we take")
    expect(page.get_by_text("Carrying livestock").first).to_be_visible()
    expect(page.locator("mark", has_text="Sheep").first).to_be_visible()
    page.get_by_role("radio", name="Thumbs down").first.click()
    page.get_by_role("button", name="Thank you. Say why?").click()
    page.get_by_placeholder("What was missing?").fill("And goats?")
    page.get_by_placeholder("What was missing?").press("Control+Enter")
    page.get_by_role("button", name="Send the comment").click()
    expect(page.get_by_text("on the audit log")).to_be_visible()
    entries = list(client.admin.audit_log.query(action="search.feedback"))
    assert len(entries) == 2
    assert {entry.details["feedback"] for entry in entries} == {"THUMBS_DOWN"}


def test_a_person_finds_only_what_that_person_may_read(stack: Stack, page: Page) -> None:
    """The board's minutes are found by the Managing Director and never by an apprentice, whatever is asked."""
    search(page, stack, "offer of Castellan Maritime HERON")
    choose(page, "As", "Sigrid Holm")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("Minutes extraordinary meeting")).to_be_visible()
    choose(page, "As", "Jonas Abara")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("Minutes extraordinary meeting")).to_have_count(0)
    expect(page.get_by_text("HERON")).to_have_count(0)


def test_names_of_others_are_text_in_the_browser_too(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    """A document's name and passage are neither elements, links nor icons, and nothing in them runs."""
    name = '<img src=x onerror="document.title=1"> [a](https://evil.example) https://evil.example :material/home:'
    text = f"Wombats {name} dig.".encode()
    client.catalog.upload_file(
        text, document_external_id="wombats", document_name=name, file_name="w.md", await_vector_store_sync=True
    )
    search(page, stack, "wombats")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    result = page.locator("article", has_text="Wombats").first
    expect(result.locator("img, a, script")).to_have_count(0)
    assert page.title() != "1"


def test_the_keyboard_is_enough_to_ask_and_to_say_what_it_was_worth(stack: Stack, page: Page) -> None:
    """Enter sends the question; Tab and Space reach the thumbs; Escape closes the details."""
    page.goto(stack.workbench)
    page.get_by_placeholder("What are you looking for?").fill("refund")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_be_visible()
    details = page.get_by_role("button", name="Details").first
    details.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Who may read it")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Who may read it")).to_have_count(0)
    page.get_by_role("radio", name="Thumbs up").first.focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Thank you. Say why?")).to_be_visible()


def test_nothing_is_fetched_from_elsewhere(stack: Stack, page: Page) -> None:
    """Both pages work without a request to any other host."""
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    search(page, stack, "refund")
    expect(page.get_by_text("Refunds and changes").first).to_be_visible()
    page.goto(f"{stack.workbench}/ingestion")
    expect(page.get_by_text("Who may read them")).to_be_visible()
    assert {host for host in hosts if host} == {urlsplit(stack.workbench).netloc}


def test_uploaded_files_are_watched_and_found(stack: Stack, page: Page, tmp_path: Path, client: carrel.Carrel) -> None:
    """Files dropped on the page Ingestion go through the flow; a bad one is listed and the rest is found."""
    good, bad = tmp_path / "quokka-policy.md", tmp_path / "empty.pdf"
    good.write_text("# Quokkas on board\n\nQuokkas travel free of charge when they smile.\n")
    bad.write_bytes(b"")
    page.goto(f"{stack.workbench}/ingestion")
    page.locator('input[type="file"]').first.set_input_files([good, bad])
    page.get_by_text("Everybody in the organization").click()
    page.get_by_role("button", name="Start the upload").click()
    expect(page.get_by_text("Done in")).to_be_visible(timeout=90_000)
    expect(page.get_by_role("heading", name="Not loaded")).to_be_visible()
    search(page, stack, "do quokkas pay")
    expect(page.get_by_text("quokka-policy.md").first).to_be_visible()
    assert [item.document_name for item in client.catalog.list_documents(document_name="quokka")] == [good.name]


def test_ctrl_c_leaves_nothing_running_and_the_next_start_has_kept_everything(stack: Stack, page: Page) -> None:
    """Ctrl-C ends every process, the database's too; started again, everything is there and nothing is loaded twice."""
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        before = {(item.document_id, item.document_version) for item in client.catalog.list_documents()}
    assert stack.interrupt() == []
    assert "SIGKILL" not in stack.output
    stack.start()
    assert "Loading the sample" not in stack.output
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        assert {(item.document_id, item.document_version) for item in client.catalog.list_documents()} == before
    search(page, stack, "do quokkas pay")
    expect(page.get_by_text("quokka-policy.md").first).to_be_visible()
