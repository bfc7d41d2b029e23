"""The jobs of an operator: at most five clicks each, on a phone with clicks, on a screen with the keyboard alone."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

import carrel
from tests.browser.people import DRAWN, FOLLOW, RING, SETTLED, give_password, page_in, sign_in, window
from tests.harness.cases import cases, script
from tests.harness.stack import PASSWORD, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST = 5
JOBS = cases("jobs")
SIZES: dict[str, dict] = cases("windows")
# Abroad: a zoom of 200 %, far from UTC, with a browser that translates: it puts elements in the places of texts.
ABROAD = {"give_access_to_several", "sort_and_filter", "rename", "set_value_in_row", "see_failed_sign_ins", "ask_agent"}
TRANSLATE = script("jobs_translate.js")
SOMEBODY = "tove.lindqvist@northlight.example"
# What lies under the bar at the top, and texts of lists that are cut.
HIDDEN = """() => [...document.querySelectorAll(".st-key-title button, .carrel-rows td")].filter((one) =>
    one.checkVisibility() && (one.scrollWidth > one.clientWidth || one.getBoundingClientRect().top <
    document.querySelector("[data-testid=stHeader]").getBoundingClientRect().bottom)).map((one) => one.textContent)"""
PEOPLE = ("Found", "Named", "Closed", "Leaver")
QUESTIONS = ("How many sheep can we take on a phone?", "What does a zeppelin pilot earn?")


@dataclass
class Hand:
    """A person's hand that counts clicks; typing, with Enter, counts as none."""

    page: Page
    url: str
    name: str
    """The name of the screen size, used in the names of the jobs' objects."""
    clicks: int = 0

    def __post_init__(self) -> None:
        self.page.add_init_script(FOLLOW)

    def click(self, what: Locator) -> None:
        """Click once drawing has ended."""
        self.page.locator(DRAWN).wait_for()
        self.press(what.first)
        self.clicks += 1
        self._settle()

    def press(self, what: Locator) -> None:
        what.click()

    def type(self, field: Locator, text: str) -> None:
        field.fill(text)

    def fill(self, field: str, text: str) -> None:
        labelled = self.place.get_by_label(field, exact=True)
        self.type(labelled.or_(self.place.get_by_placeholder(field, exact=True)).first, text)

    def _settle(self) -> None:
        self.page.wait_for_function(SETTLED)

    def do(self, job: str) -> None:
        """Do a job of tests/data/cases/jobs.json: steps, each a method of this class with its arguments."""
        self.clicks = 0
        for step, *given in JOBS[job]:
            getattr(self, step)(*(one.replace("{size}", self.name) if isinstance(one, str) else one for one in given))
        assert self.clicks <= MOST, f"{self.clicks} clicks"

    def button(self, name: str, exact: bool = True) -> None:
        self.click(self.place.get_by_role("button", name=name, exact=exact))

    @property
    def place(self) -> Locator:
        return self.page.locator("[role=dialog], body:not(:has([role=dialog])) .stMain")

    def part(self, name: str) -> None:
        self.click(self.page.locator(".stMain").get_by_role("radio", name=name))

    def write(self, field: str, text: str) -> None:
        self.fill(field, text)
        self.page.keyboard.press("Enter")
        self._settle()

    def choose(self, name: str, option: str) -> None:
        field = self.page.get_by_role("combobox", name=name)
        self.click(field)
        if field.get_attribute("readonly") is not None:  # a touch brings no keyboard there
            self.click(self.page.get_by_role("option", name=option))
            return
        field.press_sequentially(option)
        expect(field).to_have_value(option)
        self.page.keyboard.press("Enter")
        self._settle()

    def begin(self) -> None:
        assert self.clicks <= MOST, f"{self.clicks} clicks"
        self.page.goto(self.url)
        self.page.locator("h1").first.wait_for()
        self.clicks = 0

    def find(self, name: str) -> None:
        """Go to something by its name."""
        self.click(self.page.get_by_role("button", name="Go to …").filter(visible=True))
        self.page.keyboard.type(name)
        option = self.page.get_by_role("option", name=re.compile(f"^{name}")).first
        while option.get_attribute("aria-selected") != "true":
            self.page.keyboard.press("ArrowDown")
        self.page.keyboard.press("Enter")

    def go(self, title: str) -> None:
        self.begin()
        self.find(title)
        expect(self.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        assert self.name == "screen" or self.page.evaluate(HIDDEN) == []
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    def unfold(self) -> None:
        if self.name != "screen":
            self.button("Filters")

    def on(self, role: Literal["button", "checkbox", "link"], name: str) -> None:
        self.click(self.page.get_by_role(role, name=name, exact=True))

    def at(self, place: str) -> None:
        self.click(self.page.locator(place))

    def key(self, name: str) -> None:
        self.page.keyboard.press(name)

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).filter(visible=True).first).to_be_visible()

    def shows(self, role: Literal["button", "heading", "link"], name: str) -> None:
        expect(self.page.get_by_role(role, name=name)).to_be_visible()

    def holds(self, place: str, text: str) -> None:
        expect(self.place.locator(place).first).to_contain_text(text)

    def empty(self, field: str) -> None:
        expect(self.place.get_by_label(field, exact=True).first).to_have_value("")

    def address(self, part: str) -> None:
        self.page.wait_for_url(lambda url: part in url)

    def upload(self, name: str) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.at("[data-testid=stFileUploaderDropzone] button")
        text = f"The pier is closed on Monday, says {name}.".encode()
        chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": text})

    def copied(self, text: str) -> None:
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        assert text in self.page.evaluate("navigator.clipboard.readText()")

    def forget(self) -> None:
        browser = self.page.context.browser
        assert browser is not None
        with window(browser, **SIZES[self.name]) as page:
            other = type(self)(page, self.url, self.name)
            other.page.goto(self.url)
            other.press(page.get_by_role("link", name="Sign in"))
            other.sees("Forgot your password?")
        self.clicks = 1


