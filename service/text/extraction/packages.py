# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""Office files as ZIP packages: checks of kind and size, conversion to plain files, parts without text, Visio, XPS."""

import io
import mimetypes
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import unquote
from xml.parsers import expat

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from carrel.wire.formats import BY_NAME, NotReadKind
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.failures import Unreadable, corrupt_file, damaged_file, encrypted_file, too_complex
from service.text.extraction.svg import read_drawing

# A smaller archive may compress well; the ratio matters from this size on.
_RATIO_FROM = 32 << 20
_READ = 1 << 20
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
ENCRYPTED = 0x1  # the bit in an entry's flags for a required password
# ECMA-376 part 2 forbids document type declarations in a package, so such a file is an attack or not an Office file.
# OpenDocument's macros and pages of e-books refer to an external document type, and declare nothing.
_DOCTYPE = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_DECLARES = re.compile(rb"<!\s*(?:DOCTYPE[^>\[]*\[|ENTITY)", re.IGNORECASE)
_HEAD = 65_536
_MANIFEST, _ENCRYPTION = "META-INF/manifest.xml", b"encryption-data"


def open_archive(path: Path | IO[bytes]) -> zipfile.ZipFile:
    """Open an archive, replacing backslashes in names by slashes. Raises Unreadable when damaged."""
    try:
        archive = zipfile.ZipFile(path)
    except (*DAMAGED, ValueError, NotImplementedError) as error:
        raise corrupt_file("an Office document") from error
    for entry in archive.filelist:
        entry.filename = entry.filename.replace("\\", "/").lstrip("/")
    archive.NameToInfo = {entry.filename: entry for entry in archive.filelist}
    return archive


def is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def check_archive(path: Path | IO[bytes], limits: Limits, *, whole: bool, for_library: bool = False) -> None:
    """Raise Unreadable unless the archive is whole, unencrypted, within limits and free of XML tricks, by unpacking
    every XML entry (`whole`: every entry): headers may lie. Damaged entries are refused only `for_library`."""
    with open_archive(path) as archive:
        entries = archive.infolist()
        check_declared(entries, limits)
        for entry in entries:
            if whole or _is_markup(entry.filename):
                try:
                    _check_entry(archive, entry, limits, _DECLARES if whole else _DOCTYPE)
                except (*DAMAGED, ValueError) as error:
                    if for_library:
                        raise corrupt_file("an e-book") from error


def check_declared(entries: list[zipfile.ZipInfo], limits: Limits) -> None:
    """Raise Unreadable when the declared sizes of an archive's entries exceed the limits."""
    if len(entries) > limits.archive_entries:
        raise too_complex(f"The file is an archive of more than {limits.archive_entries:,} parts.")
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    check_size(total, packed, limits, largest=max((entry.file_size for entry in entries), default=0))


def check_size(total: int, packed: int, limits: Limits, *, largest: int) -> None:
    """Raise Unreadable when the unpacked size, or the largest entry's size, exceeds the limits."""
    if total > limits.archive_bytes or largest > limits.entry_bytes:
        raise too_complex(f"The file unpacks to {total:,} bytes, more than is accepted.")
    if total > _RATIO_FROM and total > packed * limits.archive_ratio:
        raise too_complex(f"The file unpacks to {total // max(packed, 1):,} times its size.")


def _check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits, refused: re.Pattern[bytes]) -> None:
    """Raise Unreadable for a password, declared XML entities, or an entry that unpacks to too much."""
    if entry.flag_bits & ENCRYPTED:
        raise Unreadable("file_encrypted", "The file has a password. Send a copy without the password.")
    size = 0
    with archive.open(entry) as unpacked:
        head = unpacked.read(_HEAD)
        # Without NULs, UTF-16 reads like ASCII.
        declared = head.replace(b"\x00", b"")
        if entry.filename == _MANIFEST and _ENCRYPTION in declared:
            raise encrypted_file("OpenDocument")
        if _is_markup(entry.filename) and refused.search(declared):
            raise too_complex("The file declares XML entities, which Office programs never write.")
        while data := unpacked.read(_READ):
            size += len(data)
            if size > limits.entry_bytes:
                raise too_complex("The file unpacks to more than it declares.")


def _is_markup(name: str) -> bool:
    return name.lower().endswith((".xml", ".rels"))


