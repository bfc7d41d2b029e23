"""Reading a single file into blocks; runs inside a worker process, but doesn't depend on it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path

from carrel.wire.formats import FORMATS, NotReadKind
from service.text.extraction.blocks import Extraction
from service.text.extraction.building import BlockBuilder, Limits, choose_title, is_placeholder, one_line
from service.text.extraction.failures import Unreadable, corrupt_file, without_text
from service.text.extraction.packages import check_archive, is_archive
from service.text.extraction.sniffing import EXCEL, POWERPOINT, TEXT, WORD, XML, sniff


def _find_reader(named: str) -> Callable[[Path, BlockBuilder], str | None]:
    module, _, function = named.partition(".")
    parse = getattr(import_module(f"service.text.extraction.{module}"), function)
    if next(iter(signature(parse).parameters)) != "data":
        return parse
    return lambda path, builder: parse(path.read_bytes(), builder)


# Formats whose headings are names of sheets, subjects of messages, or names of entries.
_HEADED_BY_PARTS = frozenset(
    [*("Excel", "Excel 97", "binary Excel", "OpenDocument sheets"), *("mailbox", "calendar", "contacts", "LDIF")]
)
_PAGES = frozenset({"HTML", "web archive"})  # the text of the page includes the title
# Headings are chapters if the file names a title.
_BOOKS = frozenset({"EPUB", "Org"})
# Each reader adds a file's blocks to the builder, and returns the file's title.
READERS: Mapping[str, Callable[[Path, BlockBuilder], str | None]] = {
    each.name: _find_reader(each.reader) for each in FORMATS
}
# Packages of which only XML and pictures are read.
_ARCHIVES = (WORD, POWERPOINT, EXCEL)
# Formats that may contain pictures and the like, but whose readers don't report them.
_SILENT = frozenset(
    [*("binary Excel", "Jupyter notebook", "reStructuredText", "Org"), *("HTML", "Markdown", "TeX", "XML")]
)


def parse_file(path: Path, file_name: str, limits: Limits) -> Extraction:
    """Return a file's text; raise Unreadable when it can't or mustn't be read."""
    file_format = sniff(path, file_name)
    builder = BlockBuilder(limits, file_name)
    if file_format.within and is_archive(path):
        check_archive(path, limits, whole=file_format not in _ARCHIVES, for_library=file_format.name == "EPUB")
    try:
        named = READERS[file_format.name](path, builder)
    except Unreadable as refusal:
        # A file that only begins like XML, such as a log, is text.
        if refusal.code != "file_corrupt" or file_format is not XML or file_name.lower().endswith(XML.suffixes):
            raise
        file_format, named = TEXT, READERS[TEXT.name](path, builder)
    except BaseException as error:
        if not builder.has_contents or isinstance(error, RecursionError):
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
        raise without_text("The file has no text in it. Check that you sent the right file.")
    is_headed = file_format.name not in _HEADED_BY_PARTS and not (named and file_format.name in _BOOKS)
    title = choose_title(named, builder.blocks if is_headed else ())
    is_text = named and (not is_placeholder(named) or (file_format.name in _PAGES and any(map(str.isalpha, named))))
    if named and is_text and one_line(named).casefold() not in (title or "").casefold():
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
