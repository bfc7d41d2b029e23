# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""OpenDocument texts and presentations, and spreadsheets outside cells. Notes follow paragraphs; headers come last."""

import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from carrel.wire.formats import NotReadKind
from service.text.extraction import drawings, packages
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.cells import with_stored
from service.text.extraction.failures import corrupt_file, too_complex
from service.text.extraction.list_numbers import BULLET, DEEPEST, LONGEST, Level, NumberedList, Use, count_item
from service.text.extraction.markup import local_name
from service.text.extraction.packages import open_archive
from service.text.extraction.sheets import MOST_COLUMNS, add_sheet
from service.text.extraction.tabular import TableWriter

_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _SHOW, _OFFICE, _STYLE = (
    f"{_NAMES}{name}:1.0}}" for name in ("text", "table", "drawing", "presentation", "office", "style")
)
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_PARAGRAPHS = frozenset({_TEXT + "p", _TEXT + "h"})
_SPACES = {_TEXT + "s": " ", _TEXT + "tab": " ", _TEXT + "line-break": " "}
_CONTENT, _STYLES, _META = "content.xml", "styles.xml", "meta.xml"
# Parts inside a paragraph that are not in its line; and fields that programs fill in.
_APART = frozenset({_TEXT + "note", _OFFICE + "annotation"})
_FIELDS = frozenset(
    [_TEXT + name for name in ("page-number", "page-count", "sheet-name", "file-name")]
    + [_SHOW + name for name in ("header", "footer", "date-time")]
)
_PRINTED = tuple(_STYLE + name + side for name in ("header", "footer") for side in ("", "-left", "-first"))
_SYMBOLS = tuple(_MATH + name for name in ("mi", "mn", "mo", "mtext", "ms"))
_SHAPES = tuple(_DRAW + name for name in ("frame", "custom-shape", "rect", "g"))
# Placeholders of a master that each slide fills in, or that no slide shows.
_FILLED = frozenset(["title", "outline", "subtitle", "notes", "page-number", "date-time"])
_LEVELS = frozenset("123456789")
_CELLS = (_TABLE + "table-cell", _TABLE + "covered-table-cell")
_VALUES = ("value", "date-value", "time-value", "boolean-value", "string-value")
# A file may claim any number of repeated rows or cells; presentation programs stop at 75 of either.
_MOST_REPEATED = 100
_IDENTITY = "{http://www.w3.org/XML/1998/namespace}id"
_LIST, _ITEM, _HEADING, _PARAGRAPH = (_TEXT + name for name in ("list", "list-item", "h", "p"))
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_BULLETS = frozenset({_TEXT + "list-level-style-bullet", _TEXT + "list-level-style-image"})


def parse_odt(path: Path, builder: BlockBuilder) -> str | None:
    """Add an OpenDocument text; tracked deletions are left out."""
    with open_archive(path) as archive:
        root = _read_content(archive, builder, "an OpenDocument text")
        copies = _drop_copies(archive, root, builder)
        markers: Mapping[Any, str] = {}
        with builder.refinement("numbers of lists"):
            styles = packages.read_damaged(packages.read_undamaged(archive, _STYLES))
            markers = find_markers(root, [root] if styles is None else [styles, root])
        walk = etree.iterwalk(root, events=("start",))
        for _, element in walk:
            if element.tag in {_TEXT + "tracked-changes", _OFFICE + "automatic-styles"}:
                walk.skip_subtree()
            elif element.tag == _TABLE + "table":
                _add_table(element, None, builder)
                walk.skip_subtree()
            elif element.tag in _PARAGRAPHS:
                _add_paragraph(element, markers.get(element, ""), builder)
            elif element.tag == _DRAW + "object":
                _add_object(archive, element.get(_LINK) or "", None, builder)
            elif element.tag == _DRAW + "image":
                _note_picture(archive, element, builder)
        return _add_rest(archive, copies, builder)


def parse_odp(path: Path, builder: BlockBuilder) -> str | None:
    """Add an OpenDocument presentation's slides; pages are slide numbers, and footers come last, once."""
    with open_archive(path) as archive:
        root = _read_content(archive, builder, "an OpenDocument presentation")
        copies = _drop_copies(archive, root, builder)
        slides = list(root.iter(_DRAW + "page"))
        if len(slides) > builder.limits.pages:
            raise too_complex(f"The presentation has more than {builder.limits.pages:,} slides.")
        for number, slide in enumerate(slides, start=1):
            _add_slide(archive, slide, number, builder)
        declared = (_text(each).strip() for each in root.iter(_SHOW + "header-decl", _SHOW + "footer-decl"))
        builder.paragraphs(dict.fromkeys(declared))
        return _add_rest(archive, copies, builder)


