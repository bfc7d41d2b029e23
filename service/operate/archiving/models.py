"""Descriptions that the archive holds of itself, and PostgreSQL's names for places in its log."""

from datetime import datetime

from pydantic import BaseModel, Field, TypeAdapter

from service.operate.backup.manifest import Count, Described


class Position(Described):
    """How far the log is archived at the time `at`: bytes `begins_lsn` to `lsn`, with every file that it refers to. A
    backup from before `begins_lsn` leads to no moment behind the gap there."""

    at: datetime
    timeline: Count
    lsn: Count
    segment_bytes: Count
    begins_lsn: Count = 0


class Base(Described):
    """A backup of the database's folder: full, or the changes since `parent`. It needs the log from `start_lsn` to
    `end_lsn` at least. `size` and `sha256` are of the packed tar; `files` counts documents' files at the begin."""

    name: str
    parent: str | None
    started_at: datetime
    ended_at: datetime
    timeline: Count
    start_lsn: Count
    end_lsn: Count
    schema_revision: str
    postgresql: Count
    size: Count
    sha256: str
    files: Count

    def leads_to(self, position: Position) -> bool:
        return self.timeline == position.timeline and self.start_lsn >= position.begins_lsn


class _Range(BaseModel):
    timeline: int = Field(alias="Timeline")
    start: str = Field(alias="Start-LSN")
    end: str = Field(alias="End-LSN")


class _Manifest(BaseModel):
    ranges: list[_Range] = Field(alias="WAL-Ranges", min_length=1, max_length=1)


def read_log_range(manifest: bytes) -> tuple[int, int, int]:
    """Return timeline, start and end of the log that a backup needs, from the manifest that PostgreSQL made of it."""
    [needed] = TypeAdapter(_Manifest).validate_json(manifest).ranges
    return needed.timeline, parse_lsn(needed.start), parse_lsn(needed.end)


def format_moment(moment: datetime, *, timespec: str = "seconds") -> str:
    """Return a moment of UTC as people and `--to` write it: 2026-11-26T06:00:00Z."""
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def segment_name(timeline: int, number: int, *, segment_bytes: int) -> str:
    high, low = divmod(number, 2**32 // segment_bytes)
    return f"{timeline:08X}{high:08X}{low:08X}"


def parse_lsn(text: str) -> int:
    """Return the place in the log, in bytes from its beginning, that PostgreSQL writes so."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
