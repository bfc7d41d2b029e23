"""Looking into Office files (ZIP archives) before any library opens them: which kind, and is it a bomb?"""

import re
import zipfile
import zlib
from pathlib import Path
from typing import IO

from service.text.extraction.building import Limits
from service.text.extraction.failures import Unreadable, corrupt_file, encrypted_file, too_complex

# A small archive may be as repetitive as it likes; ratios matter from this size on.
_RATIO_FROM = 32 << 20
_READ = 1 << 20
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
"""What reading a damaged archive raises."""
ENCRYPTED = 0x1
"""The bit of an entry's flags that says that reading it takes a password."""
# ECMA-376 part 2 forbids document type declarations in a package, so one is either an attack or no Office file.
# OpenDocument's macros and the pages of a book name a document type that is kept elsewhere, and declare nothing.
_DOCTYPE = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_DECLARES = re.compile(rb"<!\s*(?:DOCTYPE[^>\[]*\[|ENTITY)", re.IGNORECASE)
_HEAD = 65_536
_MANIFEST, _ENCRYPTION = "META-INF/manifest.xml", b"encryption-data"


def open_archive(path: Path | IO[bytes]) -> zipfile.ZipFile:
    """Open an archive, with slashes in its names where a program wrote backslashes; Unreadable when it is damaged."""
    try:
        archive = zipfile.ZipFile(path)
    except (*DAMAGED, ValueError, NotImplementedError) as error:
        raise corrupt_file("an Office document") from error
    for entry in archive.filelist:
        entry.filename = entry.filename.replace("\\", "/").lstrip("/")
    archive.NameToInfo = {entry.filename: entry for entry in archive.filelist}
    return archive


def is_archive(path: Path) -> bool:
    """Return whether a file begins as an archive does."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def check_archive(path: Path | IO[bytes], limits: Limits, *, whole: bool, for_library: bool = False) -> None:
    """Raise Unreadable unless the archive is whole, unencrypted, free of XML tricks and within the limits. Declared
    sizes are checked first. Then every XML entry (`whole`: every entry) is unpacked in parts and counted, so false
    headers are found. Damaged entries are refused only `for_library`: our own readers handle them."""
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
    """Raise Unreadable when what an archive says of its entries is more than the limits allow."""
    if len(entries) > limits.archive_entries:
        raise too_complex(f"The file is an archive of more than {limits.archive_entries:,} parts.")
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    check_size(total, packed, limits, largest=max((entry.file_size for entry in entries), default=0))


def check_size(total: int, packed: int, limits: Limits, *, largest: int) -> None:
    """Raise Unreadable when the unpacked size, or that of the largest entry, is more than the limits allow."""
    if total > limits.archive_bytes or largest > limits.entry_bytes:
        raise too_complex(f"The file unpacks to {total:,} bytes, more than is accepted.")
    if total > _RATIO_FROM and total > packed * limits.archive_ratio:
        raise too_complex(f"The file unpacks to {total // max(packed, 1):,} times its size.")


def _check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits, refused: re.Pattern[bytes]) -> None:
    if entry.flag_bits & ENCRYPTED:
        raise Unreadable("file_encrypted", "The file is protected by a password. Save a copy without it and send that.")
    size = 0
    with archive.open(entry) as unpacked:
        head = unpacked.read(_HEAD)
        # Without its NULs, UTF-16 reads like ASCII.
        declared = head.replace(b"\x00", b"")
        if entry.filename == _MANIFEST and _ENCRYPTION in declared:
            raise encrypted_file("OpenDocument")
        if _is_markup(entry.filename) and refused.search(declared):
            raise too_complex("The file declares XML entities, which no Office program writes.")
        while data := unpacked.read(_READ):
            size += len(data)
            if size > limits.entry_bytes:
                raise too_complex("The file unpacks to more than it declares.")


def _is_markup(name: str) -> bool:
    return name.lower().endswith((".xml", ".rels"))
