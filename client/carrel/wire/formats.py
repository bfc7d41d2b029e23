"""The formats of files that are read, the parts of files that are not, and why files are not loaded.

This is the one place that names them.

To add a format: an entry here, its reader beside the others in `service/text/extraction`, and the reader's entry in
`READERS` there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_OFFICE = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format: its name in a sentence, its media type, and the suffixes of its files, the usual one first."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    kind: str
    """What people filter by: several formats may be of one kind."""


FORMATS = (
    FileFormat("PDF", "application/pdf", (".pdf",), "pdf"),
    FileFormat("Word", f"{_OFFICE}.wordprocessingml.document", (".docx", ".docm", ".dotx", ".dotm"), "word"),
    FileFormat(
        "PowerPoint",
        f"{_OFFICE}.presentationml.presentation",
        (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"),
        "slides",
    ),
    FileFormat("Excel", f"{_OFFICE}.spreadsheetml.sheet", (".xlsx", ".xlsm", ".xltx", ".xltm"), "sheet"),
    FileFormat("Word 97", "application/msword", (".doc", ".dot"), "word"),
    FileFormat("PowerPoint 97", "application/vnd.ms-powerpoint", (".ppt", ".pps"), "slides"),
    FileFormat("Excel 97", "application/vnd.ms-excel", (".xls",), "sheet"),
    FileFormat("binary Excel", "application/vnd.ms-excel.sheet.binary.macroEnabled.12", (".xlsb",), "sheet"),
    FileFormat("OpenDocument text", "application/vnd.oasis.opendocument.text", (".odt",), "word"),
    FileFormat("OpenDocument sheets", "application/vnd.oasis.opendocument.spreadsheet", (".ods",), "sheet"),
    FileFormat("OpenDocument slides", "application/vnd.oasis.opendocument.presentation", (".odp",), "slides"),
    FileFormat("RTF", "application/rtf", (".rtf",), "word"),
    FileFormat("EPUB", "application/epub+zip", (".epub",), "text"),
    FileFormat("CSV", "text/csv", (".csv",), "table"),
    FileFormat("TSV", "text/tab-separated-values", (".tsv", ".tab"), "table"),
    FileFormat("HTML", "text/html", (".html", ".htm", ".xhtml"), "web"),
    FileFormat("Markdown", "text/markdown", (".md", ".markdown", ".mdown"), "markdown"),
    FileFormat("text", "text/plain", (".txt", ".text", ".log"), "text"),
    FileFormat("JSON", "application/json", (".json",), "data"),
    FileFormat("JSON Lines", "application/jsonl", (".jsonl", ".ndjson"), "data"),
    FileFormat("XML", "application/xml", (".xml",), "data"),
    FileFormat("TeX", "application/x-tex", (".tex", ".latex", ".ltx"), "text"),
    FileFormat("Jupyter notebook", "application/x-ipynb+json", (".ipynb",), "text"),
    FileFormat("reStructuredText", "text/x-rst", (".rst",), "text"),
    FileFormat("Org", "text/x-org", (".org",), "text"),
    FileFormat("Outlook message", "application/vnd.ms-outlook", (".msg",), "mail"),
    FileFormat("mailbox", "application/mbox", (".mbox",), "mail"),
    FileFormat("PNG", "image/png", (".png",), "picture"),
    FileFormat("JPEG", "image/jpeg", (".jpg", ".jpeg", ".jpe"), "picture"),
    FileFormat("TIFF", "image/tiff", (".tif", ".tiff"), "picture"),
    FileFormat("WebP", "image/webp", (".webp",), "picture"),
    FileFormat("GIF", "image/gif", (".gif",), "picture"),
    FileFormat("BMP", "image/bmp", (".bmp",), "picture"),
    FileFormat("SVG", "image/svg+xml", (".svg",), "picture"),
    FileFormat("Outlook attachments", "application/vnd.ms-tnef", (".tnef",), "mail"),
    FileFormat("web archive", "application/x-mimearchive", (".mht", ".mhtml"), "web"),
    FileFormat("calendar", "text/calendar", (".ics", ".ical"), "text"),
    FileFormat("contacts", "text/vcard", (".vcf", ".vcard"), "text"),
    FileFormat("LDIF", "text/x-ldif", (".ldif",), "data"),
    FileFormat("subtitles", "text/vtt", (".vtt", ".srt"), "text"),
    FileFormat("mail", "message/rfc822", (".eml", ".emlx"), "mail"),
    FileFormat("ZIP", "application/zip", (".zip",), "archive"),
)
BY_SUFFIX: Mapping[str, FileFormat] = {suffix: each for each in FORMATS for suffix in each.suffixes}
BY_NAME: Mapping[str, FileFormat] = {each.name: each for each in FORMATS}


UNREAD_SUFFIXES = frozenset(
    [
        *(".exe", ".dll", ".so", ".dylib", ".msi", ".class", ".o", ".pyc", ".jar", ".apk", ".dmg", ".iso", ".bin"),
        *(".mp4", ".mov", ".avi", ".mkv", ".webm", ".wmv", ".m4v", ".mp3", ".wav", ".m4a", ".flac", ".ogg", ".wma"),
        *(".7z", ".rar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".tar", ".cab"),
        *(".sqlite", ".mdb", ".accdb", ".pst", ".ost", ".pages", ".numbers", ".key", ".one", ".pub", ".mpp"),
        *(".vsd", ".vsdx", ".dwg", ".psd", ".indd", ".eps", ".heic", ".heif", ".avif", ".ico"),
        *(".woff", ".woff2", ".ttf", ".otf"),
    ]
)
"""Suffixes of files that are refused as being of a format that isn't read, as long as they are what their names say."""


