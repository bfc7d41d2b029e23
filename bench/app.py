"""How long a person waits in the workbench: from what they press until they see what comes of it, in Chromium.

Goals (medians): 250 ms for each interaction, 1.5 s for the first page, with 10,000 documents, a thousand people and a
hundred runs. The service, Prefect, the workbench and the browser are processes of their own, on one machine. The first
row is a page without any request (`bench/bare_page.py`): the time that Streamlit and the browser take here in any case;
`/ bare` is the ratio to it. The table also has the requests to the service, their time by the service's log, and the
processor time of each process. `asked` counts the requests of all rounds by operation.

Run: `python -m bench.app`; `--documents N` for fewer (at least 1,000), `--rounds N`, `--only PART` of a name.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx
import psutil
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from bench.holdings import EMAIL, fill
from bench.report import report
from bench.running import process_of, run_stack
from bench.start import free_port
from carrel import Carrel
from flows.operations.summary import Summary
from tests.app.prefect_api import PrefectServer
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.people import press as press_until
from tests.browser.people import sign_in

DOCUMENTS = 10_000
ROUNDS = 15
RUNS = 100
GOAL_MS, FIRST_GOAL_MS = 250, 1500
PROCESSES = ("browser", "workbench", "service", "database")
PASSWORD = "only for this benchmark"  # noqa: S105 - of a service that ends with the benchmark
PATIENCE_MS = 30_000
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
ROW = ".carrel-row"
FIRST = ".carrel-rows tbody tr:first-child"
PALETTE = "dialog.carrel-palette[open]"
BUTTON = '[data-testid="stButton"] button'
GROUP = '[data-testid="stButtonGroup"]'
NAME, PREVIEW = "h2.carrel-name", ".carrel-preview h2"
CAPTION = '[data-testid="stCaptionContainer"]'

# From the last press or key, or from the beginning of a page, to the frame after the frame with the awaited element, by
# the browser's clock.
_WATCH = """
([selector, pattern, patience, start]) => {
    const wanted = new RegExp(pattern);
    window.seen = new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`${pattern} was not seen`)), patience);
        let began = start ?? undefined;
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
    """An action that a person repeats: `begin` opens its page once, `back` follows each time. `sight` is the result of
    the first, second, … time, counted from 0. An action that `opens` a page counts from the page's beginning."""

    name: str
    begin: Callable[[Page], None]
    act: Callable[[Page, int], None]
    sight: Callable[[int], Sight]
    back: Callable[[Page], None] = lambda _page: None
    opens: bool = False

    @property
    def goal(self) -> int:
        """Return the most milliseconds of the median."""
        return FIRST_GOAL_MS if self.opens else GOAL_MS

    def milliseconds(self, page: Page, number: int) -> float:
        """Do it, and return how long it took to be seen."""
        wanted = self.sight(number)
        watched = [wanted.selector, wanted.pattern, PATIENCE_MS, 0 if self.opens else None]
        if not self.opens:
            page.evaluate(_WATCH, watched)
        self.act(page, number)
        if self.opens:
            page.evaluate(_WATCH, watched)
        taken = cast("float", page.evaluate("window.seen"))
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)
        self.back(page)
        return taken


@dataclass(frozen=True)
class Measured:
    """The times of an interaction in milliseconds, and per time the processor time of each process, by its name, and
    the service's milliseconds for each request, by operation."""

    interaction: Interaction
    taken: Sequence[float]
    cpu: dict[str, float]
    asked: Sequence[tuple[str, float]]

    def row(self, bare: "Measured") -> dict[str, object]:
        """Return it as a row of the report."""
        median, rounds = statistics.median(self.taken), len(self.taken)
        return {
            "interaction": self.interaction.name,
            "median ms": round(median),
            "largest ms": round(max(self.taken)),
            "/ goal": round(median / self.interaction.goal, 2),
            "/ bare": round(median / statistics.median(bare.taken), 2),
            "requests": round(len(self.asked) / rounds, 1),
            "requests, ms": round(sum(taken for _, taken in self.asked) / rounds),
            **{f"{name}, cpu ms": round(self.cpu.get(name, 0.0)) for name in PROCESSES},
            "asked": dict(Counter(name for name, _ in self.asked).most_common()),
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
        press_until(page.get_by_role("button", name=back), page.locator(ROW).first)
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)

    begin = after(at(address, ""), lambda page: page.locator(ROW).first.wait_for(timeout=PATIENCE_MS))
    return Interaction(name, begin, act, lambda _: Sight(NAME, "."), to_list)