def parse_ods(path: Path, builder: BlockBuilder) -> str | None:
    """Add the sheets of an OpenDocument spreadsheet, each under the sheet's name, with the texts outside the cells."""
    with open_archive(path) as archive:
        root = _read_content(archive, builder, "an OpenDocument spreadsheet")
        copies = _drop_copies(archive, root, builder)
        tables = [each for sheet in root.iter(_OFFICE + "spreadsheet") for each in sheet.iterchildren(_TABLE + "table")]
        for number, table in enumerate(tables, start=1):
            add_sheet(table.get(_TABLE + "name") or "", _read_rows(table, builder, f"sheet {number}"), builder)
        for number, table in enumerate(tables, start=1):
            builder.sheet = one_line(table.get(_TABLE + "name") or "") or None
            with builder.refinement(f"comments and drawings of sheet {number}"):
                for element in table.iter(*_PARAGRAPHS, _DRAW + "object", _DRAW + "image"):
                    if element.tag == _DRAW + "object":
                        _add_object(archive, element.get(_LINK) or "", None, builder)
                    elif element.tag == _DRAW + "image":
                        _note_picture(archive, element, builder)
                    elif element.getparent().tag not in _CELLS:
                        builder.paragraph(_text(element))
        builder.sheet = None
        return _add_rest(archive, copies, builder)


def _read_rows(table: Any, builder: BlockBuilder, label: str) -> Iterator[tuple[int, Mapping[int, str]]]:
    """Yield the number, from 1, and the cells by column of each filled row of a sheet, also of repeated rows."""
    number = 0
    for row in table.iter(_TABLE + "table-row"):
        # A table inside a cell is read as the cell's text.
        if next(row.iterancestors(_TABLE + "table")) is not table:
            continue
        cells: dict[int, str] = {}
        column = 0
        for cell in row.iterchildren(*_CELLS):
            repeated = _read_count(cell, "columns")
            text = _show(cell, builder, label) if cell.tag == _CELLS[0] else ""
            if text:
                cells |= dict.fromkeys(range(column, column + min(repeated, MOST_COLUMNS)), text)
            column += repeated
        repeated = _read_count(row, "rows")
        for each in range(repeated if cells else 0):
            yield number + each + 1, cells
        number += repeated


def _show(cell: Any, builder: BlockBuilder, label: str) -> str:
    """Return a cell's shown text and, if different, the stored value in brackets."""
    shown = one_line(" ".join(_text(each) for each in cell.iterchildren(*_PARAGRAPHS)))
    stored = next((value for name in _VALUES if (value := cell.get(_OFFICE + name))), "")
    formula = cell.get(_TABLE + "formula")
    if not shown and not stored and formula and cell.get(_OFFICE + "value-type") != "string":
        builder.leave_out(NotReadKind.FORMULA, label)
        return formula.partition(":")[2] or formula
    if stored.startswith("PT") or cell.get(_OFFICE + "boolean-value"):
        return shown or stored
    return with_stored(shown, stored.removesuffix("T00:00:00").replace("T", " "))


def _read_content(archive: zipfile.ZipFile, builder: BlockBuilder, kind: str) -> Any:
    root = packages.read_damaged(packages.read_main(archive, _CONTENT, builder, "rest of the file", b"[ph]|table-row"))
    if root is None or local_name(root) != "document-content":
        raise corrupt_file(kind)
    return root


def _drop_copies(archive: zipfile.ZipFile, root: Any, builder: BlockBuilder) -> set[str]:
    """Remove the forms of pictures that are not read; return the entries shown nowhere else."""
    copies: set[str] = set()
    for frame in root.iter(_DRAW + "frame"):
        images = {_entry_of(image): image for image in frame.iterchildren(_DRAW + "image")}
        forms = [name for name in images if name in archive.NameToInfo]
        for name in set(forms) - {packages.choose_form(archive, forms, builder)} if len(forms) > 1 else ():
            frame.remove(images[name])
            copies.add(name)
    return copies - {_entry_of(image) for image in root.iter(_DRAW + "image")}


def _entry_of(image: Any) -> str:
    return (image.get(_LINK) or "").removeprefix("./")


