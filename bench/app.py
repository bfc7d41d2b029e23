"""How long a person waits in the workbench: from what they press until they see what comes of it, in Chromium.

Goal: 250 ms (median) for each interaction, with 10,000 documents and lists of a thousand rows and more. The service,
the workbench and the browser are processes of their own, on one machine. The first row is a page that asks nobody for
anything (`bench/bare_page.py`): what Streamlit and the browser take here anyway; `/ bare` is how often that others
take. Beside the clock stands the processor time of the workbench and the service.

Run: `python -m bench.app`; `--documents N` for fewer.
"""

import argparse
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx
import psutil
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from bench.holdings import EMAIL, fill
from bench.report import report
from bench.running import process_of, run_stack
from bench.start import free_port
from carrel import Carrel
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.people import sign_in

DOCUMENTS = 10_000
ROUNDS = 15
GOAL_MS = 250
PROCESSES = ("browser", "workbench", "service", "database")
PASSWORD = "only for this benchmark"  # noqa: S105 - of a service that ends with the benchmark
PATIENCE_MS = 30_000
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
ROW = ".carrel-row"
FIRST = ".carrel-rows tbody tr:first-child"
PALETTE = "dialog.carrel-palette[open]"
CAPTION = '[data-testid="stCaptionContainer"]'

# From the last press or key to the frame after the one in which what is looked for is there, by the browser's clock.
_WATCH = """
([selector, pattern, patience]) => {
    const wanted = new RegExp(pattern);
    window.seen = new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`${pattern} was not seen`)), patience);
        let began;
        const note = event => { began = event.timeStamp; };
        addEventListener('pointerdown', note, true);
        addEventListener('keydown', note, true);
        const look = () => {
            const found = began !== undefined && [...document.querySelectorAll(selector)]
                .some(one => wanted.test(one.textContent) && one.checkVisibility());
            requestAnimationFrame(found ? () => setTimeout(() => resolve(performance.now() - began)) : look);
        };
        look();
    });
}
"""


@dataclass(frozen=True)
class Sight:
    """What a person sees in the end: an element whose text fits a pattern."""

    selector: str
    pattern: str


@dataclass(frozen=True)
class Interaction:
    """Something a person does, again and again: `begin` brings them there once, and `back` after each time.

    `sight` is what they see when they have done it the first, second, … time, counted from 0.
    """

    name: str
    begin: Callable[[Page], None]
    act: Callable[[Page, int], None]
    sight: Callable[[int], Sight]
    back: Callable[[Page], None] = lambda _page: None

    def milliseconds(self, page: Page, number: int) -> float:
        """Do it, and return how long it took to be seen."""
        wanted = self.sight(number)
        page.evaluate(_WATCH, [wanted.selector, wanted.pattern, PATIENCE_MS])
        self.act(page, number)
        taken = cast("float", page.evaluate("window.seen"))
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)
        self.back(page)
        return taken


@dataclass(frozen=True)
class Measured:
    """The times of an interaction in milliseconds, and the processor time a time of each process, by its name."""

    name: str
    taken: Sequence[float]
    cpu: dict[str, float]

    def row(self, bare: "Measured") -> dict[str, object]:
        """Return it as a row of the report."""
        median = statistics.median(self.taken)
        return {
            "interaction": self.name,
            "median ms": round(median),
            "largest ms": round(max(self.taken)),
            "/ goal": round(median / GOAL_MS, 2),
            "/ bare": round(median / statistics.median(bare.taken), 2),
            **{f"{name}, cpu ms": round(self.cpu.get(name, 0.0)) for name in PROCESSES},
        }


