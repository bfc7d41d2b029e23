"""Accessibility faults found by axe-core."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AT_ONCE = "style => document.head.append(Object.assign(document.createElement('style'), {textContent: style}))"
_THEME = "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"
_HAS_THEME = """theme => getComputedStyle(document.querySelector("[data-testid=stApp]")).colorScheme === theme
    && !document.getAnimations().some(one => one instanceof CSSTransition)
    && !document.querySelector("[data-stale=true]")"""
_OTHER = {"light": "dark", "dark": "light"}


def findings(page: Page, *, within: str = "") -> list[str]:
    """Return the faults found by axe in the present theme, and colour faults in the other theme."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
        page.evaluate(_AT_ONCE, "* { transition: none !important }")
    present, found = page.evaluate(_THEME), list[str]()
    rules: tuple[dict, ...] = ({}, {"runOnly": ["color-contrast"]})
    for theme, chosen in zip((present, _OTHER[present]), rules, strict=True):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(_HAS_THEME, arg=theme)
        options = {"resultTypes": ["violations"], **chosen}
        result = page.evaluate("([place, options]) => axe.run(place || document, options)", [within, options])
        found += [
            f"{theme}: {violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for violation in result["violations"]
            for node in violation["nodes"]
        ]
    return found
