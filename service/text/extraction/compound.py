# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# olefile is typed in part.
"""Compound files (OLE), in which Word, Excel and PowerPoint before 2007 keep their streams."""

import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import olefile

from service.text.extraction.failures import corrupt_file

_BROKEN = (OSError, struct.error, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
_UTF_7 = 65_000


@contextmanager
def refuse_damaged(kind: str) -> Generator[None]:
    """Turn what readers of bytes raise on a damaged file into the refusal of one of this kind."""
    try:
        yield
    except _BROKEN as error:
        raise corrupt_file(kind) from error


@dataclass(frozen=True, slots=True)
class Compound:
    """What was read of a compound file: streams by their names, the paths of all folders, and its title."""

    streams: Mapping[str, bytes]
    folders: Sequence[Sequence[str]]
    title: str | None


def read_compound(path: Path, *names: str) -> Compound:
    """Return those of the named streams that a compound file has, whatever the case of their letters, and the rest."""
    with olefile.OleFileIO(str(path)) as file:
        streams = {name: file.openstream(name).read() for name in names if file.exists(name)}
        return Compound(streams, file.listdir(streams=False, storages=True), _title_of(file))


def _title_of(file: "olefile.OleFileIO[str]") -> str | None:
    try:
        metadata = file.get_metadata()
        page = int(metadata.codepage or 1252)
        return bytes(metadata.title or b"").decode(f"cp{page}" if 0 < page < _UTF_7 else "utf-8", "replace")
    except (*_BROKEN, LookupError):
        return None
