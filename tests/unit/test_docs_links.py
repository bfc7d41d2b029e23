"""Links between the pages of the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Pictures of the pages are made by the tests in the browser, and need not be there yet.
PICTURES = ROOT / "docs" / "pages"


def headings(page: Path) -> set[str]:
    """Return what a link may name on a page, as GitHub spells it."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def is_there(link: str, *, of: Path) -> bool:
    """Tell whether a relative link leads to a file, and to a heading where it names one."""
    name, _, heading = link.partition("#")
    target = (of.parent / name).resolve() if name else of
    if target.parent == PICTURES:
        return True
    return target.exists() and (not heading or target.suffix != ".md" or heading in headings(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """A file that is linked exists, and has the heading that is named."""
    links = [link for link in LINK.findall(page.read_text()) if not link.startswith(("http:", "https:"))]
    assert [link for link in links if not is_there(link, of=page)] == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    """A file or heading that isn't there is no place to lead to."""
    here = ROOT / "docs" / "sdk.md"
    assert is_there("errors.md", of=here)
    assert is_there("#upload", of=here)
    assert not is_there("mistakes.md", of=here)
    assert not is_there("errors.md#no-such-heading", of=here)
