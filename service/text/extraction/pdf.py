# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pypdfium2 is untyped; only this module uses all of it.
"""Read PDFs through PDFium: lines with size and position for `pdf_layout`, then form values and page notes."""

import ctypes
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

import pypdfium2 as pdfium
from pypdfium2 import raw

from carrel.wire.formats import NotReadKind
from service.text.extraction.blocks import Box, join_boxes
from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import corrupt_file, encrypted_file, too_complex, without_text
from service.text.extraction.pdf_layout import Line, Table, add_pages
from service.text.extraction.pdf_tables import find_tables, reads_as_table
from service.text.extraction.picture_sizes import is_large

# The catalog leads to all pages. The end of a PDF refers to it; a file without its end still contains it.
_CATALOG = re.compile(
    rb"(\d{1,10})[ \r\n]+(\d{1,5})[ \r\n]+obj\b(?:(?!endobj)[\x00-\xff]){0,2000}?/Catalog(?![A-Za-z])"
)
_PASSWORD_MARK = re.compile(rb"/Encrypt(?![A-Za-z])|/Standard(?![A-Za-z])")
# Far apart, so that rounding doesn't matter, in points of a page and in units of a screen.
_FAR, _FINE = 1_000, 1_000_000
# A page with a table has this many more pieces than lines; a page with more pieces is not searched for tables.
_FEWEST_CELLS, _MOST_PIECES = 3, 4_000
# A line of a table may extend beyond it by this part of the page.
_SLACK = 0.004
# In points: a quarter of an inch.
_SMALLEST = 18
_MOST_PICTURES = 200
# The characters over a scanned page with recognized text; a stamped page number has fewer.
_RECOGNIZED = 100
# A picture that covers this part of a page is the page.
_PAGE_SIZED = 0.5
# The margin of a scanned page: characters there, such as a stamp, aren't the page's text.
_EDGE = 0.1
# The characters sampled for missing Unicode values, the characters read for words, and the fewest needed. In every
# language with Latin letters, more than a third of the letters are vowels; codes and abbreviations have fewer, but are
# short; DNA and proteins have a quarter.
_SAMPLED, _READ_FOR_WORDS, _ENOUGH = 200, 5_000, 150
_UNKNOWN, _FEWEST_VOWELS, _VOWELS = 0.3, 0.23, frozenset("aeiouyAEIOUY")
_LONG, _FEWEST_LONG = 9, 0.15
_WORD, _REPEATED = re.compile(r"[^\W\d_]{4,}"), re.compile(r"(.)\1+")
_PICTURE = re.compile(rb"/Image(?![A-Za-z])")
_LEFT_OUT = {
    raw.FPDF_ANNOT_FILEATTACHMENT: NotReadKind.ATTACHMENT,
    raw.FPDF_ANNOT_SOUND: NotReadKind.RECORDING,
    raw.FPDF_ANNOT_MOVIE: NotReadKind.RECORDING,
    raw.FPDF_ANNOT_RICHMEDIA: NotReadKind.RECORDING,
}
_FIELDS = frozenset({raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX})


@dataclass(frozen=True, slots=True)
class _Frame:
    """A page's frame: size and origin in points; a point to the right moves by `across`, a point up by `down`."""

    left: float
    top: float
    across: tuple[float, float]
    down: tuple[float, float]
    size: tuple[float, float]

    def show(self, left: float, bottom: float, right: float, top: float) -> Box:
        (width, height), (a, b), (c, d) = self.size, self.across, self.down
        x, other_x = (self.left + left * a + bottom * b) * width, (self.left + right * a + top * b) * width
        y, other_y = (self.top + left * c + bottom * d) * height, (self.top + right * c + top * d) * height
        return min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)

    def to_parts(self, shown: Box) -> Box:
        width, height = self.size
        parts = (shown[0] / width, shown[1] / height, shown[2] / width, shown[3] / height)
        left, top, right, bottom = (round(min(max(part, 0.0), 1.0), 4) for part in parts)
        return left, top, right, bottom