class NotReadKind(StrEnum):
    """What a file may hold that isn't read, so that nobody finds what it says."""

    PAGE = "page"
    """A page that has pictures and no text: a scan."""
    PICTURE = "picture"
    """A picture, whatever is written in it."""
    ATTACHMENT = "attachment"
    """A file that a mail carries and that is no document of its own, or that is attached to a PDF."""
    EMBEDDED = "embedded"
    """A file or object of another program inside an Office file, or a file in an archive that could not be read."""
    RECORDING = "recording"
    """A sound or film."""
    SHEET = "sheet"
    """A macro sheet or dialog sheet of a workbook."""
    FORM = "form"
    """A form that only Adobe's programs draw (XFA)."""
    ENCRYPTED = "encrypted"
    """An encrypted part of a mail."""
    DETAIL = "detail"
    """A table, link, picture, property or the like that could not be read; the plain text around it was read."""


_NOT_READ = {
    NotReadKind.PAGE: ("page without a text layer", "pages without a text layer"),
    NotReadKind.PICTURE: ("picture", "pictures"),
    NotReadKind.ATTACHMENT: ("attachment", "attachments"),
    NotReadKind.EMBEDDED: ("embedded file", "embedded files"),
    NotReadKind.RECORDING: ("sound or film", "sounds or films"),
    NotReadKind.SHEET: ("macro or dialog sheet", "macro or dialog sheets"),
    NotReadKind.FORM: ("XFA form", "XFA forms"),
    NotReadKind.ENCRYPTED: ("encrypted part", "encrypted parts"),
    NotReadKind.DETAIL: ("unreadable detail", "unreadable details"),
}


def count_not_read(kind: NotReadKind, count: int) -> str:
    """Return a number of parts that were not read in words: `3 pictures`."""
    return f"{count:,} {_NOT_READ[kind][count != 1]}"


REASONS: Mapping[str, str] = {
    "file_empty": "empty",
    "file_without_text": "without text",
    "file_encrypted": "with a password",
    "file_corrupt": "damaged or cut off",
    "file_type_unsupported": "in a format that isn't read",
    "file_type_mismatch": "whose name and content disagree",
    "file_too_complex": "too complex to read",
    "file_too_large": "too large",
    "reading_late": "for which the machine was too busy",
    "archive_too_deep": "in archives within too many archives",
    "archive_too_large": "beyond what one archive or mail may hold",
    "archive_unreadable": "in an archive that can't be unpacked",
    "unpacking_stopped": "not reached before an error",
    "owner_not_active": "without an active owner",
    "file_name_invalid": "with a name that a file can't have",
    "file_unreadable": "that may not be opened",
    "folder_unreadable": "in folders that may not be listed",
    "file_changing": "written to while they were sent",
    "file_missing": "named by the manifest and not there",
    "path_escapes": "outside of the manifest's folder",
    "row_invalid": "with an invalid row in the manifest",
    "link_broken": "whose link leads nowhere",
    "link_escapes": "whose link leads out of the folder",
    "name_undecodable": "with a name that isn't UTF-8",
    "invalid_request": "with invalid values",
    "invalid_metadata": "with invalid metadata",
    "unknown_principal": "for readers that are not known",
    "unknown_user": "for readers that are not known",
    "unknown_collection": "for a collection that is not known",
    "external_id_taken": "under the id of somebody else's document",
    "owner_required": "of another owner",
    "collection_editor_required": "for a collection that may not be changed",
    "indexing_failed": "stored and not indexed",
    "connection_lost": "whose connection broke",
    "unexpected": "with an unexpected error",
}
"""Why documents were not loaded, in words that follow a number, by the code of the reason."""


def count_reasons(counts: Mapping[str, int]) -> str:
    """Return the numbers of files that were not loaded, by the codes of their reasons, in words: `2 empty`.

    A code that is not known here stands as it is: a newer service may have it.
    """
    return ", ".join(f"{count:,} {REASONS.get(code, code)}" for code, count in counts.items())


def in_words() -> str:
    """Return the names of all formats as a part of a sentence: `PDF, Word, … and mail`."""
    *first, last = (each.name for each in FORMATS)
    return f"{', '.join(first)} and {last}"
