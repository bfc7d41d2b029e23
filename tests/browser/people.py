"""Actions on every page: open a window, sign in to the workbench, press a button."""

from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.harness.cases import script

PATIENCE_MS = 30_000
# How long a press may take until something is seen of it; after that it was lost, and is made once more.
TAKEN_MS = 10_000
ASKED = "How many sheep may travel on deck?"
# What is there once nothing of the workbench's page is being drawn.
DRAWN = "[data-testid='stApp'][data-test-script-state='notRunning']"
# Lets each page note the time of its last message to the workbench that isn't drawn yet, and of its last drawing.
FOLLOW = script("people_follow.js").replace("DRAWN", f'"{DRAWN}"')
# The last action is drawn, with the elements that come a moment later; or nothing has come of it for half a second.
SETTLED = f"""() => document.querySelector("{DRAWN}")
    && performance.now() > (window.told ? window.told + 500 : window.drawn + 100)"""

# The ring around the element that has the focus, or around its row, label or field, if it is not seen itself.
_FIELD = "label, tr, .react-aria-ComboBox [role=group]:has(input:focus)"
RING = f"(at => parseInt(getComputedStyle(at.closest('{_FIELD}') ?? at).outlineWidth) > 1)(document.activeElement)"
# Whether it is drawn, also around the box of a field, which would clip the field's own.
_BOX = f"{_FIELD}, [data-testid=stTextInputRootElement], [data-testid=stNumberInputContainer]"
SEEN = f"""(at => at.outlineStyle !== "none" && parseInt(at.outlineWidth) > 1)(getComputedStyle(
    document.activeElement.matches("input") && document.activeElement.closest("{_BOX}") || document.activeElement))"""


@contextmanager
def window(browser: Browser, **options) -> Generator[Page]:
    """A fresh window without a session, unless the options bring a state; closed afterwards."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 1000}} | options))
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


@contextmanager
def page_in(context: BrowserContext) -> Generator[Page]:
    before = context.pages
    try:
        yield context.new_page()
    finally:
        for page in context.pages:
            if page not in before:
                page.close()


def give_password(page: Page, email: str, password: str) -> None:
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_in(page: Page, url: str, *, email: str, password: str) -> None:
    page.goto(url)
    page.get_by_role("link", name="Sign in").click()
    give_password(page, email, password)
    allow = page.get_by_role("button", name="Allow")
    expect(allow.or_(page.get_by_role("link", name="Sign out"))).to_be_visible(timeout=PATIENCE_MS)
    if allow.is_visible():  # asked once: what was allowed before is not asked again
        allow.click()
    expect(page.get_by_role("link", name="Sign out")).to_be_visible(timeout=PATIENCE_MS)


def search(page: Page, url: str, words: str) -> None:
    page.goto(url)
    page.get_by_placeholder("What are you looking for?").fill(words)
    page.get_by_role("button", name="Search", exact=True).click()


def press(button: Locator, shown: Locator) -> None:
    """Press a button until its result is shown: a press is lost while a page is redrawn."""
    for _ in range(3):
        try:
            button.click(timeout=TAKEN_MS)
            expect(shown).to_be_visible(timeout=TAKEN_MS)
        except (AssertionError, PlaywrightError):
            continue
        return
    expect(shown).to_be_visible()


def choose_row(page: Page, number: int = 0) -> None:
    page.locator(".carrel-row").nth(number).click()


def ask(page: Page) -> Locator:
    page.get_by_placeholder("Your message").fill(ASKED)
    page.keyboard.press("Enter")
    source = page.get_by_role("link", name="Open document").first
    expect(source).to_be_visible(timeout=60_000)
    return source