def _add_rest(archive: zipfile.ZipFile, copies: Collection[str], builder: BlockBuilder) -> str | None:
    with builder.refinement("pictures of the document"):
        packages.leave_out_entries(archive, builder, copies=copies)
    styles, meta = (packages.read_damaged(packages.read_undamaged(archive, name)) for name in (_STYLES, _META))
    if styles is not None:
        masters = styles.iter(_STYLE + "master-page")
        printed = (part for master in masters for part in master.iterchildren(*_PRINTED, *_SHAPES))
        texts = (
            _text(each).strip()
            for part in printed
            for each in part.iter(*_PARAGRAPHS)
            if not part.get(_SHOW + "placeholder") and part.get(_SHOW + "class") not in _FILLED
        )
        builder.paragraphs(dict.fromkeys(texts))
    return None if meta is None else meta.findtext(f".//{_TITLE}")


def _add_paragraph(element: Any, marker: str, builder: BlockBuilder) -> None:
    text = _text(element)
    text = f"{marker} {text}" if marker and text.strip() else text
    if element.tag == _TEXT + "h":
        level = element.get(_TEXT + "outline-level") or ""
        builder.heading(text, int(level) if level in _LEVELS else 1)
    else:
        builder.paragraph(text)


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
        elif element.tag == _DRAW + "image":
            _note_picture(archive, element, builder, f"slide {number}", page=number)
        elif element.tag == _DRAW + "object":
            _add_object(archive, element.get(_LINK) or "", number, builder)


def _note_picture(
    archive: zipfile.ZipFile, image: Any, builder: BlockBuilder, label: str = "", *, page: int | None = None
) -> None:
    """Record a picture at its place. For a preview of another program's object, only read the text."""
    name = _entry_of(image)
    is_preview = image.getparent().find(_DRAW + "object-ole") is not None
    is_read_here = builder.limits.finds_pictures or packages.is_drawing(name)
    if name in archive.NameToInfo and (is_preview or (is_read_here and name.startswith("Pictures/"))):
        packages.note_entry(archive, name, builder, label, page=page, is_preview=is_preview)


def _add_object(archive: zipfile.ZipFile, link: str, number: int | None, builder: BlockBuilder) -> None:
    part = f"{link.removeprefix('./').strip('/')}/{_CONTENT}"
    if part in archive.namelist():
        root = drawings.read_part(archive.read(part))
        builder.paragraph(" ".join(each.text or "" for each in root.iter(*_SYMBOLS)), page=number)
        builder.paragraphs(_paragraphs(root), page=number)
        for table in root.iter(_TABLE + "table"):
            _add_table(table, number, builder)


def _add_table(table: Any, number: int | None, builder: BlockBuilder) -> None:
    writer = TableWriter(builder, page=number)
    for row in table.iter(_TABLE + "table-row"):
        cells: list[str] = []
        for cell in row.iterchildren(*_CELLS):
            text = " ".join(_paragraphs(cell))
            repeated = min(_read_count(cell, "columns"), max(_MOST_REPEATED - len(cells), 1))
            if len(text) * repeated > builder.limits.characters:
                raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")
            cells += [text] * repeated
        for _ in range(min(_read_count(row, "rows"), _MOST_REPEATED) if any(cells) else 0):
            writer.row(cells, header=row.getparent().tag == _TABLE + "table-header-rows")
    writer.close()


def _read_count(element: Any, what: str) -> int:
    said = element.get(f"{_TABLE}number-{what}-repeated", "1")
    return max(int(said), 1) if re.fullmatch(r"[0-9]{1,9}", said) else 1


def _paragraphs(element: Any) -> Iterator[str]:
    walk = etree.iterwalk(element, events=("start",))
    for _, node in walk:
        if node.tag in _PARAGRAPHS:
            yield _text(node).strip()
        elif node.tag == _TABLE + "table":
            walk.skip_subtree()


def _text(element: Any) -> str:
    """Return a paragraph's text, joining spans without spaces and leaving out notes and the like."""
    parts = [element.text or ""]
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, node in walk:
        if node is element:
            continue
        if event == "end":
            parts.append(node.tail or "")
        elif node.tag in _APART or node.tag in _FIELDS or str(node.tag).startswith(_DRAW):
            walk.skip_subtree()
        else:
            parts.append(_SPACES.get(node.tag, "") + (node.text or ""))
    return "".join(parts)