def parse_pdf(path: Path, builder: BlockBuilder) -> str | None:
    """Add a PDF's text. Raises Unreadable if it has a password, no readable page, or only pictures of text."""
    document = open_pdf(path, builder)
    try:
        if len(document) > builder.limits.pages:
            raise too_complex(f"The PDF has {len(document):,} pages; at most {builder.limits.pages:,} are read.")
        title = document.get_metadata_value("Title")
        add_pages(_read_pages(document, builder, with_pictures=_holds_pictures(path)), builder)
        with builder.refinement("forms and notes"):
            _add_annotations(document, builder)
        with builder.refinement("attachments"):
            if document.get_formtype() == raw.FORMTYPE_XFA_FULL:
                builder.leave_out(NotReadKind.FORM)
            builder.leave_out(NotReadKind.ATTACHMENT, count=document.count_attachments())
    except pdfium.PdfiumError as error:
        raise corrupt_file("PDF") from error
    finally:
        document.close()
    if not builder.has_contents and not builder.has_skipped:
        raise without_text(
            "The PDF has no text in it: it is blank, a scan, or drawn. Run text recognition (OCR) over it and send the "
            "result."
        )
    return title


def open_pdf(file: Path | BinaryIO, builder: BlockBuilder | None = None) -> Any:
    """Open a PDF, also a truncated PDF as far as pages can be found. Raises Unreadable for a password."""
    try:
        return pdfium.PdfDocument(file)
    except pdfium.PdfiumError as error:
        if error.err_code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
            raise encrypted_file("PDF") from error
    if not isinstance(file, Path):
        file.seek(0)
    try:
        document = pdfium.PdfDocument(_add_trailer(file.read_bytes() if isinstance(file, Path) else file.read()))
    except pdfium.PdfiumError as error:
        raise corrupt_file("PDF") from error
    if builder is not None:
        builder.leave_out(NotReadKind.DETAIL, "end of the file")
    return document


def _add_trailer(data: bytes) -> bytes:
    catalogs = list(_CATALOG.finditer(data))
    if not catalogs or _PASSWORD_MARK.search(data):
        raise corrupt_file("PDF")
    whole = data[: data.rfind(b"endobj")]
    return b"%b endobj\ntrailer <</Root %b %b R>>\nstartxref\n0\n%%%%EOF\n" % (whole, *catalogs[-1].groups())


def _read_pages(document: Any, builder: BlockBuilder, *, with_pictures: bool) -> list[list[Line]]:
    characters = builder.limits.characters
    pages: list[list[Line]] = []
    total = 0
    for number in range(len(document)):
        lines: list[Line] = []
        with (
            builder.refinement(f"page {number + 1}"),
            closing(document[number]) as page,
            closing(page.get_textpage()) as text_page,
        ):
            is_garbled = False
            with builder.refinement(f"fonts of page {number + 1}"):
                is_garbled = _is_garbled(text_page, is_recognized=builder.limits.reads_scans)
            if is_garbled:
                builder.scan(number + 1)
            else:
                lines = _read_lines(page, text_page, number + 1, builder)
                with builder.refinement(f"pictures of page {number + 1}"):
                    if with_pictures or not lines:
                        _note_pictures(page, text_page, lines, number + 1, builder)
        total += sum(len(line.text) for line in lines)
        if total > characters:
            raise too_complex(f"The file holds more than {characters:,} characters of text.")
        pages.append(lines)
    return pages


