"""The levels of disk space, and reservations for running requests."""

import os
from pathlib import Path

import pytest

from carrel.wire.oversight import StorageArea, StorageLevel
from service.platform.disk import MEBIBYTE, RESERVE_NAME, SLICES, DiskGuard, FileSystem, Reserve
from service.platform.errors import InsufficientStorage, Unavailable
from service.platform.postgres.server import KEPT_WAL, LARGE_SEGMENT, LARGEST_WAL, SMALL_SEGMENT, server_parameters
from service.platform.sharing import Figures, Share

AREAS = (StorageArea.UPLOADS, StorageArea.FILES)
RESERVE = 8 * MEBIBYTE


def a_disk(free: int, *, keep_free: int | None = None, share: Share | None = None) -> FileSystem:
    """Return a disk of 800 MiB, of which 100 are kept free, with `free` MiB free."""
    options = {"share": share or Share(), "total": 800 * MEBIBYTE, "free": free * MEBIBYTE}
    return FileSystem(AREAS, Path("/"), keep_free, **options)


def levels(*frees: int) -> list[StorageLevel]:
    """Return the level after each measurement, in MiB."""
    disk, found = a_disk(800), list[StorageLevel]()
    for free in frees:
        disk.measure(disk.total, free * MEBIBYTE)
        found.append(disk.level)
    return found


def test_a_level_ends_above_where_it_began() -> None:
    ok, low, full = StorageLevel.OK, StorageLevel.LOW, StorageLevel.FULL
    assert levels(101, 99, 101, 124, 125, 101) == [ok, low, low, low, ok, ok]
    assert levels(24, 26, 37, 38, 24, 0, 800) == [full, full, full, low, full, full, ok]


def test_bodies_under_way_are_counted() -> None:
    guard = DiskGuard([a_disk(100 + 60)])
    body = 10 * MEBIBYTE
    with guard.room_for(body) as promise:
        with pytest.raises(Unavailable, match=r"^Other uploads have reserved") as busy, guard.room_for(body):
            pass
        assert (busy.value.status, busy.value.code, busy.value.headers) == (503, "storage_busy", {"Retry-After": "5"})
        with guard.room_for(0):
            pass
        promise.end()
        with guard.room_for(body):
            pass
    with guard.room_for(body):
        pass


def test_bodies_of_other_workers_are_counted() -> None:
    figures = Figures(2)
    guards = [DiskGuard([a_disk(100 + 60, share=Share(worker, 2, figures))]) for worker in range(2)]
    body = 10 * MEBIBYTE
    with guards[0].room_for(body), pytest.raises(Unavailable, match=r"^Other uploads"), guards[1].room_for(body):
        pass
    with guards[1].room_for(body):
        pass
    guards[0].room_for(body).__enter__()
    figures.clear(0)
    with guards[1].room_for(body):
        pass


def test_a_promise_grows_with_a_body_of_unknown_length() -> None:
    guard = DiskGuard([a_disk(100 + 60)])
    disk = guard.file_systems[0]

    def received(mebibytes: int) -> None:
        disk.measure(disk.total, disk.free - mebibytes * MEBIBYTE)

    with guard.room_for(0) as promise:
        promise.grow(10 * MEBIBYTE)
        with guard.room_for(0) as other, pytest.raises(Unavailable, match=r"^Other uploads"):
            other.grow(10 * MEBIBYTE)
        received(10)
        promise.grow(5 * MEBIBYTE)
        assert guard.file_systems[0].promised == 15 * MEBIBYTE
        received(5)
        with pytest.raises(InsufficientStorage, match=r"this needs 149 MiB"):
            promise.grow(MEBIBYTE)
        assert guard.file_systems[0].promised == 0


def test_a_body_that_does_not_fit_alone_is_told_so() -> None:
    guard, body = DiskGuard([a_disk(100 + 60)]), 10 * MEBIBYTE
    message = r"has 160 MiB free, but this needs 180 MiB"
    with guard.room_for(body), pytest.raises(InsufficientStorage, match=message), guard.room_for(2 * body):
        pass
    off = DiskGuard([a_disk(0, keep_free=0)])
    off.file_systems[0].measure(800 * MEBIBYTE, 0)
    with off.room_for(MEBIBYTE):
        assert off.level is StorageLevel.OK


def a_disk_with_reserve(folder: Path, *, low: int, size: int = RESERVE) -> tuple[FileSystem, Path]:
    """Return a disk that keeps `low` bytes free, with a whole reserve in a folder."""
    disk = FileSystem(AREAS, folder, low, reserve=Reserve(folder, size=size))
    disk.measure(800 * MEBIBYTE, 400 * MEBIBYTE)
    return disk, folder / RESERVE_NAME


@pytest.mark.parametrize("low", [0, 1024])
def test_the_reserve_is_given_up_whatever_is_to_be_kept_free(tmp_path: Path, low: int) -> None:
    """Without a slice of the reserve PostgreSQL is in danger."""
    disk, file = a_disk_with_reserve(tmp_path, low=low)
    assert file.stat().st_size == RESERVE
    disk.measure(disk.total, 0)
    assert disk.level is StorageLevel.FULL
    given = RESERVE - file.stat().st_size
    assert given == RESERVE // SLICES
    for free in (given, RESERVE // SLICES + given, int(1.4 * RESERVE / SLICES) + given):
        disk.measure(disk.total, free)
        assert file.stat().st_size == RESERVE - given
    with DiskGuard([disk]).room_for(0):
        disk.measure(disk.total, 2 * RESERVE)
    assert (disk.level, file.stat().st_size) == (StorageLevel.OK, RESERVE)


def test_a_reserve_takes_up_room_where_the_system_has_no_call_for_it(tmp_path, monkeypatch):
    """As on macOS: the bytes are written; an existing part stays."""
    monkeypatch.delattr(os, "posix_fallocate")
    reserve = Reserve(tmp_path, size=3 * MEBIBYTE + 5)
    (tmp_path / RESERVE_NAME).write_bytes(b"x" * MEBIBYTE)
    assert reserve.make()
    found = (tmp_path / RESERVE_NAME).stat()
    assert (found.st_size, reserve.missing) == (3 * MEBIBYTE + 5, 0)
    assert found.st_blocks * 512 >= 3 * MEBIBYTE


@pytest.mark.parametrize("size", [0, MEBIBYTE])
def test_a_reserve_is_made_where_much_is_left_and_a_smaller_one_gives_up_the_rest(tmp_path: Path, size: int) -> None:
    full = FileSystem(AREAS, tmp_path, 0, reserve=Reserve(tmp_path, size=RESERVE))
    full.measure(800 * MEBIBYTE, RESERVE + RESERVE // SLICES + 1)
    assert not (tmp_path / RESERVE_NAME).exists()
    a_disk_with_reserve(tmp_path, low=0)
    _, file = a_disk_with_reserve(tmp_path, low=0, size=size)
    assert file.stat().st_size == size


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_nothing_else_is_taken_for_the_reserve(tmp_path: Path, link) -> None:
    other, cluster = tmp_path / "other", tmp_path / "cluster"
    other.write_bytes(b"x" * 100)
    cluster.mkdir()
    link(cluster / RESERVE_NAME, other)
    mode = other.stat().st_mode
    for size in (0, RESERVE):
        reserve = Reserve(cluster, size=size)
        reserve.trim()
        reserve.keep_free(0)
        assert not reserve.make()
        assert (other.read_bytes(), other.stat().st_mode) == (b"x" * 100, mode)


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
