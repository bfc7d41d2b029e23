"""What people do in a browser on every page: open a window, sign in to the workbench, press a button."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import Error as PlaywrightError

PATIENCE_MS = 30_000
# How long a press may take until something is seen of it; after that it was lost, and is made once more.
TAKEN_MS = 10_000
# What is there once nothing of the workbench's page is being drawn.
DRAWN = "[data-testid='stApp'][data-test-script-state='notRunning']"


@contextmanager
def window(browser: Browser, **options: Any) -> Generator[Page]:
    """A fresh window, in which nobody is signed in unless the options bring a state; it is closed afterwards."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 1000}} | options))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    try:
        yield page
    finally:
        context.close()


def give_password(page: Page, email: str, password: str) -> None:
    """Fill in the service's sign-in page, and send it."""
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_in(page: Page, url: str, *, email: str, password: str) -> None:
    """Go to a page of the workbench, sign in with the service, and consent unless that was done before."""
    page.goto(url)
    page.get_by_role("link", name="Sign in").click()
    give_password(page, email, password)
    allow = page.get_by_role("button", name="Allow")
    expect(allow.or_(page.get_by_role("link", name="Sign out"))).to_be_visible(timeout=PATIENCE_MS)
    if allow.is_visible():  # asked once: what was allowed before is not asked again
        allow.click()
    expect(page.get_by_role("link", name="Sign out")).to_be_visible(timeout=PATIENCE_MS)


def search(page: Page, url: str, words: str) -> None:
    """Open the search page of the workbench, and ask."""
    page.goto(url)
    page.get_by_placeholder("What are you looking for?").fill(words)
    page.get_by_role("button", name="Search", exact=True).click()


def press(button: Locator, shown: Locator) -> None:
    """Press a button until what it brings is shown: a press is lost while a page is drawn once more."""
    for _ in range(3):
        try:
            button.click(timeout=TAKEN_MS)
            expect(shown).to_be_visible(timeout=TAKEN_MS)
        except (AssertionError, PlaywrightError):
            continue
        return
    expect(shown).to_be_visible()