def _is_garbled(text_page: Any, *, is_recognized: bool) -> bool:
    """Return whether many characters lack Unicode values or, if recognition is possible, the words are no words."""
    count: int = text_page.count_chars()
    places = range(0, count, count // _SAMPLED + 1)
    if sum(raw.FPDFText_HasUnicodeMapError(text_page, place) == 1 for place in places) > _UNKNOWN * len(places):
        return True
    text = text_page.get_text_range(0, min(count, _READ_FOR_WORDS)) if count and is_recognized else ""
    found = _WORD.findall(unicodedata.normalize("NFD", text))
    words, long = "".join(found), sum(len(word) for word in found if len(word) >= _LONG)
    latin = sum(letter.isascii() for letter in words)
    vowels = sum(letter in _VOWELS for letter in words)
    signs = _REPEATED.sub(r"\1", "".join(text.split()))
    known = sum(map(str.isalnum, signs))
    return (latin > _ENOUGH and vowels < _FEWEST_VOWELS * latin and long > _FEWEST_LONG * latin) or (
        len(signs) > _ENOUGH and known < _UNKNOWN * len(signs)
    )


def _holds_pictures(path: Path) -> bool:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return _PICTURE.search(content) is not None


def _note_pictures(page: Any, text_page: Any, lines: Sequence[Line], number: int, builder: BlockBuilder) -> None:
    """Record a scanned page for OCR, or a normal page's pictures by their edges in points."""
    unread = _unread_pictures(page, text_page)
    if unread and (not lines or max(part for part, _ in unread) >= _PAGE_SIZED):
        builder.scan(number)
    elif not builder.limits.finds_pictures:
        builder.leave_out(NotReadKind.PICTURE, f"page {number}", count=len(unread))
    for _, picture in unread if builder.limits.finds_pictures and number not in builder.scanned[-1:] else ():
        if is_large(*picture.get_px_size()):
            edges = ",".join(f"{edge:.2f}" for edge in _bounds(picture))
            builder.picture_on(number, edges, bytes(picture.get_data()))


def _unread_pictures(page: Any, text_page: Any) -> list[tuple[float, Any]]:
    """Return each picture with little text over it, and its share of the page; lines and marks are too small."""
    unread: list[tuple[float, Any]] = []
    width, height = page.get_size()
    for picture in islice(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3), _MOST_PICTURES):
        left, bottom, right, top = _bounds(picture)
        if right - left >= _SMALLEST and top - bottom >= _SMALLEST:
            part = min((right - left) * (top - bottom) / max(width * height, 1.0), 1.0)
            edge, inner = (_EDGE, (1 - 2 * _EDGE) ** 2) if part >= _PAGE_SIZED else (0.0, 1.0)
            across, up = (right - left) * edge, (top - bottom) * edge
            text = text_page.get_text_bounded(left + across, bottom + up, right - across, top - up)
            if len("".join(text.split())) < max(part * inner * _RECOGNIZED, 1):
                unread.append((part, picture))
    return unread


def _bounds(picture: Any) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of a picture on its page; PDFium measures within the enclosing form."""
    bounds = picture.get_bounds()
    form = picture.container
    while form is not None:
        bounds = form.get_matrix().on_rect(*bounds)
        form = form.container
    return bounds


def _read_lines(page: Any, text_page: Any, number: int, builder: BlockBuilder) -> list[Line]:
    """Return a page's lines; PDFium gives each line's position at the first and the last character."""
    origin, right, up = (_to_screen(page, x, y) for x, y in ((0, 0), (_FAR, 0), (0, _FAR)))
    (a, b), (c, d) = (((right[axis] - origin[axis]) / _FAR, (up[axis] - origin[axis]) / _FAR) for axis in range(2))
    frame = _Frame(*origin, across=(a, b), down=(c, d), size=page.get_size())
    count: int = text_page.count_chars()
    text: str = text_page.get_text_range(0, count) if count else ""
    # PDFium counts in UTF-16 and omits some characters from its text; positions are known only if both agree.
    located = len(text) == count
    lines: list[Line] = []
    firsts: list[int] = []
    start = 0
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped:
            first = start + len(line) - len(line.lstrip())
            ends = _extents(text_page, first, first + len(stripped) - 1) if located else []
            lines.append(_to_line(stripped, ends, frame))
            firsts.append(first)
        start += len(line) + 1
    plain = list(lines)
    with builder.refinement(f"tables of page {number}"):
        if located:
            _find_tables(text_page, frame, lines, firsts)
        return lines
    return plain


def _find_tables(text_page: Any, frame: _Frame, lines: list[Line], firsts: Sequence[int]) -> None:
    """Set the table of each line inside a table that reads as a table."""
    for area in find_tables(_pieces(text_page, frame, lines)):
        left, top, right, bottom = frame.to_parts(area.box)
        inside = [
            number
            for number, line in enumerate(lines)
            if line.box is not None
            and top - _SLACK <= (line.box[1] + line.box[3]) / 2 <= bottom + _SLACK
            and left - _SLACK <= (line.box[0] + line.box[2]) / 2 <= right + _SLACK
        ]
        words = (each for number in inside for each in _words(text_page, frame, lines[number].text, firsts[number]))
        table = Table(area.fill(words), [frame.to_parts(row) for row in area.rows], area)
        for number in inside if reads_as_table(table.cells) else ():
            lines[number] = replace(lines[number], table=table)


def _pieces(text_page: Any, frame: _Frame, lines: Sequence[Line]) -> list[Box]:
    """Return the positions of the pieces of a page's lines; empty without tables, or with too many pieces."""
    count: int = raw.FPDFText_CountRects(text_page, 0, -1)
    # If a cell has several lines, PDFium reads the next cell as a line of its own.
    beside = sum(
        before.box is not None and line.box is not None and line.box[1] < before.box[3] - _SLACK
        for before, line in pairwise(lines)
    )
    if not len(lines) - beside + _FEWEST_CELLS <= count <= _MOST_PIECES:
        return []
    edges = [ctypes.c_double() for _ in range(4)]
    pieces: list[Box] = []
    for index in range(count):
        raw.FPDFText_GetRect(text_page, index, *edges)
        left, top, right, bottom = (edge.value for edge in edges)
        pieces.append(frame.show(left, bottom, right, top))
    return pieces


