"""Chromium, and the whole stack behind it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.people import PATIENCE_MS
from tests.harness.stack import Stack

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without these Chromium looks for updates and for its maker's hosts at every start.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_path() -> str:
    """Where Chromium is; under CI=true its absence fails, elsewhere it skips and says how to get it."""
    found = os.environ.get("CARREL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    message = "No Chromium found: install it (Debian: apt-get install chromium) or set CARREL_CHROMIUM to its path."
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium a module: while Playwright is open, its event loop runs in this thread and no other can."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        chromium = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh window."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Everything `make up` starts, with the sample organization loaded."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-test-stack-"))
    folder.chmod(0o755)
    stack = Stack(folder)
    try:
        stack.start()
        yield stack
    finally:
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)
