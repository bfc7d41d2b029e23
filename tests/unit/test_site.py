"""The documentation as a site: built without warnings or external resources, with all of the SDK."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# By what a page makes a browser fetch something while it is shown.
FETCHING = {"link": "href", "object": "data"}
FETCHING |= dict.fromkeys(("script", "img", "iframe", "source", "video", "embed"), "src")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet: it hides warnings from what counts them, too.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class _Fetched(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name == FETCHING.get(tag)]


def _fetched_by(page: str) -> list[str]:
    parser = _Fetched()
    parser.feed(page)
    return parser.addresses


def test_the_site_is_its_own(site: Path) -> None:
    fetched = {address for page in site.rglob("*.html") for address in _fetched_by(page.read_text())}
    assert any(address.endswith(".css") for address in fetched)
    assert any(address.endswith("search.png") for address in fetched)
    assert [address for address in fetched if re.match(r"(?i)(\w+:)?//", address)] == []
    styles = [style.read_text() for style in site.rglob("*.css")]
    assert [found for style in styles for found in re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style)] == []


def test_links_between_files_are_links_between_pages(site: Path) -> None:
    first = (site / "index.html").read_text()
    assert 'href="sdk.html"' in first
    assert 'href="contributing.html"' in first
    assert 'href="client/carrel"' not in first
    assert "<code>client/carrel</code>" in first
    assert 'href="index.html#ten-lines"' in (site / "first-hour.html").read_text()


def test_the_reference_has_every_public_module_of_the_sdk() -> None:
    named = set(re.findall(r"^::: ([\w.]+)$", "".join(_references()), re.MULTILINE))
    client = ROOT / "client"
    modules = {
        ".".join(path.relative_to(client).with_suffix("").parts).removesuffix(".__init__")
        for path in (client / "carrel").rglob("*.py")
    }
    public = {name for name in modules if not re.search(r"\._", name)}
    # Packages that hold modules alone, and what only makes the OpenAPI document.
    public -= {"carrel", "carrel.resources", "carrel.wire", "carrel.wire.schemas"}
    inner = {name for name in public if name.startswith(("carrel.directory.", "carrel.oauth."))}
    assert public - inner - named == set()


def _references() -> list[str]:
    return [page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")]
