"""What people do in a browser on every page: sign in to the workbench, press a button."""

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, expect

PATIENCE_MS = 30_000
# How long a press may take until something is seen of it; after that it was lost, and is made once more.
TAKEN_MS = 10_000


def sign_in(page: Page, url: str, *, email: str, password: str) -> None:
    """Go to a page of the workbench, sign in with the service, and consent unless that was done before."""
    page.goto(url)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    allow = page.get_by_role("button", name="Allow")
    expect(allow.or_(page.get_by_role("link", name="Sign out"))).to_be_visible(timeout=PATIENCE_MS)
    if allow.is_visible():  # asked once: what was allowed before is not asked again
        allow.click()
    expect(page.get_by_role("link", name="Sign out")).to_be_visible(timeout=PATIENCE_MS)


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
