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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
TABLE = '[data-testid="stDataFrame"]'
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


def pages_from(address: str, *, name: str) -> Interaction:
    """Return the way from each page of a list to the next."""
    return Interaction(
        name, at(address, "Page 1"), press("Next"), lambda number: Sight(CAPTION, rf"^Page {number + 2}\b")
    )


def interactions(address: str, answers: Mapping[str, str]) -> list[Interaction]:
    """Return what is measured; `answers` are questions with the external ids of what they find first."""
    questions = list(answers)

    def type_query(page: Page, number: int) -> None:
        page.get_by_placeholder("What are you looking for?").fill(questions[number])
        page.keyboard.press("Enter")

    def choose_row(page: Page, number: int) -> None:
        page.locator(TABLE).first.click(position={"x": 20, "y": 52 + 35 * (number % 6)})

    def back(page: Page) -> None:
        page.get_by_role("button", name="All documents").click()
        page.get_by_text("Choose a row").wait_for(timeout=PATIENCE_MS)
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)

    def open_other(page: Page, number: int) -> None:
        page.get_by_role("link", name=("Collections", "Documents")[number % 2], exact=True).click()

    wide = f"{address}/what_can_they_read?who=user:{EMAIL}"
    return [
        Interaction(
            "search, words and meaning",
            at(f"{address}/search", "Ask in your own words"),
            type_query,
            lambda number: Sight("article .carrel-facts", rf"^{re.escape(answers[questions[number]])}\b"),
        ),
        pages_from(f"{address}/documents", name="page of documents, the next"),
        Interaction(
            "a document of the list",
            at(f"{address}/documents", "Page 1"),
            choose_row,
            lambda _: Sight("h2.carrel-name", "."),
            back,
        ),
        pages_from(f"{address}/audit_log", name="page of the audit log, the next"),
        pages_from(wide, name="page of what somebody can read, the next"),
        Interaction(
            "another page of the workbench",
            at(f"{address}/documents", "Page 1"),
            open_other,
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
                    measured = [measure(page, one, processes) for one in interactions(address, answers)]
                finally:
                    page.screenshot(path=Path(tempfile.gettempdir()) / "bench-app.png")
                chromium.close()
    report("app", [one.row(bare) for one in (bare, *measured)])


if __name__ == "__main__":
    main()
