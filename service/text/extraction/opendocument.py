# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# lxml has no types of its own.
"""OpenDocument presentations: each slide under its title, with tables, charts, notes and comments."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from service.text.extraction import drawings
from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import corrupt_file, too_complex
from service.text.extraction.packages import leave_out_entries
from service.text.extraction.tabular import TableWriter

_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _SHOW, _OFFICE = (
    f"{_NAMES}{name}:1.0}}" for name in ("text", "table", "drawing", "presentation", "office")
)
_LINK = "{http://www.w3.org/1999/xlink}href"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_PARAGRAPHS = frozenset({_TEXT + "p", _TEXT + "h"})
_SPACES = {_TEXT + "s": " ", _TEXT + "tab": " ", _TEXT + "line-break": " "}
_CONTENT = "content.xml"
_CELLS = (_TABLE + "table-cell", _TABLE + "covered-table-cell")
# How often a row or a cell is repeated is a claim of the file; programs for slides stop at 75 of either.
_MOST_REPEATED = 100


def parse_odp(path: Path, builder: BlockBuilder) -> str | None:
    """Add an OpenDocument presentation's slides; pages are slide numbers, footers stand once, after all."""
    with zipfile.ZipFile(path) as archive:
        names = frozenset(archive.namelist())
        if _CONTENT not in names:
            raise corrupt_file("an OpenDocument presentation")
        root = drawings.read_part(archive.read(_CONTENT))
        slides = list(root.iter(_DRAW + "page"))
        if len(slides) > builder.limits.pages:
            raise too_complex(f"The presentation has more than {builder.limits.pages:,} slides.")
        for number, slide in enumerate(slides, start=1):
            _add_slide(archive, slide, number, builder)
        leave_out_entries(archive, builder)
        declared = (_text(each).strip() for each in root.iter(_SHOW + "header-decl", _SHOW + "footer-decl"))
        for text in dict.fromkeys(declared):
            builder.paragraph(text)
        title = drawings.read_part(archive.read("meta.xml")).find(f".//{_TITLE}") if "meta.xml" in names else None
        return None if title is None else title.text


def _add_slide(archive: zipfile.ZipFile, slide: Any, number: int, builder: BlockBuilder) -> None:
    titles = [each for each in slide.iter(_DRAW + "frame") if each.get(_SHOW + "class") == "title"]
    for frame in titles:
        builder.heading(" ".join(_paragraphs(frame)), 1, page=number)
    walk = etree.iterwalk(slide, events=("start",))
    for _, element in walk:
        if element.tag == _DRAW + "frame" and element.get(_SHOW + "class") == "title":
            walk.skip_subtree()
        elif element.tag == _TABLE + "table":
            _add_table(element, number, builder)
            walk.skip_subtree()
        elif element.tag in _PARAGRAPHS:
            builder.paragraph(_text(element), page=number)
            walk.skip_subtree()
        elif element.tag == _DRAW + "object":
            _add_object(archive, element.get(_LINK) or "", number, builder)


def _add_object(archive: zipfile.ZipFile, link: str, number: int, builder: BlockBuilder) -> None:
    """Add the titles and the table of a chart, or the texts of another document that is embedded in a slide."""
    part = f"{link.removeprefix('./').strip('/')}/{_CONTENT}"
    if part in archive.namelist():
        root = drawings.read_part(archive.read(part))
        for text in _paragraphs(root):
            builder.paragraph(text, page=number)
        for table in root.iter(_TABLE + "table"):
            _add_table(table, number, builder)


def _add_table(table: Any, number: int, builder: BlockBuilder) -> None:
    writer = TableWriter(builder, page=number)
    for row in table.iter(_TABLE + "table-row"):
        cells: list[str] = []
        for cell in row.iterchildren(*_CELLS):
            text = " ".join(_paragraphs(cell))
            repeated = min(_count_repetitions(cell, "columns"), max(_MOST_REPEATED - len(cells), 1))
            if len(text) * repeated > builder.limits.characters:
                raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")
            cells += [text] * repeated
        for _ in range(_count_repetitions(row, "rows") if any(cells) else 0):
            writer.row(cells)
    writer.close()


def _count_repetitions(element: Any, what: str) -> int:
    """Return how often a row or a cell of a table stands there; columns that other cells cover have cells, too."""
    said = element.get(f"{_TABLE}number-{what}-repeated", "1")
    return min(max(int(said), 1), _MOST_REPEATED) if re.fullmatch(r"[0-9]{1,9}", said) else 1


def _paragraphs(element: Any) -> Iterator[str]:
    """Yield the text of each paragraph below an element that isn't in a table there."""
    walk = etree.iterwalk(element, events=("start",))
    for _, node in walk:
        if node.tag in _PARAGRAPHS:
            yield _text(node).strip()
            walk.skip_subtree()
        elif node.tag == _TABLE + "table":
            walk.skip_subtree()


def _text(element: Any) -> str:
    """Return the text of a paragraph, in which spans follow each other without spaces."""
    parts = [element.text or ""]
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if node is not element:
            parts.append((_SPACES.get(node.tag, "") + (node.text or "")) if event == "start" else node.tail or "")
    return "".join(parts)