# How to come nearer to an element with the keyboard: the next key, or nothing on it. Arrows go within rows and choices.
NEXT = script("jobs_next_key.js")


class Keys(Hand):
    """The same jobs by the keyboard: each stop has a ring, no action loses the focus, and Escape closes dialogs."""

    def press(self, what: Locator) -> None:
        self._reach(what)
        was_open, address = self._dialogs.count(), self.page.url
        if what.get_attribute("role") == "combobox":
            return
        key = "Space" if what.evaluate("one => one.matches('[role=radio], [type=checkbox], [type=radio]')") else "Enter"
        leads_away = what.evaluate("one => one.matches('a')")
        self.page.keyboard.press(key)
        if leads_away:
            return
        self._keep_focus()
        if not was_open and self._dialogs.count() and self.page.url == address:
            self.page.keyboard.press("Escape")
            expect(self._dialogs).to_have_count(0)
            expect(what).to_be_focused()
            self.page.keyboard.press(key)
            expect(self._dialogs).to_have_count(1)
            self._keep_focus()

    def type(self, field: Locator, text: str) -> None:
        self._reach(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    @property
    def _dialogs(self) -> Locator:
        return self.page.locator("[role=dialog]")

    def _reach(self, what: Locator) -> None:
        what.wait_for()
        for _ in range(150):
            if not (key := what.evaluate(NEXT)):
                return
            self.page.keyboard.press(key)
            at = "document.activeElement.outerHTML.slice(0, 300)"
            assert self.page.evaluate(f"document.activeElement === document.body || {RING}"), self.page.evaluate(at)
        pytest.fail(f"{what} is no stop of the keyboard")

    def _keep_focus(self) -> None:
        self._settle()
        self.page.wait_for_function("() => document.activeElement !== document.body", timeout=3000)


CASES = [(size, name) for size in SIZES for name in JOBS if size != "abroad" or name in ABROAD]


def prepare(client: carrel.Carrel) -> None:
    [agent] = client.admin.agents.list()
    source = client.sources.report_source("a" * 24, "/srv/jobs")
    assert source.report_no is not None
    why = {"code": "file_unreadable", "message": "It is torn.", "fingerprint": "1", "since": datetime.now(UTC)}
    torn = [{"place": f"torn-{size}.pdf", **why} for size in SIZES]
    client.sources.report_source_items(source.source_id, source.report_no, torn)
    client.sources.end_source_report(source.source_id, source.report_no)
    client.admin.evaluation_sets.create("Questions of the jobs")
    for size in SIZES:
        people = [{"email": f"{one}.{size}@northlight.example".lower(), "name": f"{one} {size}"} for one in PEOPLE]
        client.admin.users.upsert(people)
        theirs = {"upload_as_user_email": people[-1]["email"]}
        client.catalog.upload_file(b"To hand over.", document_external_id=f"left {size}", file_name="a.txt", **theirs)
        schema = {"fields": [{"name": "port", "type": "STRING"}]}
        ports = client.document_collections.create_document_collection(f"Ports {size}", custom_metadata_schema=schema)
        for name in (f"Several {size} 1", f"Several {size} 2", f"Misnamed {size}", f"Private {size}"):
            made = client.catalog.upload_file(
                name.encode(), document_external_id=name, document_name=name, file_name="c.txt"
            )
        where = {"document_collection_id": ports.document_collection_id}
        client.document_collections.add_document_to_collection(
            document_id=made.document_id, custom_metadata={"port": "Bergen"}, **where
        )
    gone = client.catalog.upload_file(b"Soon gone.", document_external_id="b", document_name="Gone", file_name="b.txt")
    client.catalog.delete_document(gone.document_id)
    client.admin.agents.update(agent.agent_id, starter_questions=[QUESTIONS[0]])
    for question in QUESTIONS:
        list(client.agents.stream(agent.agent_id, question))


@pytest.fixture(scope="module", autouse=True)
def _prepared(stack: Stack, visitors: BrowserContext) -> None:
    with carrel.Carrel(api_key=stack.api_key, base_url=stack.service) as client:
        prepare(client)
    visitors.clear_cookies()
    with page_in(visitors) as page:
        page.goto(stack.workbench)
        page.get_by_role("link", name="Sign in").click()
        give_password(page, SOMEBODY, "not a password")
        page.get_by_role("alert").wait_for()


@pytest.fixture(scope="module")
def hands(stack: Stack, browser: Browser, admins: BrowserContext) -> Iterator[Callable[[str], Hand]]:
    state = admins.storage_state()
    with ExitStack() as windows:

        def on(size: str) -> Hand:
            page = windows.enter_context(window(browser, **SIZES[size], storage_state=state))
            if size == "abroad":
                page.add_init_script(TRANSLATE)
            return (Keys if size == "screen" else Hand)(page, stack.workbench, size)

        yield cache(on)


@pytest.mark.parametrize(("size", "job"), CASES)
def test_a_job_takes_five_clicks_at_most(hands: Callable[[str], Hand], size: str, job: str) -> None:
    hand = hands(size)
    hand.do(job)
    assert size != "abroad" or "UTC" not in hand.page.locator(".stMain").inner_html()


def test_an_input_method_composes_in_fields_of_the_workbenchs_own(hands: Callable[[str], Hand]) -> None:
    hand = hands("screen")
    page = hand.page
    method = page.context.new_cdp_session(page)
    chosen = "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true})"

    def compose(field: Locator, word: str) -> None:
        field.focus()
        for end in range(1, len(word) + 1):
            method.send("Input.imeSetComposition", {"text": word[:end], "selectionStart": end, "selectionEnd": end})
        page.evaluate(f"document.activeElement.dispatchEvent({chosen})")
        method.send("Input.insertText", {"text": word})
        expect(field).to_have_value(word)
        expect(field).to_be_focused()

    hand.begin()
    hand.click(page.get_by_role("button", name="Go to …").filter(visible=True))
    compose(page.locator(".carrel-palette input"), "ものがたり")
    page.keyboard.press("Escape")
    hand.go("Collections")
    hand.write("Name", "Ports screen")
    hand.button("Ports screen")
    hand.button("Edit values")
    page.get_by_label("port: Private").fill("")
    compose(page.get_by_label("port: Private"), "オスロ")
    hand.button("Save")
    expect(page.locator(".carrel-rows td", has_text="オスロ")).to_be_visible()


def test_a_member_finds_loads_asks_and_signs_out_on_a_phone(stack: Stack, browser: Browser) -> None:
    with window(browser, **SIZES["phone"]) as page:
        hand = Hand(page, stack.workbench, "phone")
        sign_in(page, stack.workbench, email="jonas.abara@northlight.example", password=PASSWORD)
        menu = page.get_by_test_id("stExpandSidebarButton")
        page.get_by_placeholder("What are you looking for?").fill("how long is parental leave")
        page.keyboard.press("Enter")
        hand.click(page.locator(".carrel-result h2 a"))
        expect(page.get_by_role("button", name="All documents")).to_be_visible()
        hand.click(menu)
        hand.click(page.get_by_test_id("stSidebarNav").get_by_role("link", name="Documents", exact=True))
        hand.button("Add documents", exact=False)
        notes = {"name": "notes-of-jonas.txt", "mimeType": "text/plain", "buffer": b"The pier is closed on Monday."}
        page.locator("input[type=file]").first.set_input_files([notes])
        hand.click(page.get_by_role("button", name="Add", exact=True))
        hand.sees("Loaded")
        page.keyboard.press("Escape")
        expect(page.locator(".carrel-row").filter(has_text="notes-of-jonas.txt")).to_be_visible()
        hand.click(menu)
        hand.click(page.get_by_test_id("stSidebarNav").get_by_role("link", name="Chat", exact=True))
        page.get_by_test_id("stChatInput").get_by_role("textbox").fill("How long is parental leave?")
        page.keyboard.press("Enter")
        expect(page.locator(".carrel-sources").first).to_be_visible()
        hand.click(menu)
        page.get_by_role("link", name="Sign out").click()
        expect(page.get_by_role("link", name="Sign in")).to_be_visible()
