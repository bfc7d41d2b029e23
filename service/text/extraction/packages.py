"""Office files as packages: the parts that are not text, and variants made plain.

Variants are templates, files with macros, slide shows, and Strict Open XML.
"""

import io
import mimetypes
import re
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder
from service.text.extraction.svg import read_drawing

_LEFT_OUT = {"image": NotReadKind.PICTURE, "audio": NotReadKind.RECORDING, "video": NotReadKind.RECORDING}
_DRAWINGS = (".emf", ".wmf", ".emz", ".wmz", ".svg")
_OBJECT = re.compile(rb"<draw:object-ole[\s/>]")
_PICTURE_BYTES = 64 << 20
_TYPES = "[Content_Types].xml"
# What the libraries refuse, and what they take; macros are in a part of their own, which nobody reads.
_VARIANT = re.compile(
    rb"application/vnd\.(?:ms-word|ms-powerpoint|ms-excel|openxmlformats-officedocument)\."
    rb"(?:(document|presentation|slideshow|template|sheet)\.macroEnabled(?:Template)?|"
    rb"(wordprocessingml|presentationml|spreadsheetml)\.(?:template|slideshow))\.?(?:main)?\+xml"
)
_STRICT = b"http://purl.oclc.org/ooxml/"
_STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_PLAIN_NAME = rb"http://schemas.openxmlformats.org/\1/2006/"
_MAIN = {"word/": b"wordprocessingml.document", "ppt/": b"presentationml.presentation", "xl/": b"spreadsheetml.sheet"}


def leave_out_entries(archive: zipfile.ZipFile, builder: BlockBuilder, *, copies: Collection[str] = ()) -> None:
    """Note the pictures, sounds and films that an OpenDocument file or a book holds, and objects of other programs.

    Of pictures that are kept in several forms, the `copies` that are not to be read are passed over.
    """
    names = archive.namelist()
    if "content.xml" in names:
        builder.leave_out(NotReadKind.EMBEDDED, count=len(_OBJECT.findall(archive.read("content.xml"))))
    for name in names:
        # Pictures of objects and of the first page stand for what is there otherwise, others for a program's buttons.
        if name not in copies and not name.startswith(("Thumbnails/", "ObjectReplacements/", "Configurations2/")):
            kind = (mimetypes.guess_type(name)[0] or "").partition("/")[0]
            if kind == "image":
                note_entry(archive, name, builder)
            elif kind in _LEFT_OUT:
                builder.leave_out(_LEFT_OUT[kind])


def is_drawing(name: str) -> bool:
    """Return whether an entry is called a drawing, whose text is read without text recognition."""
    return name.lower().endswith(_DRAWINGS)


def choose_form(archive: zipfile.ZipFile, forms: Sequence[str], builder: BlockBuilder) -> str:
    """Return which of the entries that show the same picture is to be read: a drawing with text, or else a bitmap."""
    key = tuple(forms)
    if key not in builder.forms_chosen:
        builder.forms_chosen[key] = _choose(archive, forms)
    return builder.forms_chosen[key]


def _choose(archive: zipfile.ZipFile, forms: Sequence[str]) -> str:
    for name in forms if len(forms) > 1 else ():
        if is_drawing(name) and (drawing := read_drawing(_read_picture(archive, name))) and drawing.lines:
            return name
    return next((name for name in forms if not is_drawing(name)), forms[0])


def note_entry(
    archive: zipfile.ZipFile,
    name: str,
    builder: BlockBuilder,
    where: str = "",
    *,
    page: int | None = None,
    is_preview: bool = False,
) -> None:
    """Note a picture that is an entry of an archive: drawings are read at once, others if text recognition is to.

    A damaged one is left out. Of the preview of an object, which is noted itself, only the text is read.
    """
    if not (is_preview or is_drawing(name) or builder.limits.finds_pictures):
        builder.leave_out(NotReadKind.PICTURE, where)
        return
    # The same bytes say nothing new.
    if name in builder.entries_read:
        return
    builder.entries_read.add(name)
    content = _read_picture(archive, name)
    if is_preview:
        builder.preview(content, page=page)
    else:
        builder.picture(name, content, where, page=page)


def _read_picture(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the first bytes of an entry, as many as a picture has; none of one that is damaged."""
    try:
        with archive.open(name) as entry:
            return entry.read(_PICTURE_BYTES)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, LookupError):
        return b""


def as_document(path: Path) -> IO[bytes]:
    """Return an Office file open for reading; a variant as a plain copy in memory, without pictures and macros."""
    with zipfile.ZipFile(path) as archive:
        types = archive.read(_TYPES)
        if not _VARIANT.search(types) and _STRICT not in archive.read("_rels/.rels"):
            return path.open("rb")
        copy = io.BytesIO()
        names = archive.namelist()
        kind = next(kind for folder, kind in _MAIN.items() if any(name.startswith(folder) for name in names))
        main = b"application/vnd.openxmlformats-officedocument." + kind + b".main+xml"
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as plain:
            for name in dict.fromkeys(names):
                content = archive.read(name) if name.endswith((".xml", ".rels")) else b""
                content = _STRICT_NAME.sub(_PLAIN_NAME, content)
                plain.writestr(name, _VARIANT.sub(main, content) if name == _TYPES else content)
    copy.seek(0)
    return copy
