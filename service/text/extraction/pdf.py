# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportPrivateImportUsage=false
# pypdfium2 is untyped: this module is all of it that we use.
"""PDF through PDFium: the lines of each page with their size and position, of which `pdf_layout` makes blocks.

What was filled into forms and noted on pages follows the text.
"""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import Unreadable, corrupt_file, encrypted_file, too_complex, without_text
from service.text.extraction.pdf_layout import Line, add_pages

# A whole PDF ends with this mark; PDFium reads what is left of a cut one, and pages would be missing silently.
_END_MARK = b"%%EOF"
_TAIL = 16_384
# Points of a page, and units of a screen, that are far enough apart for rounding not to matter.
_FAR, _FINE = 1_000, 1_000_000
# In points: a quarter of an inch.
_SMALLEST = 18
_MOST_PICTURES = 200
# The characters that a recognized picture of a whole page has over it; a stamped page number is fewer.
_RECOGNIZED = 100
# The part of a page from which a picture is the page.
_PAGE_SIZED = 0.5
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
    """How points of a page become parts of it as it is shown: what an origin is moved by, for each point to the right
    and up.
    """

    left: float
    top: float
    across: tuple[float, float]
    down: tuple[float, float]

    def locate(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is shown, in parts of the page from its upper left corner, within the page."""
        left = self.left + x * self.across[0] + y * self.across[1]
        top = self.top + x * self.down[0] + y * self.down[1]
        return round(min(max(left, 0.0), 1.0), 4), round(min(max(top, 0.0), 1.0), 4)


def parse_pdf(path: Path, builder: BlockBuilder) -> str | None:
    """Add a PDF's text; Unreadable when it has a password, is cut off, or holds only pictures of text."""
    _check_end(path)
    document = _open(path)
    try:
        if len(document) > builder.limits.pages:
            raise too_complex(f"The PDF has {len(document):,} pages; at most {builder.limits.pages:,} are read.")
        title = document.get_metadata_value("Title")
        add_pages(_pages(document, builder, with_pictures=_holds_pictures(path)), builder)
        _add_annotations(document, builder)
        if document.get_formtype() == raw.FORMTYPE_XFA_FULL:
            builder.leave_out(NotReadKind.FORM)
        builder.leave_out(NotReadKind.ATTACHMENT, count=document.count_attachments())
    except pdfium.PdfiumError as error:
        raise corrupt_file("PDF") from error
    finally:
        document.close()
    if not builder.has_contents:
        raise without_text(
            "The PDF has no text in it: it is blank, a scan, or drawn. Run text recognition (OCR) over it and send the "
            "result."
        )
    return _usable(title)


def _check_end(path: Path) -> None:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL, 0))
        if _END_MARK not in file.read():
            raise corrupt_file("PDF")


def _open(path: Path) -> Any:
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> Unreadable:
    code = getattr(error, "err_code", None)
    if code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
        return encrypted_file("PDF")
    return corrupt_file("PDF")


def _pages(document: Any, builder: BlockBuilder, *, with_pictures: bool) -> list[list[Line]]:
    """Return the lines of each page, and note the pictures of those that have no text and of the others."""
    characters = builder.limits.characters
    pages: list[list[Line]] = []
    total = 0
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        lines = _lines(text_page, _measure(page))
        unread = _unread_pictures(page, text_page) if with_pictures or not lines else []
        if unread and (not lines or max(unread) >= _PAGE_SIZED):
            builder.scan(number + 1)
        else:
            builder.leave_out(NotReadKind.PICTURE, f"page {number + 1}", count=len(unread))
        text_page.close()
        page.close()
        total += sum(len(line.text) for line in lines)
        if total > characters:
            raise too_complex(f"The file holds more than {characters:,} characters of text.")
        pages.append(lines)
    return pages