def by_part(address: str, field: str, *, name: str, part: Callable[[int], str]) -> Interaction:
    """Return the way to rows of a list by a part of their names."""
    begin, act = at(address, "Page 1"), enter(field, part)
    return Interaction(name, begin, act, lambda number: Sight(FIRST, re.escape(part(number))))


def chosen_in(
    begin: Callable[[Page], None], field: str, options: Sequence[str], *, name: str, first: Sequence[str]
) -> Interaction:
    """Return the way to another list by options of a field in turn; `first` is in the first row."""
    return Interaction(name, begin, choose(field, *options), lambda number: Sight(FIRST, first[number % len(first)]))


def wait_until_quiet(page: Page) -> None:
    """Wait until the page has taken an action, and all is quiet."""
    page.wait_for_timeout(300)
    page.locator(IDLE).wait_for(timeout=PATIENCE_MS)


def after(begin: Callable[[Page], None], *acts: Callable[[Page], object]) -> Callable[[Page], None]:
    """Return `begin`, followed by more acts."""

    def go(page: Page) -> None:
        begin(page)
        for act in acts:
            act(page)
        wait_until_quiet(page)

    return go


def press_now(name: str) -> Callable[[Page], None]:
    """Return what presses a button, and waits until all is quiet."""

    def act(page: Page) -> None:
        press(name)(page, 0)
        wait_until_quiet(page)

    return act


