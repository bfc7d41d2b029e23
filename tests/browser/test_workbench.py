"""What people do in the workbench, in a real browser, over everything `make up` starts."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

import carrel
from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from carrel.wire.service_accounts import ServiceAccount
from tests.browser.accessibility import findings
from tests.browser.people import DRAWN, press, search, sign_in, window
from tests.harness.stack import PASSWORD, Stack

pytestmark = pytest.mark.timeout(600)

APPRENTICE = "jonas.abara@northlight.example"
ASKED = "How many sheep may travel on deck?"
HOSTILE = '<img src=x onerror="document.title=1"> [a](https://evil.example) https://evil.example :material/home:'


@pytest.fixture
def client(stack: Stack) -> Iterator[carrel.Carrel]:
    """The admin's client of the stack's service."""
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        yield client


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures of the pages go: with CARREL_PICTURES (`make pictures`) into the docs, otherwise away."""
    folder = Path(os.environ.get("CARREL_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser: Browser, admin_state: dict[str, object]) -> Iterator[Page]:
    """A window in which the admin is signed in."""
    with window(browser, storage_state=admin_state) as page:
        yield page


def find(page: Page, label: str, typed: str, option: str) -> None:
    """Type into a field that finds things, and choose a match, unless it is the only one and chosen by itself.

    The matches may still change while they are open.
    """
    page.get_by_label(label).fill(typed)
    match = page.get_by_role("option", name=option).first
    chosen, matches = (
        page.locator(".carrel-chosen", has_text=option),
        page.get_by_role("combobox", name="Matches").first,
    )
    expect(chosen.or_(matches).first).to_be_visible()
    for _attempt in range(10):
        if chosen.is_visible():
            return
        matches.click()
        try:
            match.click(timeout=3000)
        except PlaywrightTimeoutError:
            page.keyboard.press("Escape")
        else:
            return
    raise AssertionError(option)


def test_what_is_found_takes_feedback_that_stands_on_the_audit_log(stack: Stack, page: Page) -> None:
    """A question finds its document with the match marked; a thumb and its comment are read on the log's page.

    One click exports the log.
    """
    search(page, stack.workbench, "how many sheep can we take")
    expect(page.get_by_text("Carrying livestock").first).to_be_visible()
    expect(page.locator("mark", has_text="Sheep").first).to_be_visible()
    page.get_by_role("button", name="Not helpful").first.dblclick()
    page.get_by_role("button", name="Thank you. Say why?").click()
    page.get_by_placeholder("What was missing?").fill("And goats?")
    page.get_by_role("button", name="Send the comment").click()
    expect(page.get_by_text("The admins of Carrel read it.")).to_be_visible()
    page.goto(f"{stack.workbench}/audit_log?action=search.feedback")
    for _ in range(2):  # one click each time
        with page.expect_download() as download:
            page.get_by_role("button", name="Export as CSV").click()
        assert "And goats?" in download.value.path().read_text()
    choose_row(page)
    expect(page.get_by_role("heading", name="admin judged document “Carrying livestock” not helpful")).to_be_visible()
    expect(page.get_by_text("And goats?")).to_be_visible()


@pytest.mark.slow
def test_a_path_is_explained(stack: Stack, page: Page) -> None:
    """Found by typing: a document and a person, and the groups by which that person may read it."""
    page.goto(f"{stack.workbench}/who_can_read")
    find(page, "Document, collection or agent", "extraordinary", "Minutes extraordinary meeting")
    expect(page.get_by_text("Effective access")).to_be_visible()
    find(page, "Somebody in particular", "Sigrid", "Sigrid Holm")
    expect(page.get_by_text("Sigrid Holm may read")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Board").first).to_be_visible()
    expect(page.locator("[data-testid='stGraphVizChart'] svg")).to_be_visible()


@pytest.mark.slow
def test_a_token_is_minted_used_and_revoked(stack: Stack, page: Page) -> None:
    """Its value is shown once and works with curl; when it was used is seen; revoked, curl gets 401."""
    page.goto(f"{stack.workbench}/service_accounts")
    switch = page.get_by_role("button", name="Switch service accounts on")
    expect(switch.or_(page.get_by_role("button", name="New service account"))).to_be_visible()
    if switch.is_visible():
        switch.click()
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name", exact=True).fill("Intranet")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="Intranet")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(DRAWN).wait_for()
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("intranet, production")
    page.keyboard.press("Tab")
    page.locator(DRAWN).wait_for()
    dialog.get_by_text("Read and search", exact=True).first.click()
    expect(dialog.get_by_text("As things are now, it reaches:")).to_be_visible()
    press(dialog.get_by_role("button", name="Create", exact=True), page.get_by_text("The new token"))
    token = page.get_by_role("dialog").locator("code").first.inner_text().strip()
    assert token
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text(token)).to_have_count(0)
    assert curl(stack, token) == 200
    page.reload()
    choose_row(page)
    expect(page.get_by_role("heading", name="intranet, production")).to_be_visible()
    expect(page.get_by_role("row", name="Last used").get_by_text("UTC")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert curl(stack, token) == 401


def curl(stack: Stack, token: str) -> int:
    """The status curl gets with a token."""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST"]
    headers = ["-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json", "-d", "{}"]
    url = f"{stack.service}/api/v0/documentCollections/listDocumentCollections"
    return int(subprocess.run([*command, *headers, url], check=True, capture_output=True, text=True).stdout)


def choose_row(page: Page, number: int = 0) -> None:
    """Choose a row of the page's first list, by its name."""
    page.locator(".carrel-row").nth(number).click()


def test_a_folder_is_uploaded_watched_and_found(
    stack: Stack, page: Page, tmp_path: Path, client: carrel.Carrel
) -> None:
    """Files go through the flow; a bad one is listed with its reason and the rest is found, and is the person's own."""
    good, bad = tmp_path / "quokka-policy.md", tmp_path / "empty.pdf"
    good.write_text("# Quokkas on board\n\nQuokkas travel free of charge when they smile.\n")
    bad.write_bytes(b"")
    page.goto(f"{stack.workbench}/ingestion")
    page.locator('input[type="file"]').first.set_input_files([good, bad])
    page.get_by_text("Everybody in the organization").click()
    page.get_by_role("button", name="Start the upload").click()
    expect(page.get_by_text("Done in")).to_be_visible(timeout=90_000)
    expect(page.get_by_text("empty.pdf").first).to_be_visible()
    search(page, stack.workbench, "do quokkas pay")
    expect(page.get_by_text("quokka-policy.md").first).to_be_visible()
    assert [item.document_name for item in client.catalog.list_documents(document_name="quokka")] == [good.name]


def ask(page: Page) -> Locator:
    """Ask on the page Chat, and return the link to what the reply is from."""
    page.get_by_placeholder("Your message").fill(ASKED)
    page.keyboard.press("Enter")
    source = page.get_by_role("link", name="Open document").first
    expect(source).to_be_visible(timeout=60_000)
    return source


def test_an_agent_answers_with_its_sources_and_remembers(stack: Stack, page: Page) -> None:
    """A reply comes with the document it has it from, which opens; after a reload the conversation is still there."""
    page.goto(f"{stack.workbench}/chat")
    source = ask(page)
    assert "conversation" in parse_qs(urlsplit(page.url).query)
    page.reload()
    expect(page.get_by_text(ASKED).first).to_be_visible()
    with page.context.expect_page() as opened:
        source.click()
    expect(opened.value.get_by_role("heading", name="Carrying livestock")).to_be_visible()


def test_a_member_reaches_no_page_of_admins_by_its_address(stack: Stack, browser: Browser) -> None:
    """Each says whom it is for, and shows nothing else; Search finds what the member may read alone."""
    with window(browser) as page:
        sign_in(page, stack.workbench, email=APPRENTICE, password=PASSWORD)
        main = page.get_by_test_id("stMain")
        for name, title, _icon in itertools.chain(*FOR_ADMINS.values()):
            expect(page.get_by_role("link", name=title, exact=True)).to_have_count(0)
            page.goto(f"{stack.workbench}/{name}")
            expect(page.get_by_text("This page is for admins.")).to_be_visible()
            expect(main.get_by_role("button")).to_have_count(0)
        search(page, stack.workbench, "offer of Castellan Maritime HERON")
        expect(main.get_by_text("may read").or_(page.locator("article")).first).to_be_visible()
        expect(page.get_by_text("HERON")).to_have_count(0)


def test_the_keyboard_is_enough_to_ask_and_to_say_what_it_was_worth(stack: Stack, page: Page) -> None:
    """Enter sends the question; Tab and Space reach the thumbs; Escape closes the details."""
    page.goto(stack.workbench)
    page.get_by_placeholder("What are you looking for?").fill("refund")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_be_visible()
    details = page.get_by_role("button", name="Details").first
    details.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Direct access")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Direct access")).to_have_count(0)
    page.get_by_role("button", name="Helpful", exact=True).first.focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Thank you. Say why?")).to_be_visible()


def test_the_keyboard_alone_leads_from_a_question_to_who_can_read_the_answer(stack: Stack, page: Page) -> None:
    """/ and Enter ask, ↓ and Enter open a result, Tab and the arrows its part about readers."""
    page.goto(stack.workbench)
    page.get_by_placeholder("What are you looking for?").wait_for()
    page.locator(DRAWN).wait_for()
    page.locator("[data-testid=stSidebarNavItems][role=none]").wait_for()  # keys are listened to from then on
    page.keyboard.press("/")
    page.keyboard.type("how many sheep can we take")
    page.keyboard.press("Enter")
    page.locator("mark").first.wait_for()
    page.locator(DRAWN).wait_for()
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
    """Press Tab until the focus is on something with this text."""
    focused = page.locator("*:focus")
    for _stop in range(60):
        page.keyboard.press("Tab")
        if focused.count() and focused.first.inner_text().strip() == name:
            return
    raise AssertionError(name)


def new_account(client: carrel.Carrel) -> ServiceAccount:
    """Switch service accounts on, and make one."""
    client.admin.organization.update(service_accounts_enabled=True)
    return client.admin.service_accounts.create("Intranet")


PLAIN = ("chat", "documents", "collections", "ingestion", "syncs", "service_accounts", "api_keys", "oauth_clients")
PLAIN += ("agents", "audit_log", "quality", "health", "people", "groups")


def addresses(client: carrel.Carrel) -> dict[str, str]:
    """Where each page shows something, by the name of its picture."""
    document = next(iter(client.catalog.list_documents(document_name="extraordinary")))
    paged = next(iter(client.catalog.list_documents(media_types=["application/pdf"])))
    collection = next(iter(client.document_collections.list_document_collections()))
    account = next(iter(client.admin.service_accounts.list()), None) or new_account(client)
    agent = next(iter(client.admin.agents.list()))
    person = next(one for one in client.admin.users.list() if one.name == "Sigrid Holm")
    group = next(iter(client.admin.groups.list()))
    resource = f"{document.resource.resource_type}:{document.resource.resource_id}"
    return {name: name for name in PLAIN} | {
        "own_searches": "search",
        "search": "search?q=how many sheep can we take",
        "document": f"documents?document={document.document_id}",
        "original": f"documents?document={paged.document_id}&part=original&chunk=0",
        "collection": f"collections?collection={collection.document_collection_id}",
        "runs": "ingestion?part=runs",
        "schedules": "ingestion?part=schedules",
        "who_can_read": f"who_can_read?resource={resource}",
        "why": f"who_can_read?resource={resource}&who=user:sigrid.holm@northlight.example",
        "what_can_they_read": "what_can_they_read?who=user:sigrid.holm@northlight.example",
        "tokens": f"service_accounts?account={account.service_account_id}",
        "agent": f"agents?agent={agent.agent_id}",
        "questions": "agents?show=questions",
        "person": f"people?person={person.id}",
        "group": f"groups?group={group.id}",
        "access": "who_can_read",
    }


DARK = ("search", "chat", "why", "quality")


@pytest.mark.slow
def test_every_page_is_whole_and_fetches_nothing_from_elsewhere(
    stack: Stack, page: Page, client: carrel.Carrel, pictures: Path
) -> None:
    """Nothing is wider than 1280, fails, is missing or is hard for people with disabilities, in both themes."""
    hosts: set[str] = set()
    failed: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.on("console", lambda line: failed.append(line.text) if line.type == "error" else None)
    page.on("response", lambda answer: failed.append(f"{answer.status} {answer.url}") if answer.status > 399 else None)
    for name, address in addresses(client).items():
        page.emulate_media(color_scheme="light")
        open_whole(page, f"{stack.workbench}/{address}")
        if name != "runs":  # it shows a folder of this machine
            page.screenshot(path=pictures / f"{name}.png")
        failed += [f"{name}: {one}" for one in findings(page)]
        expect(page.locator("[data-testid=stSidebarNavLink][aria-current=page]")).to_contain_text(current_page(address))
        if name in DARK:
            page.screenshot(path=pictures / f"{name}-dark.png")
    assert {host for host in hosts if host} == {urlsplit(stack.workbench).netloc}
    assert failed == []


def current_page(address: str) -> str:
    """Return what the menu calls the page at an address of the workbench."""
    name = address.partition("?")[0]
    entries = (entry for section in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for each in section.values() for entry in each)
    return next(title for page, title, _icon in entries if page == name)


def open_whole(page: Page, address: str) -> None:
    """Open a page of the workbench, wait until all of it is drawn, and see that it fits."""
    page.goto(address)
    if urlsplit(address).path == "/chat":
        page.get_by_placeholder("Your message").wait_for()
        page.locator(DRAWN).wait_for()
        earlier = page.get_by_role("button", name="How many sheep").first
        if not earlier.is_visible():
            ask(page)
        earlier.click()
    page.locator("h1").first.wait_for()
    page.locator(f"{DRAWN}:not(:has([data-testid='stSkeleton']))").wait_for()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.locator(".carrel-problem")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280, address
    outside = page.evaluate("""() => [...document.querySelectorAll('[data-testid="stMain"] *')]
        .filter(one => one.getBoundingClientRect().right > 1281)
        .filter(one => !one.closest('canvas, svg, pre, [data-testid=stDataFrame]'))
        .map(one => one.outerHTML.slice(0, 200))""")
    assert outside == [], address


DIALOGS = {
    "search": ("Details",),
    "document": ("Delete …",),
    "collections": ("New collection",),
    "people": ("Add person",),
    "person": ("Change", "Deactivate", "Offboard …", "Add to groups"),
    "groups": ("Add group",),
    "group": ("Add members", "Rename", "Delete the group"),
    "who_can_read": ("Manage access",),
    "service_accounts": ("New service account",),
    "tokens": ("Create token", "Delete the account"),
    "api_keys": ("New API key",),
    "oauth_clients": ("New application",),
    "agents": ("New agent",),
    "agent": ("Delete …",),
}


@pytest.mark.slow
def test_dialogs_fit_a_phone_and_stand_in_nobodys_way(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    """Each opens by a button, holds nothing that axe finds in either theme, and is as wide as a phone at most."""
    page.set_viewport_size({"width": 390, "height": 844})
    found, places = [], addresses(client)
    for name, buttons in DIALOGS.items():
        page.goto(f"{stack.workbench}/{places[name]}")
        for button in buttons:
            page.get_by_test_id("stMain").get_by_role("button", name=button, exact=True).first.click()
            page.get_by_role("dialog").wait_for()
            page.locator(DRAWN).wait_for()
            found += [f"{button}: {one}" for one in findings(page, within="[role=dialog]")]
            wide = "one => [one, ...one.querySelectorAll('*')].filter(x => x.getBoundingClientRect().right > 391)"
            found += page.get_by_role("dialog").evaluate(f"{wide}.map(x => x.outerHTML.slice(0, 200))")
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    assert found == []


@pytest.mark.slow
def test_text_of_others_stays_text(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    """Names, passages, metadata and messages are neither elements, links nor icons, and nothing in them runs."""
    text = f"Wombats {HOSTILE} dig.".encode()
    made = client.catalog.upload_file(
        text,
        document_external_id="wombats",
        document_name=HOSTILE,
        file_name="w.md",
        custom_metadata={"note": HOSTILE},
        await_vector_store_sync=True,
    )
    search(page, stack.workbench, "wombats")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    result = page.locator("article", has_text="Wombats").first
    expect(result.locator("img, script, a[href*='evil']")).to_have_count(0)
    page.goto(f"{stack.workbench}/documents?document={made.document_id}")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    page.goto(f"{stack.workbench}/chat")
    page.get_by_placeholder("Your message").fill(HOSTILE)
    page.keyboard.press("Enter")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    expect(page.locator("img[src='x'], a[href*='evil'], script:has-text('document.title=1')")).to_have_count(0)
    assert page.title() != "1"


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_running_and_the_next_start_has_kept_everything(
    stack: Stack, page: Page, client: carrel.Carrel
) -> None:
    """Ctrl-C ends every process, the database's too; started again, all is there, and who was signed in still is."""

    def documents() -> set[object]:
        return {(item.document_id, item.document_version) for item in client.catalog.list_documents()}

    before = documents()
    assert before
    assert stack.interrupt() == []
    assert "SIGKILL" not in stack.output
    stack.start()
    assert "Loading the sample" not in stack.output
    assert documents() == before
    search(page, stack.workbench, "how many sheep can we take")
    expect(page.get_by_text("Carrying livestock").first).to_be_visible()
