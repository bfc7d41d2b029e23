"""When a disk counts as short of room, and what is promised to requests that are under way."""

from pathlib import Path

import pytest

from carrel.wire.oversight import StorageArea, StorageLevel
from service.disk import MEBIBYTE, DiskGuard, FileSystem
from service.embedded import KEPT_WAL, LARGE_SEGMENT, LARGEST_WAL, SMALL_SEGMENT, server_parameters
from service.errors import InsufficientStorage, Unavailable

AREAS = (StorageArea.UPLOADS, StorageArea.FILES)


def a_disk(free: int, *, keep_free: int | None = None) -> FileSystem:
    """A disk of 800 MiB, of which 100 are kept free, with so many MiB free."""
    return FileSystem(AREAS, Path("/"), keep_free, total=800 * MEBIBYTE, free=free * MEBIBYTE)


def levels(*frees: int) -> list[StorageLevel]:
    """The level after each measurement, in MiB."""
    disk, found = a_disk(800), list[StorageLevel]()
    for free in frees:
        disk.measure(disk.total, free * MEBIBYTE)
        found.append(disk.level)
    return found


def test_a_level_ends_above_where_it_began() -> None:
    """What goes up and down around a threshold changes the level once."""
    ok, low, full = StorageLevel.OK, StorageLevel.LOW, StorageLevel.FULL
    assert levels(101, 99, 101, 124, 125, 101) == [ok, low, low, low, ok, ok]
    assert levels(24, 26, 37, 38, 24, 0, 800) == [full, full, full, low, full, full, ok]


def test_bodies_under_way_are_counted() -> None:
    """Two that fit one by one are not taken in together: the second comes again when the first has its room."""
    guard = DiskGuard([a_disk(100 + 60)])
    body = 10 * MEBIBYTE
    with guard.room_for(body) as promise:
        with pytest.raises(Unavailable, match=r"^Other uploads are being taken in") as busy, guard.room_for(body):
            pass
        assert (busy.value.status, busy.value.code, busy.value.headers) == (503, "storage_busy", {"Retry-After": "5"})
        with guard.room_for(0):
            pass
        promise.end()
        with guard.room_for(body):
            pass
    with guard.room_for(body):
        pass


def test_a_body_that_does_not_fit_alone_is_told_so() -> None:
    """However much is promised to others, waiting for them doesn't help: somebody has to make room."""
    guard, body = DiskGuard([a_disk(100 + 60)]), 10 * MEBIBYTE
    message = r"has 160 MiB free, and this needs 180 MiB"
    with guard.room_for(body), pytest.raises(InsufficientStorage, match=message), guard.room_for(2 * body):
        pass


def test_nothing_is_refused_when_nothing_is_to_be_kept_free() -> None:
    """0 turns the guard off, whatever is free."""
    guard = DiskGuard([a_disk(0, keep_free=0)])
    guard.file_systems[0].measure(800 * MEBIBYTE, 0)
    with guard.room_for(MEBIBYTE):
        assert guard.level is StorageLevel.OK


@pytest.mark.parametrize(
    ("disk", "segment", "most", "kept"),
    [
        (64 * MEBIBYTE, SMALL_SEGMENT, 4 * MEBIBYTE, 4 * MEBIBYTE),
        (64 * MEBIBYTE, LARGE_SEGMENT, 2 * LARGE_SEGMENT, 2 * LARGE_SEGMENT),
        (8 << 30, LARGE_SEGMENT, 512 * MEBIBYTE, KEPT_WAL),
        (1 << 40, LARGE_SEGMENT, LARGEST_WAL, KEPT_WAL),
    ],
)
def test_the_write_ahead_log_fits_the_disk(disk: int, segment: int, most: int, kept: int) -> None:
    """A sixteenth of the disk, never less than PostgreSQL's two segments, never more than was measured."""
    found = server_parameters(1 << 30, disk_bytes=disk, segment_bytes=segment)
    assert (found["max_wal_size"], found["min_wal_size"]) == (f"{most // MEBIBYTE}MB", f"{kept // MEBIBYTE}MB")