@contextmanager
def run_workbench(base_url: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Start the workbench before a service whose admin's key is in the environment; yield its address and process."""
    port = free_port()
    environment = {"CARREL_APP_PORT": str(port), "CARREL_APP_DIR": str(folder / "workbench")}
    address = f"http://127.0.0.1:{port}"
    with process_of(
        "app", _serves(address), log=folder / "app.log", environment=environment | {"CARREL_BASE_URL": base_url}
    ) as process:
        yield address, process.pid


@contextmanager
def run_bare_page(folder: Path) -> Iterator[str]:
    """Serve `bench/bare_page.py`; yield its address."""
    port = free_port()
    options = {"server.port": port, "server.address": "127.0.0.1", "server.headless": "true"}
    options |= {"server.fileWatcherType": "none", "browser.gatherUsageStats": "false"}
    arguments = [
        str(Path(__file__).with_name("bare_page.py")),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    address = f"http://127.0.0.1:{port}"
    with process_of("streamlit", _serves(address), log=folder / "bare.log", arguments=["run", *arguments]):
        yield address


def _serves(address: str) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            return httpx.get(f"{address}/_stcore/health", timeout=2).is_success
        except httpx.TransportError:
            return False

    return answers


def at(address: str, sight: str) -> Callable[[Page], None]:
    """Return what opens an address, and waits until a text is there and all is quiet."""

    def go(page: Page) -> None:
        page.goto(address)
        expect(page.get_by_text(sight).first).to_be_visible(timeout=PATIENCE_MS)
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)

    return go


def press(name: str) -> Callable[[Page, int], None]:
    """Return what presses a button."""
    return lambda page, _: page.get_by_role("button", name=name, exact=True).first.click()


def follow(*names: str) -> Callable[[Page, int], None]:
    """Return a way to follow links of the menu in turn."""
    return lambda page, number: page.get_by_role("link", name=names[number % len(names)], exact=True).first.click()


def choose(field: str, *options: str) -> Callable[[Page, int], None]:
    """Return a way to choose options of a field in turn."""

    def act(page: Page, number: int) -> None:
        page.get_by_role("combobox", name=field).click()
        page.get_by_role("option", name=options[number % len(options)], exact=True).click()

    return act


def enter(field: str, text: Callable[[int], str]) -> Callable[[Page, int], None]:
    """Return a way to fill a field and press Enter."""

    def act(page: Page, number: int) -> None:
        page.get_by_label(field, exact=True).first.fill(text(number))
        page.keyboard.press("Enter")

    return act


def pages_from(address: str, *, name: str) -> Interaction:
    """Return the way from each page of a list to the next."""
    return Interaction(
        name, at(address, "Page 1"), press("Next"), lambda number: Sight(CAPTION, rf"^Page {number + 2}\b")
    )


def opened_from(address: str, *, name: str, back: str) -> Interaction:
    """Return the way from the rows of a list to their pages."""

    def act(page: Page, number: int) -> None:
        page.locator(ROW).nth(number % 6).click()

    def to_list(page: Page) -> None:
        page.get_by_role("button", name=back).click()
        page.locator(ROW).first.wait_for(timeout=PATIENCE_MS)
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)

    return Interaction(name, at(address, "Page 1"), act, lambda _: Sight("h2.carrel-name", "."), to_list)


def by_part(address: str, field: str, *, name: str, part: Callable[[int], str]) -> Interaction:
    """Return the way to rows of a list by a part of their names."""
    begin, act = at(address, "Page 1"), enter(field, part)
    return Interaction(name, begin, act, lambda number: Sight(FIRST, re.escape(part(number))))


