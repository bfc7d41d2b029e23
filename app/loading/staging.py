"""Files dropped on the workbench for a flow. Each start has a separate folder until the run is done.

- uploads_dir/<title>-<id>/: the files under their own names, summarized in the title
- uploads_dir/<title>-<id>.run: the id of the run that reads them, written after the start"""

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

REPEATED = "Upload their folder, which keeps the paths, or remove all but one of these files."
"""The remedy for files with equal names."""
ABANDONED_SECONDS = 7 * 24 * 3600
"""Age for removing a folder, even if the run was never done."""

TITLE_BYTES = 120
"""The most bytes of a file's name in a folder name, next to an id and maybe a count."""

_NOT_IN_TITLES = re.compile(r"[^\w .,()-]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


class StagingError(Exception):
    """The files can't be taken; the message names the reason and a remedy."""


class DroppedFile(Protocol):
    @property
    def name(self) -> str: ...

    def getbuffer(self) -> memoryview: ...


def plain_name(name: str) -> str:
    """Return a file's printable name or relative path; for any foreign path, such as on Windows, the last part."""
    parts = [_CONTROLS.sub("", part).strip() for part in re.split(r"[/\\]", name)]
    kept = parts if "\\" not in name and all(part.strip(".") for part in parts) else parts[-1:]
    return "/".join(shorten_name(part) if part.strip(".") else "unnamed" for part in kept)


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """Return, case-folded, the names shared by several files, except leftovers of programs."""
    plain = (plain_name(name) for name in names if not is_leftover(name))
    counts = Counter(normalize("NFC", name).casefold() for name in plain)
    return sorted(name for name, count in counts.items() if count > 1)


def stage(files: Sequence[DroppedFile], uploads: Path) -> Path:
    """Write files where the flow can read them and return the folder. Raises StagingError, leaving no files behind."""
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
        msg = f"The files cannot be stored in {uploads}: {exc.strerror or exc}."
        raise StagingError(msg) from exc
    return folder


def _title_of(files: Sequence[DroppedFile]) -> str:
    """Return a short description of the files for use in a path, free of pattern characters."""
    path = plain_name(files[0].name)
    name = _NOT_IN_TITLES.sub("_", path.partition("/")[0])
    first = name.encode()[:TITLE_BYTES].decode(errors="ignore").strip(" .")
    if "/" in path:
        return f"{first} ({len(files)} files)"
    return f"{first} and {len(files) - 1} more" if len(files) > 1 else first


def title_of_folder(folder: Path) -> str:
    """Return the description of the files in a folder; "" for a folder of an earlier version."""
    return folder.name.rpartition("-")[0]


def hand_over(folder: Path, run: UUID) -> None:
    """Record the run of a folder. A folder without a record stays until it expires."""
    with contextlib.suppress(OSError):  # the run has begun, and a full disk must not start it again
        _note(folder).write_text(str(run))


def remove(folder: Path) -> None:
    """Remove a folder of files and its record. Errors are ignored."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        _note(folder).unlink()


def sweep(uploads: Path, is_done: Callable[[UUID], bool]) -> None:
    """Remove folders of finished runs and abandoned folders."""
    for folder in uploads.glob("*/"):
        run = _run_of(folder)
        try:
            age = time.time() - folder.stat().st_mtime
        except FileNotFoundError:  # another session cleans up too
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
