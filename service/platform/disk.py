"""Free space on the disks of the database, uploads and files: measured, and new work refused when short. At LOW,
additions are refused (507 `storage_full`) and background work pauses; reading, searching, signing in, deleting and
changing rights continue. At FULL, PostgreSQL itself is in danger. A reserve file next to its data then shrinks slice by
slice, and the rest is deleted before a start without enough room. A level ends above the threshold where it began; the
reserve is then made again. Unavailable `storage_busy` (503): the space is promised to requests in progress."""

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from carrel.wire.oversight import StorageArea, StorageLevel, StorageState
from service.platform.errors import InsufficientStorage, Unavailable
from service.platform.logs import logger
from service.platform.settings import MEBIBYTE, Settings
from service.platform.sharing import Figure, Share

LOOK_SECONDS = 1.0
MOST_KEPT_FREE = 1024 * MEBIBYTE
LARGEST_RESERVE = 64 * MEBIBYTE
RESERVE_NAME = "carrel.reserve"
SLICES = 8
# A body is on disk twice while it arrives; its text, vectors and PostgreSQL's log need as much again.
BYTES_PER_BODY_BYTE = 4
# A level ends at this multiple of the limit at which it begins.
LOW_ENDS, FULL_ENDS = 1.25, 1.5
# Promised room is used or released within the time that a body takes to arrive.
BUSY_SECONDS = 5
_SEVERITY = (StorageLevel.OK, StorageLevel.LOW, StorageLevel.FULL)
_NAMES = {StorageArea.DATABASE: "database", StorageArea.UPLOADS: "uploads", StorageArea.FILES: "files"}


class Reserve:
    """A file that reserves disk space until the space is needed."""

    def __init__(self, folder: Path, *, size: int) -> None:
        self._path = folder / RESERVE_NAME
        self._size = size

    @property
    def slice(self) -> int:
        """The number of bytes to keep free while any reserve is left."""
        return self._size // SLICES

    @property
    def missing(self) -> int:
        return max(self._size - self._measure_size(), 0)

    def make(self) -> bool:
        """Grow the file to its full size. False after an error such as a full disk: the file then keeps its size."""
        held = self._measure_size()
        try:
            with _open_reserve(self._path, os.O_CREAT) as file:
                owner = self._path.parent.stat()
                if os.geteuid() == 0:
                    os.fchown(file, owner.st_uid, owner.st_gid)
                os.fchmod(file, 0o600)
                _fill(file, held, self._size)
        except OSError:
            self._shrink_to(held)
            return False
        return True

    def trim(self) -> None:
        """Shrink a file made larger under an earlier setting."""
        self._shrink_to(self._size)

    def keep_free(self, free: int) -> None:
        """Shrink the file until a slice of the disk is free, as a filling process takes all; a quarter always stays."""
        lacking = self.slice - free
        if lacking > 0:
            self._shrink_to(max(self._measure_size() - lacking, self._size // 4))

    def _shrink_to(self, size: int) -> None:
        if self._measure_size() > size:
            with suppress(OSError), _open_reserve(self._path) as file:
                os.ftruncate(file, size)

    def _measure_size(self) -> int:
        try:
            with _open_reserve(self._path) as file:
                return os.fstat(file).st_size
        except OSError:
            return 0


def _fill(file: int, held: int, size: int) -> None:
    """Allocate disk space for a file's bytes from `held` on; macOS has no such call, so zeros are written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    zeros = bytes(MEBIBYTE)
    while held < size:
        held += os.pwrite(file, zeros[: size - held], held)


@contextmanager
def _open_reserve(path: Path, flags: int = 0) -> Generator[int]:
    """Open the reserve. Raises OSError unless it is a regular file: PostgreSQL's user could have placed a link."""
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o600)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EINVAL, "no file of its own", str(path))
        yield file
    finally:
        os.close(file)


def make_room(cluster: Path) -> None:
    """Delete the reserve in PostgreSQL's folder if PostgreSQL lacks the space to start."""
    with suppress(FileNotFoundError):
        usage = shutil.disk_usage(cluster)
        if usage.free < _reserve_of(usage.total):
            (cluster / RESERVE_NAME).unlink()
            logger.warning("storage_reserve_given_up", free_bytes=usage.free)


