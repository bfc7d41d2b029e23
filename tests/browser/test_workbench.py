"""Use of the workbench in a real browser, over everything started by `make up`."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

import carrel
from app.navigation import FOR_ADMINS, UNDER_SETTINGS, entries_for
from carrel.wire.service_accounts import ServiceAccount
from tests.browser import people
from tests.browser.accessibility import findings
from tests.harness.cases import cases
from tests.harness.pictures import PICTURES, write_digests
from tests.harness.stack import ADMIN, PASSWORD, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

APPRENTICE, IDA = "jonas.abara@northlight.example", "ida.wells@northlight.example"
HOSTILE = '<img src=x onerror="document.title=1"> [a](https://evil.example) https://evil.example :material/home:'


@pytest.fixture
def client(stack: Stack) -> Iterator[carrel.Carrel]:
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        yield client


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return the folder for page pictures: the docs with CARREL_PICTURES (`make pictures`), else a temporary folder."""
    folder = Path(os.environ.get("CARREL_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(admins: BrowserContext) -> Iterator[Page]:
    with people.page_in(admins) as page:
        yield page


def test_a_path_is_explained(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.workbench}/who_can_read")
    page.get_by_label("Document, collection or agent").fill("extraordinary")
    expect(page.get_by_text("Effective access")).to_be_visible()
    page.get_by_label("Check a person or group").fill("Sigrid")
    expect(page.get_by_text("Sigrid Holm can read")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Board").first).to_be_visible()
    expect(page.locator("[data-testid='stGraphVizChart'] svg")).to_be_visible()


def test_a_token_is_minted_used_and_revoked(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.workbench}/service_accounts")
    switch = page.get_by_role("button", name="Turn on service accounts")
    expect(switch.or_(page.get_by_role("button", name="New service account"))).to_be_visible()
    if switch.is_visible():
        switch.click()
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name", exact=True).fill("Intranet")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="Intranet")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(people.DRAWN).wait_for()
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("intranet, production")
    page.keyboard.press("Tab")
    page.locator(people.DRAWN).wait_for()
    dialog.get_by_text("Read and search", exact=True).first.click()
    expect(dialog.get_by_text("Current reach of the token:")).to_be_visible()
    people.press(dialog.get_by_role("button", name="Create", exact=True), page.get_by_text("New token"))
    token = page.get_by_role("dialog").locator("code").first.inner_text().strip()
    assert token
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text(token)).to_have_count(0)
    assert status_of(stack, token) == 200
    page.reload()
    people.choose_row(page)
    expect(page.get_by_role("heading", name="intranet, production")).to_be_visible()
    expect(page.get_by_role("row", name="Last used").get_by_text("UTC")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert status_of(stack, token) == 401


def test_a_press_on_a_scope_counts_right_after_typing(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.workbench}/oauth_clients")
    page.get_by_role("button", name="New application").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Travel")
    dialog.get_by_role("textbox", name="Redirect URLs").fill("https://app.example.test/callback")
    dialog.get_by_text("Read and search", exact=True).click()
    page.locator(people.DRAWN).wait_for()
    expect(dialog.get_by_role("checkbox", name="Read and search")).to_be_checked()
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_text("Client secret")).to_be_visible()


def test_a_new_person_gets_from_an_invitation_to_a_document(stack, page, visitor, client) -> None:
    page.goto(f"{stack.workbench}/people")
    page.get_by_role("button", name="Add person").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Email address").fill(IDA)
    dialog.get_by_label("Name", exact=True).fill("Ida Wells")
    page.keyboard.press("Tab")
    page.locator(people.DRAWN).wait_for()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("heading", name="Ida Wells")).to_be_visible()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Invite").click()
    page.get_by_role("button", name="Create link").click()
    expect(page.get_by_text("Link to set a password")).to_be_visible()
    link = dialog.locator("code").inner_text().strip()
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text("svc_iv_")).to_have_count(0)
    assert next(iter(client.admin.audit_log.query(action="user.invite"))).device == "Chrome on Linux"
    set_password(visitor, link)
    visitor.goto(stack.workbench)
    visitor.get_by_role("link", name="Sign in").click()
    visitor.get_by_role("button", name="Allow").click()  # the address of this workbench is not in the settings
    expect(visitor.get_by_role("link", name="Sign out")).to_be_visible(timeout=people.PATIENCE_MS)
    people.search(visitor, stack.workbench, "the offer of Castellan Maritime")
    visitor.locator(people.DRAWN).wait_for()
    expect(visitor.locator("mark", has_text="Castellan")).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Add to groups").click()
    dialog.get_by_label("Groups").fill("Board")
    expect(dialog.get_by_text("Ida Wells joins Board, and can read 4 documents more.")).to_be_visible()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("link", name="Board")).to_be_visible()
    people.search(visitor, stack.workbench, "the offer of Castellan Maritime")
    expect(visitor.locator("mark", has_text="Castellan").first).to_be_visible()