_LEFT_OUT = {"image": NotReadKind.PICTURE, "audio": NotReadKind.RECORDING, "video": NotReadKind.RECORDING}
_DRAWINGS = (".emf", ".wmf", ".emz", ".wmz", ".svg")
_OBJECT = re.compile(rb"<draw:object-ole[\s/>]")
# The largest entry that is read as a picture.
_LARGEST = 64 << 20
_TYPES = "[Content_Types].xml"
# Types that the libraries refuse, read as the plain type; macros are in a separate part, which is never read.
_VARIANT = re.compile(
    rb"application/vnd\.(?:ms-word|ms-powerpoint|ms-excel|openxmlformats-officedocument)\."
    rb"(?:(document|presentation|slideshow|template|sheet)\.macroEnabled(?:Template)?|"
    rb"(wordprocessingml|presentationml|spreadsheetml)\.(?:template|slideshow))\.?(?:main)?\+xml"
)
_STRICT = b"http://purl.oclc.org/ooxml/"
_STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_PLAIN_NAME = rb"http://schemas.openxmlformats.org/\1/2006/"
_MAIN = {"word/": b"wordprocessingml.document", "ppt/": b"presentationml.presentation"}
_MAIN_TYPE = b"application/vnd.openxmlformats-officedocument.%b.main+xml"
# Replacements for these two files if they are missing.
_WITHOUT_RELATIONS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    b'<Relationship Id="r1" Type="%b" Target="%b"/></Relationships>'
)
_WITHOUT_TYPES = (
    b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    b'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    b'<Default Extension="xml" ContentType="application/xml"/><Override PartName="/%b" ContentType="%b"/></Types>'
)
_OVERRIDE = "{http://schemas.openxmlformats.org/package/2006/content-types}Override"
_MAIN_PART = re.compile(r"(?:word/document|ppt/presentation|xl/workbook|visio/document)\.(?:xml|bin)", re.IGNORECASE)
_MAIN_KIND = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
# The kinds of Office, Visio and XPS.
_MAIN_KINDS = frozenset({"officeDocument", "document", "fixedrepresentation"})
_TEXT_PART = re.compile(r"word/(?:document|footnotes|endnotes|header\d*|footer\d*)\.xml|ppt/slides/slide\d+\.xml")
_PROPERTIES = re.compile(r"docprops/core\.xml", re.IGNORECASE)
_CHUNK = 1 << 16
Document = TypeVar("Document")


def leave_out_entries(archive: zipfile.ZipFile, builder: BlockBuilder, *, copies: Collection[str] = ()) -> None:
    """Record pictures, sounds, films and objects of an OpenDocument file or book, except `copies` of a picture."""
    names = archive.namelist()
    if "content.xml" in names:
        builder.leave_out(NotReadKind.EMBEDDED, count=len(_OBJECT.findall(read_undamaged(archive, "content.xml"))))
    for name in names:
        # Skip previews of objects and of the first page, which are read otherwise, and buttons of programs.
        if name not in copies and not name.startswith(("Thumbnails/", "ObjectReplacements/", "Configurations2/")):
            kind = (mimetypes.guess_type(name)[0] or "").partition("/")[0]
            if kind == "image":
                note_entry(archive, name, builder)
            elif kind in _LEFT_OUT:
                builder.leave_out(_LEFT_OUT[kind])


def is_drawing(name: str) -> bool:
    """Return whether an entry is named like a drawing; drawings need no text recognition."""
    return name.lower().endswith(_DRAWINGS)


def choose_form(archive: zipfile.ZipFile, forms: Sequence[str], builder: BlockBuilder) -> str:
    """Return the entry to read among several forms of a picture: a drawing with text, otherwise a bitmap."""
    key = tuple(forms)
    if key not in builder.forms_chosen:
        builder.forms_chosen[key] = _choose(archive, forms)
    return builder.forms_chosen[key]


def _choose(archive: zipfile.ZipFile, forms: Sequence[str]) -> str:
    for name in forms if len(forms) > 1 else ():
        drawing = read_drawing(read_undamaged(archive, name, most=_LARGEST)) if is_drawing(name) else None
        if drawing is not None and drawing.lines:
            return name
    return next((name for name in forms if not is_drawing(name)), forms[0])


def note_entry(
    archive: zipfile.ZipFile,
    name: str,
    builder: BlockBuilder,
    label: str = "",
    *,
    page: int | None = None,
    is_preview: bool = False,
) -> None:
    """Record a picture in an archive: a drawing is read now, a bitmap by OCR later; a preview gives only text."""
    if not (is_preview or is_drawing(name) or builder.limits.finds_pictures):
        builder.leave_out(NotReadKind.PICTURE, label)
        return
    # Equal bytes contain no new text.
    if name in builder.entries_read:
        return
    builder.entries_read.add(name)
    content = read_undamaged(archive, name, most=_LARGEST)
    if is_preview:
        builder.preview(content, page=page)
    else:
        builder.picture(name, content, label, page=page)


