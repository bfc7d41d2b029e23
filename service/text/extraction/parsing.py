"""One file to its blocks; runs inside a worker process, and knows nothing of it."""

from collections.abc import Callable
from pathlib import Path

from service.text.extraction.archives import check_archive
from service.text.extraction.blocks import Extraction
from service.text.extraction.building import BlockBuilder, Limits, one_line
from service.text.extraction.delimited import parse_csv, parse_tsv
from service.text.extraction.failures import without_text
from service.text.extraction.html_pages import parse_html
from service.text.extraction.json_documents import parse_json, parse_json_lines
from service.text.extraction.mail import parse_mail
from service.text.extraction.markdown import parse_markdown
from service.text.extraction.office import parse_docx, parse_pptx
from service.text.extraction.pdf import parse_pdf
from service.text.extraction.plain import parse_plain
from service.text.extraction.sheets import parse_xlsx
from service.text.extraction.sniffing import FileKind, sniff

_TITLE_CHARACTERS = 300

_FROM_PATH: dict[FileKind, Callable[[Path, BlockBuilder], str | None]] = {
    FileKind.PDF: parse_pdf,
    FileKind.DOCX: parse_docx,
    FileKind.PPTX: parse_pptx,
    FileKind.XLSX: parse_xlsx,
}
_FROM_BYTES: dict[FileKind, Callable[[bytes, BlockBuilder], str | None]] = {
    FileKind.CSV: parse_csv,
    FileKind.TSV: parse_tsv,
    FileKind.HTML: parse_html,
    FileKind.MARKDOWN: parse_markdown,
    FileKind.TEXT: parse_plain,
    FileKind.JSON: parse_json,
    FileKind.JSON_LINES: parse_json_lines,
    FileKind.EML: parse_mail,
}
_ARCHIVES = frozenset({FileKind.DOCX, FileKind.PPTX, FileKind.XLSX})


def parse_file(path: Path, file_name: str, limits: Limits) -> Extraction:
    """Return what the file says; Unreadable with the reason when it can't or mustn't be read."""
    kind = sniff(path, file_name)
    builder = BlockBuilder(limits)
    if kind in _ARCHIVES:
        check_archive(path, limits)
    title = _FROM_PATH[kind](path, builder) if kind in _FROM_PATH else _FROM_BYTES[kind](path.read_bytes(), builder)
    if not builder.blocks:
        raise without_text("The file has no text in it. Check that it is the file you meant to send.")
    found = one_line(title or "") or builder.first_heading() or ""
    return Extraction(kind.value, found[:_TITLE_CHARACTERS] or None, tuple(builder.blocks))