def _words(text_page: Any, frame: _Frame, line: str, first: int) -> Iterator[tuple[str, Box]]:
    place = 0
    for word in line.split():
        place = line.index(word, place)
        ends = _extents(text_page, first + place, first + place + len(word) - 1)
        boxes = [frame.show(box.left, box.bottom, box.right, box.top) for box in ends]
        yield word, join_boxes(boxes) or (0.0, 0.0, 0.0, 0.0)
        place += len(word)


def _to_line(text: str, ends: Sequence[Any], frame: _Frame) -> Line:
    """Return a line between two characters' em boxes, sized by the first; without boxes, only its text."""
    if not ends:
        return Line(text)
    boxes = [frame.to_parts(frame.show(box.left, box.bottom, box.right, box.top)) for box in ends]
    return Line(text, bottom=ends[0].bottom, top=ends[0].top, box=join_boxes(boxes))


def _extents(text_page: Any, *indexes: int) -> list[Any]:
    """Return characters' em boxes, in points from the page's lower left corner; empty if a box is unknown."""
    boxes: list[Any] = []
    for index in indexes:
        box = raw.FS_RECTF()
        if not raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
            return []
        boxes.append(box)
    return boxes


def _to_screen(page: Any, x: float, y: float) -> tuple[float, float]:
    left, top = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, _FINE, _FINE, 0, x, y, ctypes.byref(left), ctypes.byref(top))
    return left.value / _FINE, top.value / _FINE


def _add_annotations(document: Any, builder: BlockBuilder) -> None:
    """Add each page's notes and filled fields, equal texts once, and record attachments and recordings."""
    if document.get_formtype() != raw.FORMTYPE_NONE:
        document.init_forms()
    form = document.formenv.raw if document.formenv else None
    for number in range(len(document)):
        page = document[number]
        said: set[str] = set()
        for index in range(raw.FPDFPage_GetAnnotCount(page.raw)):
            annotation = raw.FPDFPage_GetAnnot(page.raw, index)
            if annotation:
                kind = _LEFT_OUT.get(raw.FPDFAnnot_GetSubtype(annotation))
                builder.leave_out(kind, f"page {number + 1}") if kind else None
                text = _annotation_text(annotation, form)
                raw.FPDFPage_CloseAnnot(annotation)
                if text not in said:
                    said.add(text)
                    builder.lines(text, page=number + 1)
        page.close()


def _annotation_text(annotation: Any, form: Any) -> str:
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind != raw.FPDF_ANNOT_WIDGET:
        return "" if kind == raw.FPDF_ANNOT_POPUP else _read_wide(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if form is None or raw.FPDFAnnot_GetFormFieldType(form, annotation) not in _FIELDS:
        return ""
    value = _read_wide(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
    names = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
    name = next((text for get in names if (text := _read_wide(get, form, annotation).strip())), "")
    return f"{name}: {value}" if name and value else value


def _read_wide(get: Any, *arguments: Any) -> str:
    size: int = get(*arguments, None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    get(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: size - 2].decode("utf-16-le", errors="replace")
