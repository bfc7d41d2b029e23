"""The pages of docs/ as HTML, with contents, and anchors for headings and codes in a table's first column."""

import html
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from app.auth.routes import SIGN_IN, notice
from app.auth.sessions import Sessions

ROOT = Path(__file__).parents[1]
HELP = "/help"
# Pages outside docs/, by their names in mkdocs.yml.
ELSEWHERE = {"index": "README.md", "changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
_NAMES = {path: name for name, path in ELSEWHERE.items()}
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(/[a-z0-9]+(-[a-z0-9]+)*)?")
_CONTENTS = re.compile(r"^ +- (?:(?P<title>[^:\n]+): *)?(?P<page>[\w/-]+\.md)?$", re.MULTILINE)
_MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class DocumentationPage:
    name: str
    body: str
    headings: Sequence[Heading]
    anchors: frozenset[str]

    @property
    def title(self) -> str:
        return self.headings[0].text if self.headings else self.name


@lru_cache(maxsize=256)  # bounded, because there are endless names without a page
def read_page(name: str) -> DocumentationPage | None:
    """Return the page by name ("loading", "decisions/002-access-classes"); None if missing."""
    if (path := _path_of(name)) is None:
        return None
    tokens = _MARKDOWN.parse((ROOT / path).read_text())
    headings = tuple(_mark_headings(tokens))
    anchors = {heading.anchor for heading in headings}
    for row, cell, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (row.type, cell.type) == ("tr_open", "td_open"):
            for child in inline.children or ():
                if child.type == "code_inline" and re.fullmatch(r"\w+", child.content) and child.content not in anchors:
                    anchors.add(child.content)
                    child.attrSet("id", child.content)
    for token in tokens:
        _lead_links(token.children or [], folder=posixpath.dirname(path))
    body = RendererHTML().render(tokens, _MARKDOWN.options, {})
    return DocumentationPage(name, body, headings, frozenset(anchors))


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def contents() -> Iterator[tuple[str, Sequence[DocumentationPage]]]:
    """Yield the sections of mkdocs.yml with pages, except pages generated from docstrings."""
    section, pages = "", list[DocumentationPage]()
    for found in _CONTENTS.finditer((ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]):
        page = read_page(found["page"].removesuffix(".md")) if found["page"] else None
        if page:
            pages.append(page)
        elif found["title"] and not found["page"]:
            if pages:
                yield section, pages
            section, pages = found["title"], []
    if pages:
        yield section, pages


def _path_of(name: str) -> str | None:
    """Return the file of a page, relative to the project. Only `make site` can build the pages of docstrings."""
    path = ELSEWHERE.get(name) or f"docs/{name}.md"
    is_page = _NAME.fullmatch(name) and not name.startswith("reference/") and (ROOT / path).is_file()
    return path if is_page else None


def _mark_headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            anchor = anchor_of(text)
            opening.attrSet("id", anchor)
            yield Heading(int(opening.tag[1]), text, anchor)


def _lead_links(tokens: Sequence[Token], *, folder: str) -> None:
    """Point links and pictures to the pages here. The text of a link to any other file stays as text."""
    closing = None
    for token in tokens:
        if token.type == "image":
            token.attrSet("src", _address_of(str(token.attrGet("src")), folder=folder) or "")
        elif token.type == "link_open":
            address = _address_of(str(token.attrGet("href")), folder=folder)
            closing = None if address else "span"
            token.tag, token.attrs = ("a", {"href": address}) if address else ("span", {})
        elif token.type == "link_close" and closing:
            token.tag = closing


def _address_of(link: str, *, folder: str) -> str | None:
    """Return the address here of a link's target, or the web address itself; None for a file that is no page."""
    if link.startswith(("#", "https:", "http:")):
        return link
    path, mark, anchor = link.partition("#")
    file = posixpath.normpath(posixpath.join(folder, path))
    if file.startswith("docs/pages/"):
        return f"{HELP}/{file.removeprefix('docs/')}"
    name = _NAMES.get(file) or file.removeprefix("docs/").removesuffix(".md")
    return f"{HELP}/{name}{mark}{anchor}" if file.endswith(".md") and _path_of(name) else None


def page_html(page: DocumentationPage | None) -> str:
    """Return a help page as an HTML document; for None, the start page with the contents of all pages."""
    title = page.title if page else "Help"
    body = page.body if page else _contents_html()
    inside = [heading for heading in page.headings if heading.level == 2] if page else []
    parts = "".join(f'<li><a href="#{item.anchor}">{html.escape(item.text)}</a></li>' for item in inside)
    aside = f'<nav aria-label="On this page"><p>On this page</p><ul>{parts}</ul></nav>' if parts else ""
    return _PAGE.format(title=html.escape(title), body=body, aside=aside, help=HELP)


def _contents_html() -> str:
    sections = ""
    for section, pages in contents():
        items = (f'<li><a href="{HELP}/{page.name}">{html.escape(page.title)}</a></li>' for page in pages)
        sections += f"<h2>{html.escape(section or 'Overview')}</h2><ul>{''.join(items)}</ul>"
    return f"<h1>Help</h1>{sections}"


_PAGE = Path(__file__).with_suffix(".html").read_text()

_PICTURES = ROOT / "docs" / "pages"


class Documentation:
    """The routes of the documentation's pages and pictures, open to browsers with a live session."""

    def __init__(self, sessions: Sessions, *, cookie: str) -> None:
        self._sessions = sessions
        self._cookie = cookie

    def routes(self) -> list[Route]:
        """Return the routes. The functions block, so each route runs in a thread."""
        return [Route(HELP, self.show), Route(f"{HELP}/{{name:path}}", self.show)]

    def show(self, request: Request) -> Response:
        """Return a page or a picture of the documentation. Without a session, redirect to sign-in."""
        name: str = request.path_params.get("name", "")
        if self._sessions.find(request.cookies.get(self._cookie)) is None:
            return RedirectResponse(f"{SIGN_IN}?next={quote(f'{HELP}/{name}', safe='')}", 303)
        if name.endswith(".png"):
            return _picture(name)
        page = read_page(name)
        if page is None and name:
            said = "The URL may be mistyped, or belong to another version of Carrel."
            return notice("This help page does not exist", said, again=f"{HELP}/", status=404, doing="All help pages")
        return HTMLResponse(page_html(page), headers={"Cache-Control": "private, max-age=300"})


def _picture(name: str) -> Response:
    """Return a picture, or 404. The name is looked up in a listing of the folder, so no name can lead outside."""
    pictures = {f"pages/{path.name}": path for path in _PICTURES.glob("*.png")}
    return FileResponse(pictures[name]) if name in pictures else Response(status_code=404)
