# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportPrivateImportUsage=false
# pypdfium2 is untyped: this module is all of it that we use.
"""PDF through PDFium: the lines of each page with their size and position, of which `pdf_layout` makes blocks."""

import ctypes
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import Unreadable, corrupt_file, encrypted_file, too_complex, without_text
from service.text.extraction.pdf_layout import Line, add_pages

# A whole PDF ends with this mark; PDFium reads what is left of a cut one, and pages would be missing silently.
_END_MARK = b"%%EOF"
_TAIL = 16_384


def parse_pdf(path: Path, builder: BlockBuilder) -> str | None:
    """Add a PDF's text; Unreadable when it has a password, is cut off, or holds only pictures of text."""
    _check_end(path)
    document = _open(path)
    try:
        if len(document) > builder.limits.pages:
            raise too_complex(f"The PDF has {len(document):,} pages; at most {builder.limits.pages:,} are read.")
        title = document.get_metadata_value("Title")
        add_pages(_pages(document, builder.limits.characters), builder)
    except pdfium.PdfiumError as error:
        raise corrupt_file("PDF") from error
    finally:
        document.close()
    if not builder.blocks:
        raise without_text(
            "The PDF holds pictures but no text, as scans do. Run text recognition (OCR) over it and send the result."
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


def _pages(document: Any, characters: int) -> list[list[Line]]:
    pages: list[list[Line]] = []
    total = 0
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        lines = _lines(text_page)
        text_page.close()
        page.close()
        total += sum(len(line.text) for line in lines)
        if total > characters:
            raise too_complex(f"The file holds more than {characters:,} characters of text.")
        pages.append(lines)
    return pages


def _lines(text_page: Any) -> list[Line]:
    """Return a page's lines; the position of each is read from PDFium once, at its first character."""
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
            bottom, top = _extent(text_page, first) if located else (0.0, 0.0)
            lines.append(Line(stripped, bottom=bottom, top=top))
        start += len(line) + 1
    return lines


def _extent(text_page: Any, index: int) -> tuple[float, float]:
    """Return bottom and top of a character's em box, in points from the page's lower edge."""
    box = raw.FS_RECTF()
    if not raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
        return 0.0, 0.0
    return box.bottom, box.top


def _usable(title: str | None) -> str | None:
    text = (title or "").strip()
    written_by_program = text.lower().startswith(("microsoft ", "untitled", "slide 1"))
    return None if written_by_program or text.lower().endswith((".doc", ".docx", ".indd", ".pdf")) else text or None