def read_main(archive: zipfile.ZipFile, name: str, builder: BlockBuilder, what: str, piece: bytes) -> bytes:
    """Return a file's main part; of a damaged part only the whole pieces named `piece`. Records the damage."""
    damage: list[Exception] = []
    content = read_undamaged(archive, name, tell=damage.append)
    for error in damage:
        builder.skip(what, error)
        # Damage is noticed late: nonsense may begin one piece before the first XML error.
        parser = expat.ParserCreate()
        with suppress(expat.ExpatError):
            parser.Parse(content)
        content = content[: parser.ErrorByteIndex]
        ends = [0, 0, *(found.end() for found in re.finditer(rb"/(?:\w+:)?(?:%b)\s*>" % piece, content))]
        content = content[: ends[-2]]
    return content


def read_undamaged(archive: zipfile.ZipFile, name: str, *, most: int | None = None, tell: Any = id) -> bytes:
    """Return an entry's bytes with the usual XML names, empty if absent; `tell` receives the error of any damage."""
    content = bytearray()
    try:
        with archive.open(name) as entry:
            while (most is None or len(content) < most) and (data := entry.read(_CHUNK)):
                content += data
    except LookupError:
        pass
    except DAMAGED as error:
        tell(error)
    if _STRICT in content[:_CHUNK] and name.endswith((".xml", ".rels")):
        return _STRICT_NAME.sub(_PLAIN_NAME, content)
    return bytes(content)


def read_damaged(content: bytes) -> Any:
    """Return the root of XML, or damaged XML's readable elements; None without any. Unreadable: out of memory."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        # Running out of memory has another error than damage.
        if (refusal := damaged_file("XML", error)).code != "file_corrupt":
            raise refusal from error
        return None


def related(archive: zipfile.ZipFile, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, kind and name of each part referred to by a part; "" is the package itself."""
    folder, file = posixpath.split(part)
    root = read_damaged(read_undamaged(archive, posixpath.join(folder, "_rels", f"{file}.rels")))
    for each in () if root is None else root.iter("{*}Relationship"):
        name = _find_target(part, each, archive.NameToInfo)
        if name is not None:
            yield each.get("Id") or "", (each.get("Type") or "").rpartition("/")[2], name


def _find_target(part: str, relation: Any, names: Collection[str]) -> str | None:
    """Return the entry a relationship leads to, despite programs' varying notations; None if there is none."""
    said = (relation.get("Target") or "").replace("\\", "/")
    target = posixpath.normpath(posixpath.join("/", posixpath.dirname(part), said)).lstrip("/")
    return next((name for name in (target, unquote(target)) if name in names), None)


def find_main_part(archive: zipfile.ZipFile) -> str:
    """Return an Office file's main part: by relationship, otherwise by the usual name."""
    said = (name for _, kind, name in related(archive, "") if kind in _MAIN_KINDS)
    return next(said, next(filter(_MAIN_PART.fullmatch, archive.namelist()), ""))


def read_title(archive: zipfile.ZipFile) -> str | None:
    """Return the title in an Office file's properties; None for a program's default title."""
    said = [name for _, kind, name in related(archive, "") if kind == "core-properties"]
    name = next(iter(said), next(filter(_PROPERTIES.fullmatch, archive.namelist()), ""))
    root = read_damaged(read_undamaged(archive, name))
    return None if root is None else root.findtext("{*}title")


def open_document(
    archive: zipfile.ZipFile, load: Callable[[IO[bytes]], Document], kind: str, builder: BlockBuilder
) -> Document:
    """Open a Word document or presentation with its library; variants and damaged files as a plain copy in memory."""
    types, is_plain = read_undamaged(archive, _TYPES), False
    chunks = [name for _, kind, name in related(archive, find_main_part(archive)) if kind == "aFChunk"]
    inserted = {name: read_undamaged(archive, name) for name in chunks}
    with suppress(*DAMAGED, LookupError):
        is_plain = not _VARIANT.search(types) and _STRICT not in archive.read("_rels/.rels")
    is_plain &= not any(map(_is_package, inserted.values()))
    if is_plain and archive.fp is not None and all(each.filename == each.orig_filename for each in archive.filelist):
        try:
            return load(archive.fp)
        except (MemoryError, Unreadable):
            raise
        except Exception:  # noqa: BLE001 - what a library raises on a missing part is no promise
            builder.leave_out(NotReadKind.DETAIL, "missing or damaged parts of the file")
    try:
        return load(_copy(archive, types, inserted))
    except (MemoryError, Unreadable):
        raise
    except Exception as error:
        raise damaged_file(kind, error) from error


