"""What axe-core finds on a page: what people with disabilities would stumble over."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# What Streamlit draws so, and pages have no hold of: (rule, part of the element's HTML).
STREAMLITS_OWN: tuple[tuple[str, str], ...] = ()
_SCRIPT = Axe().axe_script
_HAS_THEME = """theme => getComputedStyle(document.querySelector("[data-testid=stApp]")).colorScheme === theme
    && !document.getAnimations().some(one => one instanceof CSSTransition)"""
THEMES = ("light", "dark")


def findings(page: Page, *, within: str = "") -> list[str]:
    """Return what axe finds in both themes, each with its element; in the second one, which colours alone differ in."""
    page.evaluate(_SCRIPT)
    found: list[str] = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(_HAS_THEME, arg=theme)
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if theme != THEMES[0]:
            options["runOnly"] = ["color-contrast"]
        result = page.evaluate("([place, options]) => axe.run(place || document, options)", [within, options])
        found += [
            f"{theme}: {violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for violation in result["violations"]
            for node in violation["nodes"]
            if not any(violation["id"] == rule and part in node["html"] for rule, part in STREAMLITS_OWN)
        ]
    return found