def find_markers(content: Any, styles: Iterable[Any]) -> Mapping[Any, str]:
    """Return the markers before list items and numbered headings; `styles` are the roots with list definitions."""
    finder = _Finder(styles)
    walk = etree.iterwalk(content, events=("start", "end"))
    for event, element in walk:
        if element.tag == _TEXT + "tracked-changes":
            if event == "start":
                walk.skip_subtree()
        elif event == "start":
            finder.begin(element)
        elif element.tag == _LIST:
            finder.end_list()
    return finder.markers


@dataclass(slots=True)
class _Open:
    """An open list, possibly nested: its style, and whether the current item still needs a marker."""

    style: str
    use: Use
    is_due: bool = False


class _Finder:
    def __init__(self, styles: Iterable[Any]) -> None:
        self.markers: dict[Any, str] = {}
        self._levels: dict[str, dict[int, Level]] = {}
        self._outline = Use(NumberedList({}), {})
        self._unnumbered = set[str]()
        self._open: list[_Open] = []
        self._last: dict[str, Use] = {}
        self._known: dict[str, Use] = {}
        for root in styles:
            for each in root.iter(_TEXT + "list-style"):
                self._levels[each.get(_STYLE + "name") or ""] = _read_levels(each)
            for each in root.iter(_TEXT + "outline-style"):
                self._outline = Use(NumberedList(_read_levels(each)), {})
            # A style with an empty list name excludes its headings from the numbering of chapters.
            named = (each for each in root.iter(_STYLE + "style") if each.get(_STYLE + "list-style-name") == "")
            self._unnumbered.update(each.get(_STYLE + "name") or "" for each in named)

    def begin(self, element: Any) -> None:
        if element.tag == _LIST:
            self._begin_list(element)
        elif element.tag == _ITEM and self._open:
            self._open[-1].is_due = True
            if (start := _read_number(element.get(_TEXT + "start-value"))) is not None:
                self._open[-1].use.starts[self._place()] = start
        elif element.tag in {_PARAGRAPH, _HEADING} and self._open:
            if self._open[-1].is_due:
                self._open[-1].is_due = False
                self.markers[element] = count_item(self._open[-1].use, self._place()) or BULLET
        elif element.tag == _HEADING and element.get(_TEXT + "style-name") not in self._unnumbered:
            self._count_heading(element)

    def end_list(self) -> None:
        self._open.pop()

    def _place(self) -> int:
        return min(len(self._open), DEEPEST) - 1

    def _begin_list(self, element: Any) -> None:
        around = self._open[-1] if self._open else None
        style = element.get(_TEXT + "style-name") or ("" if around is None else around.style)
        if around is not None and style == around.style:
            use = around.use
        else:
            continued = self._known.get(element.get(_TEXT + "continue-list") or "")
            if element.get(_TEXT + "continue-numbering") == "true":
                continued = continued or self._last.get(style)
            use = continued or Use(NumberedList(self._levels.get(style, {})), {})
        self._open.append(_Open(style, use))
        self._last[style] = use
        if identity := element.get(_IDENTITY):
            self._known[identity] = use

    def _count_heading(self, element: Any) -> None:
        place = (_read_number(element.get(_TEXT + "outline-level")) or 1) - 1
        level = self._outline.list.levels.get(place)
        if level is None or not level.text or element.get(_TEXT + "is-list-header") == "true":
            return
        if (start := _read_number(element.get(_TEXT + "start-value"))) is not None:
            self._outline.starts[place] = start
        self.markers[element] = count_item(self._outline, place)


def _read_levels(style: Any) -> dict[int, Level]:
    levels: dict[int, Level] = {}
    for each in style:
        place = (_read_number(each.get(_TEXT + "level")) or 1) - 1
        if each.tag in _BULLETS:
            levels[place] = Level("bullet", BULLET)
        elif place < DEEPEST and (form := _FORMS.get(each.get(_STYLE + "num-format") or "")):
            shown = min(_read_number(each.get(_TEXT + "display-levels")) or 1, place + 1)
            # Levels without numbers are passed over.
            above = [number for number in range(place + 1 - shown, place) if number in levels]
            numbers = ".".join(f"%{number + 1}" for number in (*above, place))
            text = f"{each.get(_STYLE + 'num-prefix') or ''}{numbers}{each.get(_STYLE + 'num-suffix') or ''}"
            start = _read_number(each.get(_TEXT + "start-value"))
            levels[place] = Level(form, text[:LONGEST], 1 if start is None else start)
    return levels


def _read_number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 7 else None
