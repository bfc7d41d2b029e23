"""What every person does first in a browser: sign in to the workbench."""

from playwright.sync_api import Page, expect

PATIENCE_MS = 30_000


def sign_in(page: Page, url: str, *, email: str, password: str) -> None:
    """Go to a page of the workbench, sign in with the service, and consent unless that was done before."""
    page.goto(url)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    allow = page.get_by_role("button", name="Allow")
    expect(allow.or_(page.get_by_role("link", name="Sign out"))).to_be_visible(timeout=PATIENCE_MS)
    if allow.is_visible():  # asked once: what was allowed before is not asked again
        allow.click()
    expect(page.get_by_role("link", name="Sign out")).to_be_visible(timeout=PATIENCE_MS)