def set_password(page: Page, link: str) -> None:
    page.goto(link)
    expect(page.get_by_text(f"You are Ida Wells ({IDA})")).to_be_visible()
    for again, seen in (("something else", page.get_by_role("alert")), (PASSWORD, page.get_by_role("heading"))):
        page.get_by_label("New password").fill(PASSWORD)
        page.get_by_label("Repeat the password").fill(again)
        page.get_by_role("button", name="Set the password").click()
        expect(seen).to_contain_text("are different" if again != PASSWORD else "Your password is set")
    page.goto(link)
    expect(page.get_by_text("Otherwise ask an admin of your organization for a new link.")).to_be_visible()


def status_of(stack: Stack, token: str) -> int:
    url = f"{stack.service}/api/v0/documentCollections/listDocumentCollections"
    return httpx.post(url, json={}, headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_folder_is_uploaded_watched_and_found(stack, page, tmp_path, client) -> None:
    good, bad = tmp_path / "quokka-policy.md", tmp_path / "empty.pdf"
    good.write_text("# Quokkas on board\n\nQuokkas travel free of charge when they smile.\n")
    bad.write_bytes(b"")
    page.goto(f"{stack.workbench}/ingestion")
    page.locator('input[type="file"]').first.set_input_files([good, bad])
    page.get_by_text("Everyone in the organization").click()
    page.get_by_role("button", name="Start upload").click()
    expect(page.get_by_text("Done in")).to_be_visible(timeout=90_000)
    expect(page.get_by_text("empty.pdf").first).to_be_visible()
    people.search(page, stack.workbench, "do quokkas pay")
    expect(page.get_by_text("quokka-policy.md").first).to_be_visible()
    found = client.catalog.list_documents(document_name="quokka")
    assert [item.document_name for item in found] == ["Quokkas on board"]


def test_a_member_reaches_no_page_of_admins_by_its_address(stack: Stack, visitor: Page) -> None:
    people.sign_in(visitor, stack.workbench, email=APPRENTICE, password=PASSWORD)
    main = visitor.get_by_test_id("stMain")
    for _name, title, *_ in itertools.chain(*FOR_ADMINS.values()):
        expect(visitor.get_by_role("link", name=title, exact=True)).to_have_count(0)
    for (name, *_), *_ in FOR_ADMINS.values():
        visitor.goto(f"{stack.workbench}/{name}")
        expect(visitor.get_by_text("This page is for admins.")).to_be_visible()
        expect(main.get_by_role("button")).to_have_count(0)
    people.search(visitor, stack.workbench, "offer of Castellan Maritime HERON")
    expect(main.get_by_text("may read").or_(visitor.locator("article")).first).to_be_visible()
    expect(visitor.locator("article", has_text="HERON")).to_have_count(0)


def new_account(client: carrel.Carrel) -> ServiceAccount:
    client.admin.organization.update(service_accounts_enabled=True)
    return client.admin.service_accounts.create("Intranet")


PLAIN = ("chat", "documents", "collections", "ingestion", "syncs", "service_accounts", "api_keys", "oauth_clients")
PLAIN += ("settings", "agents", "audit_log", "quality", "health", "people", "groups")


def addresses(client: carrel.Carrel) -> dict[str, str]:
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
SCREEN: ViewportSize = {"width": 1280, "height": 1000}
PHONE: ViewportSize = {"width": 390, "height": 844}
ZOOMED: ViewportSize = {"width": 640, "height": 500}
# What can't be pressed because it stands outside of the window, and the page if it scrolls to the side.
CUT = """() => [...document.querySelectorAll("html, button, a, input, [role=radio]")]
    .filter((one) => one.checkVisibility() && (one === document.documentElement ? one.scrollWidth > innerWidth
        : one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".carrel-rows, .carrel-sheet, pre, svg")))
    .map((one) => one.outerHTML.slice(0, 200))"""


def test_every_page_and_dialog_is_whole_and_fetches_nothing_from_elsewhere(stack, page, client, pictures) -> None:
    asked = client.search.search_document_catalog("how many sheep can we take")
    client.search.submit_search_feedback(search_id=asked.search_id, feedback="THUMBS_DOWN")
    hosts: set[str] = set()
    failed: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.on("console", lambda line: failed.append(line.text) if line.type == "error" else None)
    page.on("response", lambda answer: failed.append(f"{answer.status} {answer.url}") if answer.status > 399 else None)
    for name, address in addresses(client).items():
        page.set_viewport_size(SCREEN)
        page.emulate_media(color_scheme="light")
        open_whole(page, f"{stack.workbench}/{address}")
        if (PICTURES / f"{name}.png").exists():
            page.screenshot(path=pictures / f"{name}.png")
        failed += [f"{name}: {one}" for one in findings(page)]
        expect(page.locator("[data-testid=stSidebarNavLink][aria-current]")).to_contain_text(current_page(address))
        if name in DARK:
            page.screenshot(path=pictures / f"{name}-dark.png")
        page.set_viewport_size(ZOOMED)
        failed += [f"{name} at 200 %: {one}" for one in page.evaluate(CUT)]
        page.set_viewport_size(PHONE)
        failed += [f"{name} on a phone: {one}" for one in page.evaluate(CUT)]
        failed += [f"{name}: {one}" for button in DIALOGS.get(name, ()) for one in found_in_dialog(page, button)]
    assert {host for host in hosts if host} == {urlsplit(stack.workbench).netloc}
    assert failed == []
    if pictures.samefile(PICTURES):
        write_digests({name: address.partition("?")[0] for name, address in addresses(client).items()})


def current_page(address: str) -> str:
    name = address.partition("?")[0]
    titles = {entry.name: entry.title for entry, _ in entries_for(is_admin=True)}
    return "Settings" if name in UNDER_SETTINGS else titles[name]


def open_whole(page: Page, address: str) -> None:
    page.goto(address)
    if urlsplit(address).path == "/chat":
        page.get_by_placeholder("Your message").wait_for()
        page.locator(people.DRAWN).wait_for()
        earlier = page.get_by_role("button", name="How many sheep").first
        if not earlier.is_visible():
            people.ask(page)
        earlier.click()
    page.locator("h1").first.wait_for()
    page.locator(f"{people.DRAWN}:not(:has([data-testid='stSkeleton']))").wait_for()
    page.wait_for_function("""() => document.fonts.status === "loaded"
        && [...document.images].every(one => one.complete || one.loading === "lazy")""")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.locator(".carrel-problem")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280, address
    outside = page.evaluate("""() => [...document.querySelectorAll('[data-testid="stMain"] *')]
        .filter(one => one.getBoundingClientRect().right > 1281)
        .filter(one => !one.closest('canvas, svg, pre, [data-testid=stDataFrame]'))
        .map(one => one.outerHTML.slice(0, 200))""")
    assert outside == [], address


DIALOGS = cases("dialogs_of_pages")
FIRST_FIELD = """dialog => [document.activeElement, undefined].includes(
    [...dialog.querySelectorAll("input:is([type=text], [type=search]), textarea")].find(x => x.checkVisibility()))"""


def found_in_dialog(page: Page, button: str) -> list[str]:
    """Open and close a dialog on a phone; return the faults, and the elements wider than the phone."""
    page.get_by_test_id("stMain").get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    page.locator(people.DRAWN).wait_for()
    found = findings(page, within="[role=dialog]")
    found += [] if dialog.evaluate(FIRST_FIELD) else ["the first field has no focus"]
    wide = "one => [one, ...one.querySelectorAll('*')].filter(x => x.getBoundingClientRect().right > 391)"
    found += dialog.evaluate(f"{wide}.map(x => x.outerHTML.slice(0, 200))")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    return [f"{button}: {one}" for one in found]


def test_chosen_documents_are_changed_with_the_keyboard_alone(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.workbench}/documents?rows=choose&of=all")
    page.locator("input.carrel-row").first.focus()
    page.keyboard.press("Space")
    for name in ("Add to a collection …", "Remove from a collection …", "Access …"):
        page.get_by_role("button", name=name).press("Enter")
        dialog = page.get_by_role("dialog")
        dialog.wait_for()
        page.locator(people.DRAWN).wait_for()
        assert findings(page, within="[role=dialog]") == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


def test_documents_are_previewed_beside_the_list_by_keyboard_and_mouse(stack: Stack, page: Page) -> None:
    page.set_viewport_size({"width": 1600, "height": 900})
    page.goto(f"{stack.workbench}/documents?of=all")
    rows, preview = page.locator("tr[data-document] .carrel-row"), page.locator(".carrel-preview")
    expect(preview.locator("h2")).to_have_text(rows.first.inner_text())
    rows.first.press("ArrowDown")
    expect(preview.locator("h2")).to_have_text(rows.nth(1).inner_text())
    page.keyboard.press("ArrowRight")
    expect(preview).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(rows.nth(1)).to_be_focused()
    rows.nth(2).hover()
    expect(preview.locator("h2")).to_have_text(rows.nth(2).inner_text())
    assert findings(page, within=".carrel-preview") == []
    page.set_viewport_size(PHONE)
    expect(preview.filter(visible=True)).to_have_count(0)


def test_text_of_others_stays_text(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    text = f"Wombats {HOSTILE} dig.".encode()
    made = client.catalog.upload_file(
        text,
        document_external_id="wombats",
        document_name=HOSTILE,
        file_name="w.md",
        custom_metadata={"note": HOSTILE},
        await_vector_store_sync=True,
    )
    people.search(page, stack.workbench, "wombats")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    expect(page.locator("article", has_text="Wombats").first.locator("img, script, a[href*='evil']")).to_have_count(0)
    page.goto(f"{stack.workbench}/documents?document={made.document_id}")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    page.goto(f"{stack.workbench}/chat")
    page.get_by_placeholder("Your message").fill(HOSTILE)
    page.keyboard.press("Enter")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    expect(page.locator("img[src='x'], a[href*='evil'], script:has-text('document.title=1')")).to_have_count(0)
    assert page.title() != "1"


def test_a_name_without_blanks_stays_in_the_page_of_a_phone(stack, page, client) -> None:
    group = client.admin.groups.upsert([{"name": "Steamship" * 12}]).groups[0].id
    page.set_viewport_size(PHONE)
    for address in (f"groups?group={group}", f"what_can_they_read?who=group:{group}"):
        open_whole(page, f"{stack.workbench}/{address}")
        assert page.get_by_test_id("stMain").evaluate("one => one.scrollWidth <= one.clientWidth"), address
    client.admin.groups.delete(group, for_good=True)


def test_a_page_says_what_it_waits_for_and_goes_on_by_itself(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.workbench}/groups")
    page.locator(".carrel-row").first.wait_for()
    assert stack.process is not None
    family = psutil.Process(stack.process.pid).children(recursive=True)
    held = [one for one in family if one.cmdline()[-2:] == ["-m", "service"]]
    for one in held:
        one.suspend()
    try:
        page.get_by_test_id("stSidebarNav").get_by_role("link", name="Collections", exact=True).click()
        expect(page.locator("#carrel-waiting")).to_contain_text("The service has not answered yet", timeout=3500)
        expect(page.locator(".stMain table, .carrel-empty, .carrel-count")).to_have_count(0)
    finally:
        for one in held:
            one.resume()
    expect(page.locator(".carrel-row", has_text="Company knowledge")).to_be_visible()
    expect(page.locator("#carrel-waiting")).to_be_empty()


def test_typed_text_outlives_page_and_session_and_is_shown_to_nobody_else(stack: Stack, visitor: Page) -> None:
    people.sign_in(visitor, f"{stack.workbench}/people", email=ADMIN, password=PASSWORD)
    address = visitor.get_by_role("dialog").get_by_label("Email address")
    visitor.get_by_role("button", name="Add person").click()
    address.press_sequentially("new@northlight.example")
    visitor.request.post(f"{stack.workbench}/oauth/logout")
    expect(visitor.get_by_text("Your sign-in has ended.")).to_be_visible()
    visitor.get_by_role("link", name="Sign in").click()
    people.give_password(visitor, ADMIN, PASSWORD)
    expect(visitor.locator("#carrel-kept")).to_contain_text("Your text in “Add person” is kept")
    visitor.get_by_role("button", name="Add person").click()
    expect(address).to_have_value("new@northlight.example")
    visitor.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    visitor.wait_for_function("() => !sessionStorage['carrel.typed'].includes('new@')")
    with carrel.Carrel(stack.api_key, stack.service) as client:
        group = client.admin.groups.upsert([{"name": "Ringers"}]).groups[0].id
        visitor.goto(f"{stack.workbench}/groups?group={group}")
        visitor.get_by_role("button", name="Rename").click()
        name = visitor.get_by_role("dialog").get_by_label("Name")
        name.press_sequentially("Mine")
        client.admin.groups.upsert([{"id": group, "name": "Theirs"}])
    visitor.reload()
    visitor.locator("#carrel-apart").wait_for(state="attached")
    visitor.get_by_role("button", name="Rename").click()
    visitor.get_by_role("dialog").locator("#carrel-apart", has_text="Mine").click()
    expect(name).to_have_value("Theirs")
    people.search(visitor, stack.workbench, "how many sheep can we take")
    visitor.locator(".carrel-result h2 a").first.wait_for()
    composing = {"key": "ArrowDown", "keyCode": 229, "isComposing": True}
    visitor.get_by_placeholder("What are you looking for?").dispatch_event("keydown", composing)
    assert not visitor.evaluate("document.activeElement.matches('.carrel-result a')")
    visitor.goto(f"{stack.workbench}/chat")
    visitor.get_by_placeholder("Your message").press_sequentially("A long question")
    visitor.reload()
    expect(visitor.get_by_placeholder("Your message")).to_have_value("A long question")
    visitor.context.clear_cookies()
    people.sign_in(visitor, stack.workbench, email=APPRENTICE, password=PASSWORD)
    visitor.wait_for_function("() => !sessionStorage['carrel.typed'].includes('A long question')")


def test_a_form_shows_what_others_saved_and_keeps_text(stack: Stack, page: Page, client: carrel.Carrel) -> None:
    agent = client.admin.agents.create("Harbour desk").agent_id
    page.goto(f"{stack.workbench}/agents?agent={agent}")
    page.get_by_role("textbox", name="Description").fill("Mine")
    client.admin.agents.update(agent, instructions="Theirs")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("textbox", name="Instructions")).to_have_value("Theirs")
    page.goto(f"{stack.workbench}/ingestion?part=schedules&schedule=new")
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.press_sequentially("Nightly load")
    page.reload()
    expect(name).to_have_value("Nightly load")


@pytest.mark.parametrize(("name", "key"), [("people?show=admin", "Enter"), ("audit_log?action=user.upsert", "Space")])
def test_the_keyboard_reaches_a_row_by_stops_with_rings_and_opens_it(stack, page, name, key) -> None:
    page.goto(f"{stack.workbench}/{name}")
    page.locator(".carrel-row").first.wait_for()
    page.locator(people.DRAWN).wait_for()
    while not page.evaluate("document.activeElement.matches('.carrel-row')"):
        page.keyboard.press("Tab")
        assert page.evaluate(people.SEEN), page.evaluate("document.activeElement.outerHTML.slice(0, 300)")
    page.keyboard.press(key)
    expect(page.locator("[class*=st-key-back-]").get_by_role("button")).to_be_visible()


def test_a_search_previews_results_by_keyboard_and_begins_with_one_on_a_phone(stack: Stack, page: Page) -> None:
    page.set_viewport_size({"width": 1600, "height": 900})
    page.goto(f"{stack.workbench}/search?q=ferry+sailing+budget")
    names, preview = page.locator(".carrel-result h2 a"), page.locator(".carrel-preview")
    expect(preview.locator("h2")).to_have_text(names.first.inner_text())
    names.first.press("ArrowDown")
    expect(preview.locator("h2")).to_have_text(names.nth(1).inner_text())
    page.keyboard.press("ArrowRight")
    expect(preview).to_be_focused()
    page.set_viewport_size(PHONE)
    expect(page.locator(".carrel-preview, .st-key-mode").filter(visible=True)).to_have_count(0)
    page.locator(".stMain").evaluate("main => main.scrollTop = 0")
    expect(page.locator(".carrel-passage").first).to_be_in_viewport(ratio=1)


def test_ctrl_c_leaves_nothing_running_and_the_next_start_has_kept_everything(stack, page, client) -> None:
    def documents() -> set[object]:
        return {(item.document_id, item.document_version) for item in client.catalog.list_documents()}

    before = documents()
    assert before
    assert stack.interrupt() == []
    assert "SIGKILL" not in stack.output
    stack.start()
    assert "Loading the sample" not in stack.output
    assert "No runtime found" not in stack.output, "Streamlit warns of the workbench's imports"
    assert documents() == before
    people.search(page, stack.workbench, "how many sheep can we take")
    expect(page.get_by_text("Carrying livestock").first).to_be_visible()