def interactions(address: str, questions: Sequence[str]) -> list[Interaction]:
    """Return the measured interactions; each question finds documents that contain its words."""
    documents, people = at(f"{address}/documents", "Page 1"), f"{address}/people"
    wide = f"{address}/what_can_they_read?who=user:{EMAIL}"
    names: list[str] = []
    found = after(
        at(f"{address}/search?q={questions[0].replace(' ', '+')}", "Counted in the"),
        lambda page: page.locator(PREVIEW).wait_for(timeout=PATIENCE_MS),
    )
    several = after(documents, lambda page: page.get_by_text("Select several").click(), _wait_for_boxes)
    listening = after(documents, _wait_for("button.carrel-palette-button"))
    return [
        Interaction(
            "the first page",
            at(f"{address}/search", "Today"),
            lambda page, _: page.goto(f"{address}/search", wait_until="commit") and None,
            lambda _: Sight(".carrel-card", "New access.*[^…]$"),
            opens=True,
        ),
        Interaction(
            "search, words and meaning",
            at(f"{address}/search", "Enter a question"),
            _type_query(questions),
            lambda number: Sight("article mark", rf"^{questions[number].split()[0]}$"),
        ),
        Interaction(
            "search, a facet",
            found,
            lambda page, _: page.locator(GROUP).get_by_text("Collection 00").click(),
            lambda _: Sight('[data-testid="stMultiSelect"]', 'in:"Collection 00"'),
            found,
        ),
        Interaction(
            "search, the preview of a result",
            after(
                found,
                lambda page: page.get_by_text("Less relevant").first.click(),
                lambda page: names.extend(page.locator("article h2 a").all_inner_texts()),
            ),
            lambda page, number: page.locator("article .carrel-previews").nth((number + 1) % 2).click(),
            lambda number: Sight(PREVIEW, f"^{re.escape(names[(number + 1) % 2])}$"),
        ),
        pages_from(f"{address}/documents", name="page of documents, the next"),
        chosen_in(
            documents,
            "Order",
            ("Oldest first", "Order: Newest first"),
            name="documents in another order",
            first=("hours? ago|yesterday|days? ago", "now|minutes? ago"),
        ),
        chosen_in(documents, "Order", ("Name, Z to A", "Name, A to Z"), name="documents by name", first=("w9", "w0")),
        chosen_in(documents, "Type", ("Web page", "Text"), name="documents of a type", first=("Web page|HTML", "Text")),
        chosen_in(
            after(documents, press_now("More filters")),
            "Collection",
            ("Collection 01", "Collection 02"),
            name="documents of a collection",
            first=("w1 w7", "w2 w14"),
        ),
        by_part(
            f"{address}/documents",
            "Name",
            name="documents by a part of the name",
            part=lambda number: f"w{500 + number} w",
        ),
        Interaction(
            "the preview of a document",
            after(documents, lambda page: page.locator(ROW).first.focus()),
            lambda page, number: page.keyboard.press(("ArrowDown", "ArrowUp")[number % 2]),  # a pointer comes from afar
            lambda number: Sight(PREVIEW, ("^w1 w7$", "^w0 w0$")[number % 2]),
        ),
        Interaction(
            "all documents of the page selected",
            several,
            lambda page, _: page.get_by_label("Choose all rows").click(),
            lambda _: Sight(BUTTON, "^.*Select all [0-9,]+ that match$"),
            _choose_all,
        ),
        Interaction(
            "all documents that match selected",
            after(several, _choose_all),
            lambda page, _: page.get_by_role("button", name=re.compile("^Select all .* match")).click(),
            lambda _: Sight(BUTTON, "Clear the selection$"),
            after(press_now("Clear the selection"), _choose_all),
        ),
        opened_from(f"{address}/documents", name="a document of the list", back="All documents"),
        Interaction(
            "another part of a document",
            after(documents, lambda page: page.locator(ROW).first.click(), _wait_for(NAME)),
            lambda page, number: page.get_by_text(("Access", "About")[number % 2], exact=True).click(),
            lambda number: (Sight(".carrel-text", "^Owner:"), Sight("h3", "^Where it is searchable"))[number % 2],
        ),
        by_part(people, "Find", name="people by a part of the name", part=lambda number: f"Person 01{number:02}"),
        opened_from(people, name="a person of the list", back="All people"),
        opened_from(f"{address}/groups", name="a group of the list", back="All groups"),
        opened_from(f"{address}/collections", name="a collection of the list", back="All collections"),
        pages_from(f"{address}/audit_log", name="page of the audit log, the next"),
        pages_from(wide, name="page of what somebody can read, the next"),
        chosen_in(
            at(f"{address}/ingestion?part=runs", "Page 1"),
            "State",
            ("Failed or stopped", "Done"),
            name="runs in another state",
            first=("Failed", "Done"),
        ),
        opened_from(f"{address}/ingestion?part=runs", name="a run of the list", back="All runs"),
        Interaction("the palette", listening, _open_palette, lambda _: Sight(PALETTE, "."), _close_palette),
        Interaction(
            "a name in the palette",
            after(listening, lambda page: page.keyboard.press("Control+k")),
            lambda page, number: page.get_by_role("combobox", name="Page, action").press_sequentially(
                f"person 01{number:02}"
            ),
            lambda number: Sight(f"{PALETTE} [role=option]", f"Person 01{number:02}"),
            after(_close_palette, lambda page: page.keyboard.press("Control+k")),
        ),
        Interaction(
            "another page of the workbench",
            documents,
            follow("Collections", "Documents"),
            lambda number: Sight("h1", ("^Collections", "^Documents")[number % 2]),
        ),
    ]


def _type_query(questions: Sequence[str]) -> Callable[[Page, int], None]:
    def act(page: Page, number: int) -> None:
        page.get_by_placeholder("What are you looking for?").fill(questions[number])
        page.keyboard.press("Enter")

    return act


def _choose_all(page: Page) -> None:
    page.get_by_label("Choose all rows").click()
    wait_until_quiet(page)


def _wait_for(selector: str) -> Callable[[Page], None]:
    return lambda page: page.locator(selector).first.wait_for(timeout=PATIENCE_MS)


_wait_for_boxes = _wait_for("thead input")


def _open_palette(page: Page, _: int) -> None:
    page.keyboard.press("Control+k")


