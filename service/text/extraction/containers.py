"""Files that contain separately read files: ZIP archives, gzip files, and mails with attachments."""

import gzip
import mimetypes
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from carrel.wire.file_names import is_leftover
from service.text.extraction.blocks import ContainedFile
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.failures import Unreadable, corrupt_file, encrypted_file, without_text
from service.text.extraction.mail import attachments_of, bytes_of, name_of, read_mail
from service.text.extraction.names import decode_names
from service.text.extraction.outlook import open_attachments
from service.text.extraction.packages import ENCRYPTED, check_declared, check_size
from service.text.extraction.sniffing import refuse_unread, sniff

# The most bytes read in a call: several small files, or one large file.
MOST_BYTES = 16 << 20
_UTF_8 = 0x800
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Suffixes of compressed single files, with the suffix of the file inside.
_INNER = {".gz": "", ".svgz": ".svg", ".emz": ".emf", ".wmz": ".wmf"}
# The header of a gzip file with the original name, which most programs write.
_GZIP = re.compile(rb"\x1f\x8b\x08[\x08-\x0b\x18-\x1b].{6}([^\0]{1,255})\0", re.DOTALL)
_BROKEN = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, RuntimeError, ValueError, LookupError)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file in a container: path, a function to read a number of bytes, and whether a password is needed."""

    path: str
    read: Callable[[int], bytes]
    is_encrypted: bool = False


def parse_archive(path: Path, builder: BlockBuilder) -> None:
    """Add the paths of an archive's files, read as documents of their own. Raises Unreadable without readable files."""
    with _open_archive(path, builder.limits, builder.file_name) as entries:
        if not entries:
            raise without_text("The archive holds no files. Check that you sent the right archive.")
        if all(entry.is_encrypted for entry in entries):
            raise encrypted_file("ZIP")
        builder.file_count = len(entries)
        builder.lines("\n".join(entry.path for entry in entries))


def parse_gzip(path: Path, builder: BlockBuilder) -> None:
    """Add the name of a compressed file, read as a document of its own."""
    size, packed = 0, path.stat().st_size
    try:
        with gzip.open(path) as unpacked:
            while data := unpacked.read(1 << 20):
                if not size:
                    refuse_unread(data)
                size += len(data)
                check_size(size, packed, builder.limits, largest=size)
    except _BROKEN as error:
        raise corrupt_file("a gzip file") from error
    with _open_gzip(path, builder.limits, builder.file_name) as entries:
        builder.file_count = len(entries)
        builder.lines(entries[0].path)


def read_files(
    path: Path, file_name: str, limits: Limits, *, start: int, most: int | None, largest: int
) -> list[ContainedFile]:
    """Read the files in a container from number `start`: some megabytes, at most `most` files; an empty list is the
    end. Files over `largest` bytes (0: only paths are read), damaged or encrypted have the content None."""
    found: list[ContainedFile] = []
    size = 0
    with _CONTAINERS[sniff(path, file_name).name](path, limits, file_name) as entries:
        for entry in entries[start : None if most is None else start + most]:
            file = _read(entry, min(largest, limits.entry_bytes))
            size += len(file.content or b"")
            if found and size > MOST_BYTES:
                break
            found.append(file)
    return found


def _read(entry: _Entry, largest: int) -> ContainedFile:
    """Read a file of a container; if too large, damaged or encrypted, return why instead of the content."""
    try:
        content = entry.read(largest + 1)
    except Unreadable as error:
        why = error
    except _BROKEN:
        why = encrypted_file("contained") if entry.is_encrypted else corrupt_file("a part of what it is in")
    else:
        if len(content) <= largest:
            return ContainedFile(entry.path, content)
        message = f"The file has more than {largest:,} bytes, which is the limit. Split it into smaller files."
        return ContainedFile(entry.path, None, "file_too_large", message)
    return ContainedFile(entry.path, None, why.code, why.message)


