"""Files dropped on the workbench for a flow: each start has a folder of its own until its run is done.
uploads_dir/<title>-<id>/ the files under their own names; the title says which they are uploads_dir/<title>-<id>.run
the id of the run that reads them, written once it has been started"""

import contextlib
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol
from unicodedata import normalize
from uuid import UUID, uuid4

from carrel.wire.file_names import is_leftover, shorten_name

REPEATED = "Choose their folder, which keeps their paths, or leave all but one out."
"""What to do about files of one name."""
ABANDONED_SECONDS = 7 * 24 * 3600
"""After so long a folder goes even if its run was never done."""

TITLE_BYTES = 120
"""The longest part of a file's name in the name of its folder, which has an id and may have a count too."""

_NOT_IN_TITLES = re.compile(r"[^\w .,()-]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


class StagingError(Exception):
    """The files can't be taken; the message says why and what to do."""


class DroppedFile(Protocol):
    """The attributes of an uploaded file that staging reads."""

    @property
    def name(self) -> str: ...

    def getbuffer(self) -> memoryview: ...


def plain_name(name: str) -> str:
    """Return a file's printable name or relative path; of another path, such as one of Windows, the last part."""
    parts = [_CONTROLS.sub("", part).strip() for part in re.split(r"[/\\]", name)]
    kept = parts if "\\" not in name and all(part.strip(".") for part in parts) else parts[-1:]
    return "/".join(shorten_name(part) if part.strip(".") else "unnamed" for part in kept)


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that several files would have, as file systems compare them; leftovers of programs aside."""
    plain = (plain_name(name) for name in names if not is_leftover(name))
    counts = Counter(normalize("NFC", name).casefold() for name in plain)
    return sorted(name for name, count in counts.items() if count > 1)


def stage(files: Sequence[DroppedFile], uploads: Path) -> Path:
    """Write files where the flow can read them; return their folder. Raises StagingError, leaving nothing behind."""
    if repeated := find_repeated_names(file.name for file in files):
        msg = f"Several files are called {', '.join(repeated)}. {REPEATED}"
        raise StagingError(msg)
    folder = uploads / f"{_title_of(files)}-{uuid4().hex}"
    try:
        uploads.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        for file in files:
            path = folder / plain_name(file.name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("wb" if is_leftover(file.name) else "xb") as target:
                target.write(file.getbuffer())
    except OSError as exc:
        remove(folder)
        msg = f"The files can't be kept in {uploads}: {exc.strerror or exc}."
        raise StagingError(msg) from exc
    return folder


def _title_of(files: Sequence[DroppedFile]) -> str:
    """Return which files these are, in a few words that can stand in a path and are no pattern."""
    path = plain_name(files[0].name)
    name = _NOT_IN_TITLES.sub("_", path.partition("/")[0])
    first = name.encode()[:TITLE_BYTES].decode(errors="ignore").strip(" .")
    if "/" in path:
        return f"{first} ({len(files)} files)"
    return f"{first} and {len(files) - 1} more" if len(files) > 1 else first


def title_of_folder(folder: Path) -> str:
    """Return which files lie in a folder; "" for a folder that an earlier version made."""
    return folder.name.rpartition("-")[0]


def hand_over(folder: Path, run: UUID) -> None:
    """Record which run reads a folder; a folder without a record stays until it expires."""
    with contextlib.suppress(OSError):  # the run has begun, and is not to be started again for a full disk
        _note(folder).write_text(str(run))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        _note(folder).unlink()


def sweep(uploads: Path, is_done: Callable[[UUID], bool]) -> None:
    """Remove the folders whose run is done, and those that were forgotten."""
    for folder in uploads.glob("*/"):
        run = _run_of(folder)
        try:
            age = time.time() - folder.stat().st_mtime
        except FileNotFoundError:  # another session sweeps too
            continue
        if age > ABANDONED_SECONDS or (run is not None and is_done(run)):
            remove(folder)


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.run")


def _run_of(folder: Path) -> UUID | None:
    try:
        return UUID(_note(folder).read_text())
    except (OSError, ValueError):
        return None