@dataclass(slots=True)
class FileSystem:
    """A file system with at least one area; `promised` are the bytes promised to this worker's requests."""

    areas: tuple[StorageArea, ...]
    folder: Path
    keep_free: int | None
    reserve: Reserve | None = None
    share: Share = field(default_factory=Share, repr=False)
    total: int = 0
    free: int = 0
    promised: int = 0
    level: StorageLevel = StorageLevel.OK
    _is_seen: bool = field(default=True, repr=False)
    _is_reserve_made: bool = field(default=True, repr=False)

    @property
    def low(self) -> int:
        """The free bytes below which additions are refused."""
        return min(MOST_KEPT_FREE, self.total // 8) if self.keep_free is None else self.keep_free

    @property
    def full(self) -> int:
        """The free bytes that PostgreSQL needs: a quarter of `low`, or a slice of the reserve if larger."""
        return max(self.low // 4, 0 if self.reserve is None else self.reserve.slice)

    def look(self) -> None:
        """Measure the space. If that fails, log it once and keep the last figures."""
        try:
            usage = shutil.disk_usage(self.folder)
        except OSError as error:
            if self._is_seen:
                logger.error("storage_unseen", areas=self.areas, cause=error.strerror)
            self._is_seen = False
            return
        self._is_seen = True
        self.measure(usage.total, usage.free)

    def measure(self, total: int, free: int) -> None:
        """Record a disk's size and free bytes, log a change of the level, and grow or shrink the reserve."""
        self.total, self.free = total, free
        # Count a released reserve as used, because releasing it must not end the level.
        before, self.level = self.level, self._level_at(free - self._missing())
        if before is not self.level:
            log = logger.info if self.level is StorageLevel.OK else logger.error
            log("storage_level", storage=self.level, areas=self.areas, free_bytes=free, low_below_bytes=self.low)
        self._adjust_reserve()

    def needed_for(self, size: int) -> int:
        """Return the free bytes needed to accept a body of `size` alone; 0 refuses no body."""
        if not self.low:
            return 0
        if self.level is not StorageLevel.OK:
            return int(self.low * LOW_ENDS) + self._missing()
        return self.low + size * BYTES_PER_BODY_BYTE if size else 0

    def is_promised(self, needed: int) -> bool:
        """Return whether the space needed for a body is promised to requests of any worker."""
        return needed > 0 and self.free < needed + self.share.total(Figure.BYTES_PROMISED) * BYTES_PER_BODY_BYTE

    def describe(self) -> StorageState:
        return StorageState(
            areas=list(self.areas),
            free_bytes=self.free,
            total_bytes=self.total,
            low_below_bytes=self.low,
            level=self.level,
        )

    def names(self) -> str:
        *others, last = (_NAMES[area] for area in self.areas)
        return f"{', '.join(others)} and {last}" if others else last

    def _level_at(self, free: int) -> StorageLevel:
        if free < (self.full * FULL_ENDS if self.level is StorageLevel.FULL else self.full):
            return StorageLevel.FULL
        if free < (self.low if self.level is StorageLevel.OK else self.low * LOW_ENDS):
            return StorageLevel.LOW
        return StorageLevel.OK

    def _missing(self) -> int:
        return 0 if self.reserve is None else self.reserve.missing

    def _adjust_reserve(self) -> None:
        if self.reserve is None:
            return
        self.reserve.trim()
        missing = self.reserve.missing
        if self.level is StorageLevel.FULL:
            self.reserve.keep_free(self.free)
        elif missing and self.free - missing >= self.full * FULL_ENDS:
            was_made, self._is_reserve_made = self._is_reserve_made, self.reserve.make()
            if was_made and not self._is_reserve_made:
                logger.warning("storage_reserve_not_made", free_bytes=self.free)


class Promise:
    """Space promised to a request on every file system until the request has finished."""

    def __init__(self, file_systems: Sequence[FileSystem]) -> None:
        self._file_systems = file_systems
        self._size = 0

    def grow(self, size: int) -> None:
        """Promise `size` more bytes (0: only check whether new data is accepted). Raises InsufficientStorage for lack
        of space, and Unavailable `storage_busy` if only earlier promises prevent the promise."""
        received, whole = self._size, self._size + size
        self.end()
        # Received bytes are on the disk, and no longer count as free.
        needed = [(system, max(system.needed_for(whole) - received, 0)) for system in self._file_systems]
        for item, room in needed:
            if item.free < room:
                raise _no_room(item, room)
        for item, room in needed:
            if item.is_promised(room):
                raise _storage_busy(item)
        self._add(whole)

    def end(self) -> None:
        self._add(-self._size)

    def _add(self, size: int) -> None:
        self._size += size
        for system in self._file_systems:
            system.promised += size
            # Each file system has promised the same amount.
            system.share.tell(Figure.BYTES_PROMISED, system.promised)


class DiskGuard:
    """The only judge of free space on all file systems. `look` measures and blocks: call it in a thread."""

    def __init__(self, file_systems: Sequence[FileSystem] = ()) -> None:
        self.file_systems = tuple(file_systems)

    @property
    def level(self) -> StorageLevel:
        return max((system.level for system in self.file_systems), key=_SEVERITY.index, default=StorageLevel.OK)

    @property
    def is_full(self) -> bool:
        return self.level is StorageLevel.FULL

    def look(self) -> None:
        for system in self.file_systems:
            system.look()

    @contextmanager
    def room_for(self, size: int) -> Generator[Promise]:
        """Promise `size` bytes during the block (0 for an unknown size, to be grown); raises as `Promise.grow` does."""
        promise = Promise(self.file_systems)
        promise.grow(size)
        try:
            yield promise
        finally:
            promise.end()

    async def wait_for_room(self, *, even_low: bool = False) -> None:
        """Wait until there is space for background work; with `even_low`, until no file system is FULL."""
        enough = {StorageLevel.OK, StorageLevel.LOW} if even_low else {StorageLevel.OK}
        while self.level not in enough:  # noqa: ASYNC110 - what changes is measured in a thread
            await asyncio.sleep(LOOK_SECONDS)

    def refusal_of_database(self) -> InsufficientStorage | None:
        """Return the answer for a database stopped by a full disk; None unless the embedded database's disk is full."""
        full = (
            item for item in self.file_systems if item.level is StorageLevel.FULL and StorageArea.DATABASE in item.areas
        )
        return next((_no_room(system, max(system.needed_for(0), system.full)) for system in full), None)


def open_guard(settings: Settings, *, files_folder: Path | None, share: Share) -> DiskGuard:
    """Build a guard for the folders of the embedded cluster, uploads and local files, with a first measurement."""
    areas = {StorageArea.UPLOADS: settings.uploads_dir}
    if files_folder is not None:
        areas[StorageArea.FILES] = files_folder
    if settings.database_url is None:
        areas = {StorageArea.DATABASE: (settings.data_dir / "postgres").resolve(), **areas}
    guard = DiskGuard(_group_by_file_system(areas, settings, share))
    guard.look()
    return guard


def _group_by_file_system(areas: Mapping[StorageArea, Path], settings: Settings, share: Share) -> list[FileSystem]:
    folders = {area: existing(folder) for area, folder in areas.items()}
    ordered = sorted(folders, key=lambda area: folders[area].stat().st_dev)
    found: list[FileSystem] = []
    for _, group in groupby(ordered, key=lambda area: folders[area].stat().st_dev):
        here = tuple(group)
        fs = FileSystem(here, folders[here[0]], keep_free=settings.storage_low_bytes, share=share)
        if StorageArea.DATABASE in here:
            cluster, size = folders[StorageArea.DATABASE], settings.storage_reserve_bytes
            fs.reserve = Reserve(cluster, size=_reserve_of(shutil.disk_usage(cluster).total) if size is None else size)
        found.append(fs)
    return found


def _reserve_of(total: int) -> int:
    return min(LARGEST_RESERVE, total // 16)


def existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _no_room(where: FileSystem, needed: int) -> InsufficientStorage:
    return InsufficientStorage(
        f"The disk of the {where.names()} has {in_units(where.free)} free, but this needs {in_units(needed)}. Nothing "
        "was changed; reading and searching still work. Ask an operator to make room or enlarge the disk, then send "
        "this again."
    )


def _storage_busy(where: FileSystem) -> Unavailable:
    return Unavailable(
        f"Other uploads have reserved the free disk space of the {where.names()}. Nothing was changed. Try again in "
        f"{BUSY_SECONDS} s.",
        code="storage_busy",
        retry_after=BUSY_SECONDS,
    )


def in_units(count: int) -> str:
    mebibytes = count / MEBIBYTE
    return f"{mebibytes:.0f} MiB" if mebibytes < 1000 else f"{mebibytes / 1024:.1f} GiB"