def _is_package(content: bytes) -> bool:
    return content.startswith(b"PK")


def _copy(archive: zipfile.ZipFile, types: bytes, inserted: Mapping[str, bytes]) -> IO[bytes]:
    """Return a plain copy in memory: the XML parts, with usual names, and repaired types and relations."""
    main = find_main_part(archive)
    parts = {name: _read_plain(archive, name) for name in archive.namelist() if name != _TYPES}
    parts = {name: content for name, content in {**parts, **inserted}.items() if content is not None}
    for name in [name for name in parts if name.endswith(".rels")]:
        part = f"{name.removesuffix('.rels').replace('_rels/', '')}"
        root = read_damaged(parts[name] or b"<Relationships/>")
        for each in root.iterchildren("{*}Relationship"):
            if each.get("TargetMode") != "External" and _find_target(part, each, parts) is None:
                root.remove(each)
        parts[name] = etree.tostring(root)
    if b"officeDocument" not in parts.get("_rels/.rels", b""):
        parts["_rels/.rels"] = _WITHOUT_RELATIONS % (_MAIN_KIND, main.encode())
    kind = next((kind for folder, kind in _MAIN.items() if main.startswith(folder)), b"")
    plain = _VARIANT.sub(_MAIN_TYPE % kind, types)
    parts[_TYPES] = plain if _MAIN_TYPE % kind in plain else _WITHOUT_TYPES % (main.encode(), _MAIN_TYPE % kind)
    # Programs give an inserted file the type of its main part, which the libraries would parse as XML.
    listed = etree.fromstring(parts[_TYPES])
    for name in filter(lambda name: _is_package(inserted[name]), inserted):
        for each in [each for each in listed if each.get("PartName") == f"/{name}"]:
            listed.remove(each)
        etree.SubElement(listed, _OVERRIDE, PartName=f"/{name}", ContentType=BY_NAME["Word"].media_type)
    parts[_TYPES] = etree.tostring(listed)
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as written:
        for name, content in parts.items():
            written.writestr(name, content)
    copy.seek(0)
    return copy


def _read_plain(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """Return an XML part with the usual names, if readable; parts other than XML become empty."""
    if not name.endswith((".xml", ".rels")):
        return b""
    root = read_damaged(read_undamaged(archive, name))
    return None if root is None else etree.tostring(root)


def add_plain_texts(archive: zipfile.ZipFile, builder: BlockBuilder) -> bool:
    """Add the paragraphs of a document or presentation no library can open; return whether there are any."""
    for name in filter(_TEXT_PART.fullmatch, archive.namelist()):
        root = read_damaged(read_undamaged(archive, name))
        for paragraph in () if root is None else root.iter("{*}p"):
            builder.paragraph("".join(text.text or "" for text in paragraph.iter("{*}t")))
    return bool(builder.blocks)


_NUMBER = re.compile(r"\d+")


def parse_visio(path: Path, builder: BlockBuilder) -> str | None:
    return _add_pages(path, builder, re.compile(r".*/pages/page\d+\.xml", re.IGNORECASE), "Text", b"Text|Shape")


def parse_xps(path: Path, builder: BlockBuilder) -> str | None:
    return _add_pages(path, builder, re.compile(r".*\.fpage", re.IGNORECASE), "Glyphs", b"")


def _add_pages(path: Path, builder: BlockBuilder, pages: re.Pattern[str], tag: str, piece: bytes) -> str | None:
    with open_archive(path) as archive:
        names = sorted(filter(pages.fullmatch, archive.namelist()), key=lambda name: [*map(int, _NUMBER.findall(name))])
        for builder.page, name in enumerate(names, start=1):
            root = read_damaged(read_main(archive, name, builder, f"rest of page {builder.page}", piece))
            for text in () if root is None else root.iter(f"{{*}}{tag}"):
                builder.paragraph(text.get("UnicodeString", "").removeprefix("{}") or "".join(text.itertext()))
        return read_title(archive)
