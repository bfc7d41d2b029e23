"""Chromiumand the whole stack."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.people import PATIENCE_MS, page_in, sign_in, window
from tests.harness.services import RunningService, ServiceHarness
from tests.harness.stack import ADMIN, PASSWORD, Stack
from tests.harness.workbench import Workbench

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without these Chromium looks for updates and for its maker's hosts at every start, and pages for fonts elsewhere.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


def chromium_path() -> str:
    """Return the path of Chromium; without it, fail under CI=true, and otherwise skip with instructions."""
    found = os.environ.get("CARREL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    message = "No Chromium found: install it (Debian: apt-get install chromium) or set CARREL_CHROMIUM to its path."
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A single Chromium: Playwright's event loop occupies this thread."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        chromium = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def visitors(browser: Browser) -> Iterator[BrowserContext]:
    with window(browser) as page:
        yield page.context


@pytest.fixture
def visitor(visitors: BrowserContext) -> Iterator[Page]:
    visitors.clear_cookies()
    with page_in(visitors) as page:
        yield page


@pytest.fixture
def page(visitor: Page) -> Page:
    return visitor


@pytest.fixture(scope="package")
def service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running() as service:
        yield service


@pytest.fixture(scope="package")
def workbench(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A workbench for all modules; modules don't change foreign people and documents."""
    workbench = Workbench(service, tmp_path_factory.mktemp("workbench"))
    try:
        yield workbench.start()
    finally:
        workbench.stop()


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """Everything started by `make up`, with the sample organization, for tests without changes."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-test-stack-"))
    folder.chmod(0o755)
    stack = Stack(folder)
    try:
        stack.start()
        yield stack
    finally:
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def admins(stack: Stack, browser: Browser) -> Iterator[BrowserContext]:
    with window(browser) as page:
        sign_in(page, stack.workbench, email=ADMIN, password=PASSWORD)
        page.close()
        yield page.context