def _holds_pictures(path: Path) -> bool:
    """Return whether a PDF holds a picture as an object of its own, so that looking at each page's objects pays."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return _PICTURE.search(content) is not None


def _unread_pictures(page: Any, text_page: Any) -> list[float]:
    """Return the part of the page that each picture covers which has less text over it than recognition leaves.

    Smaller ones are lines and marks.
    """
    unread: list[float] = []
    width, height = page.get_size()
    for picture in islice(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3), _MOST_PICTURES):
        left, bottom, right, top = _bounds(picture)
        if right - left >= _SMALLEST and top - bottom >= _SMALLEST:
            part = min((right - left) * (top - bottom) / max(width * height, 1.0), 1.0)
            text = "".join(text_page.get_text_bounded(left, bottom, right, top).split())
            if len(text) < max(part * _RECOGNIZED, 1):
                unread.append(part)
    return unread


def _bounds(picture: Any) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of a picture on its page; PDFium measures it in the form that holds it."""
    bounds = picture.get_bounds()
    form = picture.container
    while form is not None:
        bounds = form.get_matrix().on_rect(*bounds)
        form = form.container
    return bounds


def _lines(text_page: Any, frame: _Frame) -> list[Line]:
    """Return a page's lines; the position of each is read from PDFium at its first and its last character."""
    count: int = text_page.count_chars()
    text: str = text_page.get_text_range(0, count) if count else ""
    # PDFium counts in UTF-16 and leaves some characters out of its text; places are told only where the two agree.
    located = len(text) == count
    lines: list[Line] = []
    start = 0
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped:
            first = start + len(line) - len(line.lstrip())
            ends = _extents(text_page, first, first + len(stripped) - 1) if located else []
            lines.append(_to_line(stripped, ends, frame))
        start += len(line) + 1
    return lines


def _to_line(text: str, ends: Sequence[Any], frame: _Frame) -> Line:
    """Return a line between two characters' em boxes, the first of which tells its size; without any, its text."""
    if not ends:
        return Line(text)
    corners = [frame.locate(x, y) for box in ends for x, y in ((box.left, box.bottom), (box.right, box.top))]
    across, down = zip(*corners, strict=True)
    edges = (min(across), min(down), max(across), max(down))
    return Line(text, bottom=ends[0].bottom, top=ends[0].top, box=edges)


def _extents(text_page: Any, *indexes: int) -> list[Any]:
    """Return the em boxes of characters, in points from the page's lower left corner; nothing if one is unknown."""
    boxes: list[Any] = []
    for index in indexes:
        box = raw.FS_RECTF()
        if not raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
            return []
        boxes.append(box)
    return boxes


def _measure(page: Any) -> _Frame:
    """Return where points of a page stand when it is shown: cut to its visible part, and turned."""
    origin, right, up = (_show(page, x, y) for x, y in ((0, 0), (_FAR, 0), (0, _FAR)))
    return _Frame(
        *origin,
        across=((right[0] - origin[0]) / _FAR, (up[0] - origin[0]) / _FAR),
        down=((right[1] - origin[1]) / _FAR, (up[1] - origin[1]) / _FAR),
    )


def _show(page: Any, x: float, y: float) -> tuple[float, float]:
    """Return where a point of a page is shown, in parts of the page from its upper left corner."""
    left, top = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, _FINE, _FINE, 0, x, y, ctypes.byref(left), ctypes.byref(top))
    return left.value / _FINE, top.value / _FINE


def _add_annotations(document: Any, builder: BlockBuilder) -> None:
    """Add each page's filled form fields with their names, and the texts of its notes."""
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
    """Return the value of a text or choice field after its name, the text of a note, or nothing."""
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind != raw.FPDF_ANNOT_WIDGET:
        return "" if kind == raw.FPDF_ANNOT_POPUP else _wide(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if form is None or raw.FPDFAnnot_GetFormFieldType(form, annotation) not in _FIELDS:
        return ""
    value = _wide(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()
    names = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
    name = next((text for get in names if (text := _wide(get, form, annotation).strip())), "")
    return f"{name}: {value}" if name and value else value


def _wide(get: Any, *arguments: Any) -> str:
    """Return the UTF-16 text of a PDFium function that is asked for its length first."""
    size: int = get(*arguments, None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    get(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: size - 2].decode("utf-16-le", errors="replace")


def _usable(title: str | None) -> str | None:
    text = (title or "").strip()
    written_by_program = text.lower().startswith(("microsoft ", "untitled", "slide 1"))
    return None if written_by_program or text.lower().endswith((".doc", ".docx", ".indd", ".pdf")) else text or None
