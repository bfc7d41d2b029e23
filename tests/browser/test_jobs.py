"""The jobs of an operator, on a screen and on a phone: at most five clicks each after signing in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

import carrel
from tests.browser.people import DRAWN, FOLLOW, SETTLED, give_password, page_in, sign_in, window
from tests.harness.stack import PASSWORD, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST = 5
SIZES: dict[str, dict] = {
    "screen": {"viewport": {"width": 1280, "height": 800}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "user_agent": "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/156.0 Mobile Safari/537.36",
    },
}
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
        what.first.click()
        self.clicks += 1
        self._settle()

    def _settle(self) -> None:
        self.page.wait_for_function(SETTLED)

    def button(self, name: str, *, exact: bool = True) -> None:
        self.click(self.place.get_by_role("button", name=name, exact=exact))

    @property
    def place(self) -> Locator:
        return self.page.locator("[role=dialog], body:not(:has([role=dialog])) [data-testid=stMain]")

    def part(self, name: str) -> None:
        self.click(self.page.get_by_test_id("stMain").get_by_role("radio", name=name))

    def write(self, field: str, text: str) -> None:
        self.place.get_by_label(field, exact=True).first.fill(text)
        self.page.keyboard.press("Enter")
        self._settle()

    def go(self, title: str) -> None:
        assert self.clicks <= MOST, f"{self.clicks} clicks"
        self.page.goto(self.url)
        self.page.locator("h1").first.wait_for()
        self.clicks = 0
        self.click(self.page.get_by_role("button", name="Go to …").filter(visible=True))
        self.page.keyboard.type(title)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        assert self.name != "phone" or self.page.evaluate(HIDDEN) == []

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).filter(visible=True).first).to_be_visible()


class Jobs(Hand):
    """The jobs of an operator: each begins with `go`."""

    def _open_person(self, who: str) -> None:
        self.go("People")
        self.write("Find", f"{who} {self.name}")
        self.button(f"{who} {self.name}")
        expect(self.page.get_by_role("heading", name=f"{who} {self.name}")).to_be_visible()

    def add_person(self) -> None:
        self.go("People")
        self.button("Add person")
        self.place.get_by_label("Email address").fill(f"new.{self.name}@northlight.example")
        self.write("Name", f"New {self.name}")
        self.button("Add")
        expect(self.page.get_by_role("heading", name=f"New {self.name}")).to_be_visible()

    def name_person(self) -> None:
        self._open_person("Named")
        self.button("Change")
        self.write("Name", f"Renamed {self.name}")
        self.button("Save")
        expect(self.page.get_by_role("heading", name=f"Renamed {self.name}")).to_be_visible()

    def reset_password(self) -> None:
        self._open_person("Found")
        self.button("Invite")
        self.button("Create link")
        expect(self.place.locator("code")).to_contain_text("svc_iv_")

    def put_in_group(self) -> None:
        self._open_person("Found")
        self.button("Add to groups")
        self.write("Groups", "Deck")
        self.sees(f"Found {self.name} joins Deck Crew")
        expect(self.place.get_by_label("Groups", exact=True).first).to_have_value("")
        self.button("Add")
        expect(self.page.get_by_role("link", name="Deck Crew")).to_be_visible()

    def switch_sign_in_off(self) -> None:
        self._open_person("Closed")
        self.button("Deactivate")
        self.click(self.page.get_by_role("dialog").get_by_role("button", name="Deactivate"))
        self.sees("not active")

    def hand_over(self) -> None:
        self._open_person("Leaver")
        self.button("Offboard …")
        self.write("New owner", "Tove Lindqvist")
        expect(self.place.get_by_text("Type part of a name above")).to_have_count(0)
        self.button(f"Offboard Leaver {self.name}")
        self.sees("not active")

    def see_failed_sign_ins(self) -> None:
        self.go("Audit log")
        if self.name == "phone":
            self.button("Filters")
        self.click(self.page.get_by_role("combobox", name="Event"))
        self.page.keyboard.type("sign-in failed")
        self.page.keyboard.press("Enter")
        self.sees("failed to sign in as")
        self.sees("127.0.0.1")
        self.sees("Chrome on Linux")

    def make_change_and_stop_schedule(self) -> None:
        self._open_schedule("New schedule")
        self.write("Folder, glob, manifest or object store", "/usr/share")
        self._save_schedule(f"Nightly {self.name}")
        self._open_schedule(f"Nightly {self.name}")
        self._save_schedule(f"Weekly {self.name}")
        self._open_schedule(f"Weekly {self.name}")
        self.button("Pause")
        expect(self.page.get_by_role("button", name="Resume")).to_be_visible()

    def _open_schedule(self, button: str) -> None:
        self.go("Ingestion")
        self.part("Schedules")
        self.button(button)

    def _save_schedule(self, name: str) -> None:
        self.write("Name", name)
        self.button("Save schedule")
        expect(self.page.get_by_role("heading", name=name)).to_be_visible()

    def judge_search(self) -> None:
        self.go("Quality")
        self.part("Judge")
        self.write("Question", f"how many sheep can we take on a {self.name}")
        self.button("Relevant")
        self.sees("1 of the documents for this question are judged")

    def see_what_people_ask(self) -> None:
        self.go("Agents")
        self.part("Questions")
        self.button(QUESTIONS[0])
        self.sees("Carrying livestock")

    def see_what_nothing_answered(self) -> None:
        self.go("Agents")
        self.part("Questions")
        self.part("Most asked, not answered")
        self.button(QUESTIONS[1])
        self.sees("Find the missing document")

    def retry_failed_file(self) -> None:
        self.go("Ingestion")
        self.part("Failed")
        self.click(self.page.get_by_role("checkbox", name="torn-phone.pdf"))
        self.button("Retry")
        self.page.wait_for_url("**run=*")

    def find_what_was_done_to_something_deleted(self) -> None:
        self.go("Audit log")
        self.write("Name", "Gone")
        self.sees("deleted document “Gone”")


# A screen needs no more clicks than a phone, where the menu and the filters are behind one more.
CASES = [("phone", name) for name in vars(Jobs) if not name.startswith("_")]
CASES += [("screen", "see_failed_sign_ins")]


def prepare(client: carrel.Carrel) -> None:
    [agent] = client.admin.agents.list()
    source = client.sources.report_source("a" * 24, "/srv/jobs")
    assert source.report_no is not None
    why = {"code": "file_unreadable", "message": "It is torn.", "fingerprint": "1", "since": datetime.now(UTC)}
    client.sources.report_source_items(source.source_id, source.report_no, [{"place": "torn-phone.pdf", **why}])
    client.sources.end_source_report(source.source_id, source.report_no)
    client.admin.evaluation_sets.create("Questions of the jobs")
    people = [{"email": f"{one.lower()}@northlight.example", "name": f"{one} phone"} for one in PEOPLE]
    client.admin.users.upsert(people)
    theirs = {"upload_as_user_email": people[-1]["email"]}
    client.catalog.upload_file(b"To hand over.", document_external_id="left", file_name="a.txt", **theirs)
    gone = client.catalog.upload_file(b"Soon gone.", document_external_id="b", document_name="Gone", file_name="b.txt")
    client.catalog.delete_document(gone.document_id)
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
def hands(stack: Stack, browser: Browser, admins: BrowserContext) -> Iterator[Callable[[str], Jobs]]:
    state = admins.storage_state()
    with ExitStack() as windows:

        def on(size: str) -> Jobs:
            page = windows.enter_context(window(browser, **SIZES[size], storage_state=state))
            return Jobs(page, stack.workbench, size)

        yield cache(on)


@pytest.mark.parametrize(("size", "job"), CASES)
def test_a_job_takes_five_clicks_at_most(hands: Callable[[str], Jobs], size: str, job: str) -> None:
    hand = hands(size)
    hand.clicks = 0
    getattr(hand, job)()
    assert hand.clicks <= MOST, f"{hand.clicks} clicks"


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
