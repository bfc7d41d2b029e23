"""How long a person waits in the workbench: from what they do until they see what comes of it, in Chromium.

Goal: 250 ms (median) for each interaction, with 10,000 documents and lists of a thousand rows and more. The service,
the workbench and the browser are processes of their own, on one machine. Run: `python -m bench.app`; `--documents N`
for fewer.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect, sync_playwright

from bench.report import report
from bench.running import process_of, running_stack, words
from bench.start import free_port
from carrel import Carrel
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.people import sign_in

DOCUMENTS = 10_000
PEOPLE = 1_000
ROUNDS = 15
PASSWORD = "only for this benchmark"  # noqa: S105 - of a service that ends with the benchmark
EMAIL = "ada@bench.example"
PATIENCE_MS = 30_000
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@dataclass(frozen=True)
class Interaction:
    """Something a person does; `prepare` brings them to where they do it, `act` does it, `seen` waits for the sight."""

    name: str
    prepare: Callable[[Page, int], None]
    act: Callable[[Page, int], None]
    seen: Callable[[Page, int], None]

    def milliseconds(self, page: Page, number: int) -> float:
        """Do it, and return how long it took to be seen."""
        self.prepare(page, number)
        began = time.perf_counter()
        self.act(page, number)
        self.seen(page, number)
        return (time.perf_counter() - began) * 1000


def fill(client: Carrel, documents: int) -> None:
    """Load documents, each about its number, and people; wait until all is indexed."""
    people = [{"email": f"person{number}@bench.example", "name": f"Person {number:04}"} for number in range(PEOPLE)]
    client.admin.users.upsert([{"email": EMAIL, "name": "Ada", "isAdmin": True, "password": PASSWORD}, *people[1:]])

    def load(number: int) -> None:
        client.catalog.upload_file(
            f"Ferry{number} {words(40, seed=number)}".encode(),
            document_external_id=f"bench/{number:06}",
            document_name=f"Note {number:06}",
            file_name="note.txt",
            internal_public=True,
        )

    with ThreadPoolExecutor(8) as threads:
        for done, _ in enumerate(threads.map(load, range(documents)), 1):
            if done % 1000 == 0:
                print(f"{done:,} of {documents:,} documents", flush=True)
    while client.admin.status.get().indexing.running:
        time.sleep(1)


@contextmanager
def running_workbench(base_url: str, folder: Path) -> Iterator[str]:
    """Start the workbench before a service whose admin's key is in the environment; yield its address."""
    port = free_port()
    environment = {"CARREL_APP_PORT": str(port), "CARREL_APP_DIR": str(folder / "workbench")}
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{address}/_stcore/health", timeout=2).is_success
        except httpx.TransportError:
            return False

    with process_of("app", answers, log=folder / "app.log", environment=environment | {"CARREL_BASE_URL": base_url}):
        yield address


def interactions(address: str, documents: int) -> list[Interaction]:
    """Return what is measured; numbers make each round ask for something else."""

    def at(path: str, sight: str) -> Callable[[Page, int], None]:
        def go(page: Page, number: int) -> None:
            page.goto(f"{address}/{path.format(number=number)}")
            expect(page.get_by_text(sight).first).to_be_visible(timeout=PATIENCE_MS)
            here(page, number)

        return go

    def type_query(page: Page, number: int) -> None:
        page.get_by_placeholder("What are you looking for?").fill(f"ferry{number * 37 % documents}")
        page.keyboard.press("Enter")

    def sees_result(page: Page, number: int) -> None:
        page.wait_for_url(f"**q=ferry{number * 37 % documents}*", timeout=PATIENCE_MS)
        page.locator("article mark").first.wait_for(timeout=PATIENCE_MS)

    def press(name: str) -> Callable[[Page, int], None]:
        return lambda page, _: page.get_by_role("button", name=name, exact=True).first.click()

    def sees(text: str) -> Callable[[Page, int], None]:
        return lambda page, number: page.get_by_text(text.format(number=number)).first.wait_for(timeout=PATIENCE_MS)

    def here(page: Page, _number: int) -> None:
        page.locator(IDLE).wait_for(timeout=PATIENCE_MS)

    def opens(page: Page, name: str) -> None:
        page.get_by_role("link", name=name, exact=True).click()

    return [
        Interaction("search, words and meaning", here, type_query, sees_result),
        Interaction("page of documents, the next", at("documents", "Page 1"), press("Next"), sees("Page 2")),
        Interaction("page of the audit log, the next", at("audit_log", "Page 1"), press("Next"), sees("Page 2")),
        Interaction(
            "another page of the workbench",
            at("documents", "Page 1"),
            lambda page, _: opens(page, "Collections"),
            sees("Collections"),
        ),
    ]


def measure(page: Page, interaction: Interaction) -> dict[str, object]:
    """Do an interaction some times, the first of which doesn't count; return a row of the report."""
    interaction.milliseconds(page, 0)
    taken = [interaction.milliseconds(page, number) for number in range(1, ROUNDS + 1)]
    return {
        "interaction": interaction.name,
        "median ms": round(statistics.median(taken)),
        "largest ms": round(max(taken)),
        "goal ms": 250,
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    documents: int = parser.parse_args().documents
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_stack(folder / "data", prefect=False) as stack:
            base_url = stack.settings.base_url
            with Carrel(base_url=base_url) as client:
                fill(client, documents)
            with running_workbench(base_url, folder) as address, sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
                page = chromium.new_page(viewport={"width": 1280, "height": 1000})
                sign_in(page, address, email=EMAIL, password=PASSWORD)
                page.get_by_placeholder("What are you looking for?").wait_for(timeout=PATIENCE_MS)
                try:
                    rows = [measure(page, interaction) for interaction in interactions(address, documents)]
                finally:
                    page.screenshot(path=Path(tempfile.gettempdir()) / "bench-app.png")
                chromium.close()
    report("app", rows)


if __name__ == "__main__":
    main()
