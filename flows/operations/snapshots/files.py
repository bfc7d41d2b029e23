"""The place and contents of a snapshot: a folder that is complete once it has its name.

| file | a row for each | columns |
|---|---|---|
| resources.parquet | resource | object_id, resource_type, resource_id, access_class |
| holders.parquet | holder of a role in a class | access_class, principal_id, principal_type, role |
| group_people.parquet | active person in a group, however deep | group_id, principal_id |
| principals.parquet | user, service account and group | principal_id, principal_type, name, email, active |
| snapshot.json | the snapshot | `Manifest` |
| difference.json | the snapshot before | `flows.operations.snapshots.files.Difference` |"""

import os
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from flows.errors import SnapshotError

RESOURCES, HOLDERS, GROUP_PEOPLE, PRINCIPALS = "resources", "holders", "group_people", "principals"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    RESOURCES: ("object_id", "resource_type", "resource_id", "access_class"),
    HOLDERS: ("access_class", "principal_id", "principal_type", "role"),
    GROUP_PEOPLE: ("group_id", "principal_id"),
    PRINCIPALS: ("principal_id", "principal_type", "name", "email", "active"),
}
MANIFEST, DIFFERENCE = "snapshot.json", "difference.json"
_UNFINISHED = ".unfinished-"
_FORGOTTEN = 24 * 3600.0


class Manifest(BaseModel):
    """The description of a snapshot; `consistent`: all rows are of the same moment, without a change of access."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    taken_at: datetime
    organization_id: UUID
    consistent: bool
    attempts: int
    rows: dict[str, int]


def table(folder: Path, name: str) -> Path:
    return folder / f"{name}.parquet"


def read_manifest(folder: Path) -> Manifest:
    """Read a snapshot's manifest; SnapshotError if missing, or of an unknown format."""
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValidationError) as exc:
        msg = f"{folder} is not a readable snapshot: its {MANIFEST} is missing, damaged or from a newer version."
        raise SnapshotError(msg) from exc


def list_snapshots(home: Path) -> list[Path]:
    """Return the folders of all complete snapshots, also unreadable, the oldest first by name."""
    return sorted((path for path in home.glob("[!.]*") if path.is_dir()), key=_order)


def _order(folder: Path) -> tuple[str, int]:
    stamp, _, number = folder.name.partition("_")
    return stamp, int(number) if number.isdigit() else 0


@contextmanager
def open_unfinished(home: Path) -> Generator[Path]:
    """Yield a new folder for a snapshot, and remove it unless published; also remove folders abandoned for a day."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in home.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - old.stat().st_mtime > _FORGOTTEN:
                shutil.rmtree(old, ignore_errors=True)
    folder = home / f"{_UNFINISHED}{uuid4().hex}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(folder: Path, *, taken_at: datetime) -> Path:
    """Write a finished snapshot to disk, rename its folder to the time, or the time and a number, and return it."""
    for file in folder.iterdir():
        _to_disk(file)
    _to_disk(folder)
    stamp = taken_at.strftime("%Y-%m-%dT%H-%M-%SZ")
    for number in count(1):
        target = folder.parent / (stamp if number == 1 else f"{stamp}_{number}")
        try:
            # rename replaces an empty folder, but fails on a snapshot, which is never empty.
            folder.rename(target)
        except OSError:
            if not target.exists():
                raise
        else:
            _to_disk(target.parent)
            return target
    raise AssertionError


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Change(BaseModel):
    """A change shared by a number of resources; `who` and `examples` are the first few."""

    model_config = ConfigDict(frozen=True)

    change: Literal["widened", "narrowed"]
    resources: int
    people: int
    who: list[str]
    examples: list[str]


class Difference(BaseModel):
    """The changes of READ since `since`. `widened` and `narrowed` are resources that a person can newly or no longer
    read; `gained` and `lost` count pairs of a person and a resource; `more` counts changes beyond the largest."""

    model_config = ConfigDict(frozen=True)

    since: str
    consistent: bool
    same: int
    widened: int
    narrowed: int
    added: int
    removed: int
    gained: int
    lost: int
    joined: int
    left: int
    changes: list[Change]
    more: int

    @property
    def is_empty(self) -> bool:
        return not (self.widened or self.narrowed or self.added or self.removed)

    def text(self) -> str:
        parts = (
            f"{self.widened:,} widened ({_times(self.gained)} a person can now read a resource)",
            f"{self.narrowed:,} narrowed ({_times(self.lost)} a person can no longer)",
            f"{self.added:,} new",
            f"{self.removed:,} gone",
            f"{self.same:,} unchanged",
        )
        joined = f"{self.joined:,} {'person' if self.joined == 1 else 'people'} joined"
        people = f"; {joined}, {self.left:,} left" if self.joined or self.left else ""
        return f"Since {self.since}: {', '.join(parts)}{people}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
