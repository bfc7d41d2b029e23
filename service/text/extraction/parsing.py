"""Reading one file into blocks; runs inside a worker process, without knowing that."""

from collections.abc import Callable, Mapping
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction.archives import check_archive
from service.text.extraction.blocks import Extraction
from service.text.extraction.building import BlockBuilder, Limits, one_line
from service.text.extraction.containers import parse_archive
from service.text.extraction.converted import convert
from service.text.extraction.delimited import parse_csv, parse_tsv
from service.text.extraction.failures import Unreadable, corrupt_file, without_text
from service.text.extraction.html_pages import parse_html
from service.text.extraction.json_documents import parse_json, parse_json_lines
from service.text.extraction.mail import parse_mail, parse_mailbox, parse_web_archive
from service.text.extraction.markdown import parse_markdown
from service.text.extraction.office import parse_docx, parse_pptx
from service.text.extraction.opendocument import parse_odp, parse_odt
from service.text.extraction.outlook import parse_outlook
from service.text.extraction.pdf import parse_pdf
from service.text.extraction.pictures import PICTURES, parse_picture, parse_svg
from service.text.extraction.plain import parse_plain
from service.text.extraction.powerpoint97 import parse_ppt
from service.text.extraction.records import parse_calendar, parse_contacts, parse_ldif, parse_subtitles
from service.text.extraction.rtf import parse_rtf
from service.text.extraction.sheets import parse_other_sheets, parse_xlsx
from service.text.extraction.sniffing import EXCEL, POWERPOINT, TEXT, WORD, XML, sniff
from service.text.extraction.tex import parse_tex
from service.text.extraction.titles import choose_title, is_placeholder
from service.text.extraction.within import find_in_text
from service.text.extraction.word97 import parse_doc
from service.text.extraction.xml_documents import parse_xml


def _read(parse: Callable[[bytes, BlockBuilder], str | None]) -> Callable[[Path, BlockBuilder], str | None]:
    """Return a reader that passes a file's bytes to `parse`."""
    return lambda path, builder: parse(path.read_bytes(), builder)


# The headings of these are names of sheets, subjects of messages, and names of entries.
_HEADED_BY_PARTS = frozenset(
    [*("Excel", "Excel 97", "binary Excel", "OpenDocument sheets"), *("mailbox", "calendar", "contacts", "LDIF")]
)
# Their headings are chapters where they name a title.
_BOOKS = frozenset({"EPUB", "Org"})
_SHEETS = ("Excel 97", "binary Excel", "OpenDocument sheets")
_CONVERTED = ("EPUB", "Jupyter notebook", "reStructuredText", "Org")


def _parse_html(data: bytes, builder: BlockBuilder) -> str | None:
    title = parse_html(data, builder)
    find_in_text(data, builder)
    return title


# Each adds a file's blocks to the builder, and returns the title that the file names.
READERS: Mapping[str, Callable[[Path, BlockBuilder], str | None]] = {
    "PDF": parse_pdf,
    "Word": parse_docx,
    "PowerPoint": parse_pptx,
    "Excel": parse_xlsx,
    "CSV": _read(parse_csv),
    "TSV": _read(parse_tsv),
    "HTML": _read(_parse_html),
    "Markdown": _read(parse_markdown),
    "text": _read(parse_plain),
    "JSON": _read(parse_json),
    "JSON Lines": _read(parse_json_lines),
    "mail": _read(parse_mail),
    "Outlook message": parse_outlook,
    "Outlook attachments": _read(parse_mail),
    "web archive": _read(parse_web_archive),
    "calendar": _read(parse_calendar),
    "contacts": _read(parse_contacts),
    "LDIF": _read(parse_ldif),
    "subtitles": _read(parse_subtitles),
    "mailbox": _read(parse_mailbox),
    "XML": _read(parse_xml),
    "TeX": _read(parse_tex),
    "OpenDocument text": parse_odt,
    "OpenDocument slides": parse_odp,
    "RTF": _read(parse_rtf),
    "PowerPoint 97": parse_ppt,
    "Word 97": parse_doc,
    "ZIP": parse_archive,
    **{name: parse_other_sheets(name) for name in _SHEETS},
    **{name: convert(name) for name in _CONVERTED},
    **dict.fromkeys(PICTURES, parse_picture),
    "SVG": _read(parse_svg),
}
_ARCHIVES = (WORD, POWERPOINT, EXCEL)
# Archives of which anything may be read, not only XML.
_WHOLE_ARCHIVES = ("EPUB", "binary Excel", "OpenDocument text", "OpenDocument sheets", "OpenDocument slides")
# Readers of formats that may hold pictures and the like, and that don't note them.
_SILENT = frozenset(
    [*("binary Excel", "Jupyter notebook", "reStructuredText", "Org"), *("HTML", "Markdown", "TeX", "XML")]
)


def parse_file(path: Path, file_name: str, limits: Limits) -> Extraction:
    """Return a file's text; raise Unreadable with the reason when it can't or mustn't be read."""
    file_format = sniff(path, file_name)
    builder = BlockBuilder(limits)
    if file_format in _ARCHIVES or file_format.name in _WHOLE_ARCHIVES:
        check_archive(path, limits, whole=file_format not in _ARCHIVES)
    try:
        named = READERS[file_format.name](path, builder)
    except Unreadable as refusal:
        # What only begins like XML, such as a log, is text.
        if refusal.code != "file_corrupt" or file_format is not XML or file_name.lower().endswith(XML.suffixes):
            raise
        file_format, named = TEXT, READERS[TEXT.name](path, builder)
    except BaseException as error:
        if not builder.has_contents:
            raise
        builder.skip("rest of the file", error)
        named = None
    if not builder.has_contents:
        if builder.has_skipped:
            raise corrupt_file(file_format.name, "\n".join(builder.causes))
        if not limits.finds_pictures and any(part.kind is NotReadKind.PICTURE for part in builder.not_read):
            raise without_text(
                "The file holds pictures and no text. Load it with readPictures, so that text in its pictures is read."
            )
        raise without_text("The file has no text in it. Check that it is the file you meant to send.")
    is_headed = file_format.name not in _HEADED_BY_PARTS and not (named and file_format.name in _BOOKS)
    title = choose_title(named, builder.blocks if is_headed else ())
    if named and title and not is_placeholder(named) and one_line(named).casefold() not in title.casefold():
        builder.page = builder.sheet = None
        builder.paragraph(named)
    is_silent = file_format.name in _SILENT or not builder.tells_rest
    not_read = None if is_silent and not builder.has_skipped else builder.not_read
    scanned, file_count = tuple(builder.scanned), builder.file_count
    return Extraction(
        file_format.media_type,
        title,
        tuple(builder.blocks),
        not_read,
        scanned,
        file_count=file_count,
        pictures=tuple(builder.pictures),
        causes=tuple(builder.causes),
    )
