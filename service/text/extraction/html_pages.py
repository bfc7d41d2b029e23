# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""HTML: the page's own text without navigation, scripts or forms. Links and resources are never fetched."""

import base64
import binascii
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.failures import damaged_file, too_complex
from service.text.extraction.plain import read_text
from service.text.extraction.svg import find_lines
from service.text.extraction.tabular import MOST_SPANNED, Spans, TableWriter

_DATA = re.compile(rb"data:image/[a-z0-9.+-]{1,40};base64,([A-Za-z0-9+/=%\s]+)", re.IGNORECASE)
_SPACE = re.compile(rb"%0[ad]|\s", re.IGNORECASE)
_NEVER, _BREAKS = map(frozenset, tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).values())
_BOILERPLATE = frozenset({"nav", "aside", "footer", "header", "menu"})
_BOILERPLATE_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# If a page without its navigation has less text than this, it keeps its navigation.
_LEAST = 40


def parse_html(data: bytes, builder: BlockBuilder) -> str | None:
    root = _root(read_text(data, builder))
    _Page(builder, strict=True).write(root)
    if sum(len(block.text) for block in builder.blocks) < _LEAST:
        builder.blocks.clear()
        _Page(builder, strict=False).write(root)
    # Drawings and their parts have titles too.
    title = next((each for each in root.iter("title") if next(each.iterancestors("svg"), None) is None), None)
    return one_line(title.text or "") if title is not None else None


def add_html(text: str, builder: BlockBuilder, is_quote: Callable[[Any], bool] = lambda _: False) -> None:
    """Add the blocks of HTML, a whole page or a fragment; quotes become quoted blocks."""
    _Page(builder, strict=False).write(_root(text), is_quote)


def _root(text: str) -> Any:
    """Parse text, ignoring <meta charset>. `huge_tree` prevents silent loss beyond 10 MB; depth is at most 2,048."""
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise damaged_file("HTML", error) from error
    if any(entry.level == etree.ErrorLevels.FATAL for entry in parser.error_log):
        raise too_complex("The page's elements are nested too deeply.")
    return etree.Element("html") if root is None else root


class _Page:
    def __init__(self, builder: BlockBuilder, *, strict: bool) -> None:
        self._builder = builder
        self._strict = strict
        self._text: list[str] = []
        self._prefix = ""
        self._lists: list[int | None] = []
        # None: a table that only lays out the page.
        self._tables: list[tuple[TableWriter, Spans] | None] = []
        self._cells: list[tuple[str, int, int]] = []
        self._head_cells = 0

    def write(self, root: Any, is_quote: Callable[[Any], bool] = lambda _: False) -> None:
        walk, quote = etree.iterwalk(root, events=("start", "end")), None
        for event, element in walk:
            tag = element.tag if isinstance(element.tag, str) else ""
            dropped = self._is_dropped(element, tag)
            if event == "start":
                if dropped:
                    walk.skip_subtree()
                elif tag == "svg":
                    self._add(f" {' '.join(find_lines(element))} ")
                    walk.skip_subtree()
                else:
                    self._start(element, tag)
                    if quote is None and is_quote(element):
                        quote, self._builder.quoted = element, True
            else:
                if not dropped:
                    self._end(element, tag)
                if element is quote:
                    quote, self._builder.quoted = None, False
                self._add(element.tail)
        self._flush()

    def _is_dropped(self, element: Any, tag: str) -> bool:
        if tag in _NEVER or not tag:
            return True
        if element.get("hidden") is not None or "display:none" in (element.get("style") or "").replace(" ", ""):
            return True
        if not self._strict:
            return False
        if element.get("role") in _BOILERPLATE_ROLES:
            return True
        return tag in _BOILERPLATE and not any(parent.tag in {"article", "main"} for parent in element.iterancestors())

    def _start(self, element: Any, tag: str) -> None:
        if tag in _BREAKS:
            self._flush()
        if tag == "br":
            self._text.append("\n")
        elif tag == "img":
            self._add(element.get("alt"))
        elif tag in {"ul", "ol"}:
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            number = self._lists[-1] if self._lists else None
            self._prefix = "- " if number is None else f"{number}. "
            if number is not None:
                self._lists[-1] = number + 1
        elif tag == "table":
            self._tables.append(None if _is_layout(element) else (TableWriter(self._builder), Spans()))
        elif tag == "th":
            self._head_cells += 1
        self._add(element.text)

    def _end(self, element: Any, tag: str) -> None:
        table = self._tables[-1] if self._tables else None
        if table is not None:
            self._end_in_table(*table, element, tag)
        elif tag in _HEADINGS:
            self._builder.heading(self._take(), _HEADINGS[tag])
        elif tag == "pre":
            self._builder.code(self._take())
        elif tag in _BREAKS:
            self._flush()
        if tag == "table" and self._tables:
            self._tables.pop()
        elif tag in {"ul", "ol"} and self._lists:
            self._lists.pop()

    def _end_in_table(self, table: TableWriter, spans: Spans, element: Any, tag: str) -> None:
        if tag in {"td", "th"}:
            self._cells.append((self._take(), _count_spanned(element, "colspan"), _count_spanned(element, "rowspan")))
        elif tag == "tr":
            table.row(spans.place(self._cells), header=0 < self._head_cells == len(self._cells))
            self._cells, self._head_cells = [], 0
        elif tag == "caption":
            self._builder.paragraph(self._take())
        elif tag == "table":
            table.close()

    def _add(self, text: str | None) -> None:
        if text:
            self._text.append(text)

    def _take(self) -> str:
        text, self._text = "".join(self._text), []
        return text

    def _flush(self) -> None:
        if self._tables and self._tables[-1] is not None:
            # Paragraphs inside a cell stay in the cell.
            self._text.append(" ")
            return
        text = self._take()
        if text.strip():
            self._builder.paragraph(self._prefix + text)
            self._prefix = ""


def _is_layout(table: Any) -> bool:
    inner = table.iterdescendants("table", "h1", "h2", "h3", "ul", "ol", "pre")
    return table.get("role") in {"presentation", "none"} or next(inner, None) is not None


def _count_spanned(cell: Any, name: str) -> int:
    said = (cell.get(name) or "").strip()
    return min(max(int(said), 1), MOST_SPANNED) if said.isdecimal() and len(said) < 10 else 1


def find_data_uris(data: bytes) -> Iterator[Callable[[], bytes]]:
    """Yield a reader for each picture embedded in a page; a damaged picture reads as empty."""
    return (partial(_decode_data, found[1]) for found in _DATA.finditer(data))


def _decode_data(encoded: bytes) -> bytes:
    try:
        return base64.b64decode(_SPACE.sub(b"", encoded))
    except binascii.Error:
        return b""