@contextmanager
def _open_archive(path: Path, limits: Limits, _file_name: str) -> Generator[Sequence[_Entry]]:
    try:
        archive = zipfile.ZipFile(path)
    except _BROKEN as error:
        raise corrupt_file("a ZIP archive") from error
    with archive:
        every = archive.infolist()
        check_declared(every, limits)
        files = [(name, item) for name, item in _name_all(every) if not item.is_dir() and not is_leftover(name)]
        paths = _clean_paths([name for name, _ in files])
        yield [
            _Entry(cleaned, partial(_read_entry, archive, item), is_encrypted=bool(item.flag_bits & ENCRYPTED))
            for cleaned, (_, item) in zip(paths, files, strict=True)
        ]


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    with archive.open(entry) as unpacked:
        return unpacked.read(most)


def _name_all(entries: Sequence[zipfile.ZipInfo]) -> Sequence[tuple[str, zipfile.ZipInfo]]:
    """Return entries with names; the encoding is guessed from all together, where Python assumes code page 437."""
    unmarked = [each for each in entries if not each.flag_bits & _UTF_8]
    named = dict(
        zip(map(id, unmarked), decode_names([each.filename.encode("cp437") for each in unmarked]), strict=True)
    )
    return [(named.get(id(each), each.filename), each) for each in entries]


@contextmanager
def _open_gzip(path: Path, _limits: Limits, file_name: str) -> Generator[Sequence[_Entry]]:
    outer = PurePosixPath(file_name)
    name = outer.stem + _INNER.get(outer.suffix.lower(), outer.suffix)
    with path.open("rb") as file:
        said = _GZIP.match(file.read(300))
    if said and not PurePosixPath(name).suffix:
        [name] = decode_names([said[1]])
    with gzip.open(path) as unpacked:
        yield [_Entry(_clean_path(name), unpacked.read)]


@contextmanager
def _open_mail(path: Path, _limits: Limits, _file_name: str) -> Generator[Sequence[_Entry]]:
    parts = attachments_of(read_mail(path.read_bytes()))
    yield _entries([(name_of(part), part.get_content_type(), partial(bytes_of, part)) for part in parts])


@contextmanager
def _open_outlook(path: Path, limits: Limits, _file_name: str) -> Generator[Sequence[_Entry]]:
    with open_attachments(path, limits.archive_bytes) as parts:
        yield _entries(parts)


def _entries(parts: Sequence[tuple[str, str, Callable[[], bytes]]]) -> list[_Entry]:
    paths = _clean_paths([name or f"attachment{mimetypes.guess_extension(kind) or ''}" for name, kind, _ in parts])
    return [_Entry(path, lambda most, get=get: get()[:most]) for path, (_, _, get) in zip(paths, parts, strict=True)]


def _clean_paths(names: Sequence[str]) -> list[str]:
    """Return names as unique relative paths without odd characters; paths that leave the container are left out."""
    used: dict[str, int] = {}
    return [_unique(_clean_path(name), used) for name in names]


def _clean_path(name: str) -> str:
    parts = (part.strip() for part in _ODD.sub("_", name).replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part not in {"", ".", ".."}) or "file"


def _unique(path: str, used: dict[str, int]) -> str:
    """Return a path, with a number if already used, and note it as used."""
    if path not in used:
        used[path] = 1
        return path
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    while True:
        used[path] += 1
        number = f" ({used[path]})"
        changed = f"{folder}{slash}{stem}{number}{dot}{suffix}" if stem else f"{path}{number}"
        if changed not in used:
            used[changed] = 1
            return changed


_CONTAINERS: Mapping[str, Callable[[Path, Limits, str], AbstractContextManager[Sequence[_Entry]]]] = {
    "ZIP": _open_archive,
    "gzip": _open_gzip,
    "mail": _open_mail,
    "Outlook attachments": _open_mail,
    "Outlook message": _open_outlook,
}