def interactions(address: str, questions: Sequence[str]) -> list[Interaction]:
    """Return what is measured; each question finds documents that contain its words."""

    def type_query(page: Page, number: int) -> None:
        page.get_by_placeholder("What are you looking for?").fill(questions[number])
        page.keyboard.press("Enter")

    def open_palette(page: Page, _: int) -> None:
        page.keyboard.press("Control+k")

    def type_name(page: Page, number: int) -> None:
        page.get_by_role("combobox", name="Page, action").press_sequentially(f"person 01{number:02}")

    def close_palette(page: Page) -> None:
        page.keyboard.press("Escape")
        page.locator(PALETTE).wait_for(state="hidden", timeout=PATIENCE_MS)

    def reopen_palette(page: Page) -> None:
        close_palette(page)
        page.keyboard.press("Control+k")

    def palette(page: Page) -> None:
        at(f"{address}/documents", "Page 1")(page)
        page.keyboard.press("Control+k")

    documents, people = f"{address}/documents", f"{address}/people"
    wide = f"{address}/what_can_they_read?who=user:{EMAIL}"
    orders, dates = ("Oldest first", "Order: Newest first"), ("hours? ago|yesterday|days? ago", "now|minutes? ago")
    return [
        Interaction(
            "search, words and meaning",
            at(f"{address}/search", "Enter a question"),
            type_query,
            lambda number: Sight("article mark", rf"^{questions[number].split()[0]}$"),
        ),
        pages_from(documents, name="page of documents, the next"),
        Interaction(
            "documents in another order",
            at(documents, "Page 1"),
            choose("Order", *orders),
            lambda number: Sight(FIRST, dates[number % 2]),
        ),
        by_part(documents, "Name", name="documents by a part of the name", part=lambda number: f"w{500 + number} w"),
        opened_from(documents, name="a document of the list", back="All documents"),
        by_part(people, "Find", name="people by a part of the name", part=lambda number: f"Person 01{number:02}"),
        opened_from(people, name="a person of the list", back="All people"),
        opened_from(f"{address}/groups", name="a group of the list", back="All groups"),
        Interaction(
            "a collection of the list",
            at(f"{address}/collections", "Collection 00"),
            lambda page, number: page.locator(ROW).nth(number % 6).click(),
            lambda _: Sight("h2.carrel-name", "."),
            lambda page: page.get_by_role("button", name="All collections").click(),
        ),
        pages_from(f"{address}/audit_log", name="page of the audit log, the next"),
        pages_from(wide, name="page of what somebody can read, the next"),
        Interaction("the palette", at(documents, "Page 1"), open_palette, lambda _: Sight(PALETTE, "."), close_palette),
        Interaction(
            "a name in the palette",
            palette,
            type_name,
            lambda number: Sight(f"{PALETTE} [role=option]", f"Person 01{number:02}"),
            reopen_palette,
        ),
        Interaction(
            "another page of the workbench",
            at(documents, "Page 1"),
            follow("Collections", "Documents"),
            lambda number: Sight("h1", ("^Collections", "^Documents")[number % 2]),
        ),
    ]


def measure(page: Page, interaction: Interaction, processes: dict[str, int]) -> Measured:
    """Do an interaction some times, the first of which doesn't count."""
    interaction.begin(page)
    page.wait_for_timeout(1000)  # what a page loads when it is idle is loaded
    interaction.milliseconds(page, 0)
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = cpu_milliseconds(browser, processes)
    taken = [interaction.milliseconds(page, number) for number in range(1, ROUNDS + 1)]
    after = cpu_milliseconds(browser, processes)
    browser.detach()
    return Measured(interaction.name, taken, {name: (after[name] - before[name]) / ROUNDS for name in after})


def cpu_milliseconds(browser: CDPSession, processes: dict[str, int]) -> dict[str, float]:
    """Return the processor time that processes with their children, and a page's thread in the browser, have used."""
    used: dict[str, float] = {}
    for name, pid in processes.items():
        parent = psutil.Process(pid)
        times = [each.cpu_times() for each in (parent, *parent.children(recursive=True))]
        used[name] = sum(each.user + each.system for each in times) * 1000
    metrics = {each["name"]: each["value"] for each in browser.send("Performance.getMetrics")["metrics"]}
    return used | {"browser": metrics["TaskDuration"] * 1000}


def measure_bare(chromium: Browser, folder: Path) -> Measured:
    """Measure the page that asks nobody for anything."""
    with run_bare_page(folder) as address:
        page = window(chromium)
        measured = measure(page, pages_from(address, name="a page that asks nobody"), {})
        page.close()
        return measured


def window(chromium: Browser) -> Page:
    """Open a window of the size of a small laptop's."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    return page


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    documents: int = parser.parse_args().documents
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with run_stack(folder / "data", prefect=False) as stack:
            base_url = stack.settings.base_url
            with Carrel(base_url=base_url) as client:
                answers = fill(client, folder / "data", documents=documents, password=PASSWORD)
            with run_workbench(base_url, folder) as (address, workbench), sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
                bare = measure_bare(chromium, folder)
                page = window(chromium)
                sign_in(page, address, email=EMAIL, password=PASSWORD)
                processes = {"workbench": workbench, "service": stack.service.pid, "database": stack.database_pid()}
                try:
                    measured = [measure(page, one, processes) for one in interactions(address, list(answers))]
                finally:
                    page.screenshot(path=Path(tempfile.gettempdir()) / "bench-app.png")
                chromium.close()
    report("app", [one.row(bare) for one in (bare, *measured)])


if __name__ == "__main__":
    main()