def _close_palette(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator(PALETTE).wait_for(state="hidden", timeout=PATIENCE_MS)


def measure(page: Page, interaction: Interaction, processes: dict[str, int], log: Path, rounds: int) -> Measured:
    """Repeat an interaction; the first time doesn't count."""
    print(interaction.name, flush=True)
    interaction.begin(page)
    page.wait_for_timeout(1000)  # the page has loaded everything that it loads when it is idle
    interaction.milliseconds(page, 0)
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, start = cpu_milliseconds(browser, processes), log.stat().st_size
    taken = [interaction.milliseconds(page, number) for number in range(1, rounds + 1)]
    after = cpu_milliseconds(browser, processes)
    browser.detach()
    cpu = {name: (after[name] - before[name]) / rounds for name in after}
    return Measured(interaction, taken, cpu, requests_in(log, start))


def measure_surely(page: Page, interaction: Interaction, processes: dict[str, int], log: Path, rounds: int) -> Measured:
    """Measure an interaction, from its beginning again if a press was lost while the page was redrawn."""
    for _ in range(2):
        with suppress(PlaywrightError, AssertionError):
            return measure(page, interaction, processes, log, rounds)
        print("  again", flush=True)
    return measure(page, interaction, processes, log, rounds)


def requests_in(log: Path, start: int) -> list[tuple[str, float]]:
    """Return each request in the service's log after a place, as the operation and the milliseconds."""
    lines = (json.loads(line) for line in log.read_bytes()[start:].splitlines() if line.startswith(b"{"))
    asked = [line for line in lines if line.get("event") == "request"]
    return [(line["route"].rpartition("/api/")[2], line["milliseconds"]) for line in asked]


def fill_runs(prefect: PrefectServer) -> None:
    """Make runs of uploads, ten failed, the others done, with their counts."""
    deployment = prefect.deploy()
    for number in range(RUNS):
        run = prefect.start(deployment, {"source": f"/srv/team {number:02}"})
        prefect.tell(run, Summary(documents=20, created=20), phase="done")
        prefect.move(run, "RUNNING")
        prefect.move(run, "COMPLETED" if number % 10 else "FAILED")


def cpu_milliseconds(browser: CDPSession, processes: dict[str, int]) -> dict[str, float]:
    """Return the processor time that processes with their children, and a page's thread in the browser, have used."""
    used: dict[str, float] = {}
    for name, pid in processes.items():
        parent = psutil.Process(pid)
        times = [each.cpu_times() for each in (parent, *parent.children(recursive=True))]
        used[name] = sum(each.user + each.system for each in times) * 1000
    metrics = {each["name"]: each["value"] for each in browser.send("Performance.getMetrics")["metrics"]}
    return used | {"browser": metrics["TaskDuration"] * 1000}


def measure_bare(chromium: Browser, folder: Path, rounds: int) -> Measured:
    """Measure the page without requests."""
    with run_bare_page(folder) as address:
        page = window(chromium)
        measured = measure(page, pages_from(address, name="a page without requests"), {}, folder / "bare.log", rounds)
        page.close()
        return measured


def window(chromium: Browser) -> Page:
    """Open a window of the size of a laptop's, in which a list has a preview beside it."""
    page = chromium.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    return page


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="a part of the names of the interactions to measure")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with run_stack(folder / "data", prefect=True) as stack:
            base_url = stack.settings.base_url
            with Carrel(base_url=base_url) as client:
                answers = fill(client, folder / "data", documents=asked.documents, password=PASSWORD)
            fill_runs(PrefectServer(os.environ["PREFECT_API_URL"]))
            with run_workbench(base_url, folder) as (address, workbench), sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
                bare = measure_bare(chromium, folder, asked.rounds)
                page = window(chromium)
                sign_in(page, address, email=EMAIL, password=PASSWORD)
                processes = {"workbench": workbench, "service": stack.service.pid, "database": stack.database_pid()}
                log = folder / "data" / "service.log"
                chosen = [each for each in interactions(address, list(answers)) if asked.only in each.name]
                try:
                    measured = [measure_surely(page, each, processes, log, asked.rounds) for each in chosen]
                finally:
                    page.screenshot(path=Path(tempfile.gettempdir()) / "bench-app.png")
                chromium.close()
    report("app", [each.row(bare) for each in (bare, *measured)], keep=not asked.only)


if __name__ == "__main__":
    main()
