"""The archive as objects: joining pieces of the log, removal, and copying of files."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from multiprocessing.connection import wait
from pathlib import Path
from socket import socket, socketpair
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import migrations
from service.operate.archiving import bases, shipping
from service.operate.archiving.archive import Archive, Base, Position, read_log_range, segment_name
from service.operate.archiving.bases import remove_old
from service.operate.archiving.restoring import Follower, GapError, plan_restore
from service.operate.archiving.shipping import Copied, copy_files
from service.operate.backup.archive import ArchiveError, BackupError, MomentError
from service.platform.deployment_errors import ForeignArchiveError
from service.platform.files import FileStore
from service.platform.identifiers import uuid7
from service.platform.postgres.server import EmbeddedPostgres
from service.platform.postgres.standby import EmbeddedStandby
from service.platform.processes import READY, ForkedProcess
from service.platform.settings import Settings
from service.platform.sharing import Figure
from tests.harness.cases import cases

SEGMENT = 1024
NOW = datetime.now(UTC)


def segment(number: int) -> str:
    return segment_name(1, number, segment_bytes=SEGMENT)


def test_segments_and_places_in_the_log_are_postgresqls() -> None:
    names = [segment_name(3, number, segment_bytes=2**24)[8:] for number in (0, 255, 256)]
    assert names == ["0000000000000000", "00000000000000FF", "0000000100000000"]
    assert segment_name(3, 4096, segment_bytes=2**20) == "000000030000000100000000"
    manifest = b'{"Files": [], "WAL-Ranges": [{"Timeline": 2, "Start-LSN": "1/2000028", "End-LSN": "1/20001F8"}]}'
    assert read_log_range(manifest) == (2, 2**32 + 0x2000028, 2**32 + 0x20001F8)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, SEGMENT - 1), st.integers(1, SEGMENT)), max_size=8))
def test_pieces_of_a_segment_are_put_together(tmp_path_factory, pieces):
    archive = Archive(tmp_path_factory.mktemp("archive").as_uri())
    whole = bytes(number % 251 + 1 for number in range(SEGMENT))
    written = dict(sorted(pieces))
    for offset, length in written.items():
        archive.put_log("0" * 24, offset, whole[offset : offset + length])
    end = 0
    for offset, length in written.items():
        end = max(end, min(offset + length, SEGMENT)) if offset <= end else end
    offsets = archive.log_pieces().get("0" * 24, [])
    assert archive.read_log("0" * 24, offsets, segment_bytes=SEGMENT) == whole[:end].ljust(SEGMENT, b"\0")
    for known in {0, end // 2, end, *(offset for offset in offsets if offset <= end)} if offsets else ():
        seen = bytearray(whole[:known])
        begin, content = archive.read_log_since("0" * 24, known, until=end, segment_bytes=SEGMENT)
        seen[begin : begin + len(content)] = content
        assert seen[:end] == whole[:end]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive.create(tmp_path.as_uri())
    names = [put_file(made, tmp_path, str(number)) for number in range(6)]
    put_base(made, "a", days=20, parent=None, begins=2, files=names[:2])
    put_base(made, "b", days=10, parent="a", begins=5, files=names[1:3])
    put_base(made, "c", days=3, parent=None, begins=9, files=names[3:5])
    for number in range(12):
        made.put_log(segment(number), 0, bytes(SEGMENT))
    made.move_position(Position(at=NOW, timeline=1, lsn=12 * SEGMENT, segment_bytes=SEGMENT))
    return made


def put_file(archive: Archive, folder: Path, content: str) -> bytes:
    name = sha256(content.encode()).digest()
    archive.files.write(name, iter([content.encode()]))
    then = (NOW - timedelta(days=30)).timestamp()
    os.utime(folder / "files" / name.hex()[:2] / name.hex(), (then, then))
    return name


def put_base(archive: Archive, name: str, *, days: int, parent: str | None, begins: int, files: list[bytes]) -> None:
    ended_at = NOW - timedelta(days=days)
    base = Base(
        name=name,
        parent=parent,
        started_at=ended_at,
        ended_at=ended_at,
        timeline=1,
        start_lsn=begins * SEGMENT + 40,
        end_lsn=begins * SEGMENT + 300,
        schema_revision=migrations.HEAD,
        postgresql=18,
        size=0,
        sha256="",
        files=len(files),
    )
    with archive.write_base(name) as tar:
        tar.write(b"a tar")
    archive.put_file_list(name, b"".join(sorted(files)))
    archive.finish_base(base, manifest=b"{}")


@pytest.mark.parametrize(
    ("days", "bases", "first", "files"), [(30, "abc", 0, "012345"), (7, "abc", 5, "1234"), (2, "c", 9, "34")]
)
def test_only_what_no_kept_moment_needs_is_removed(archive, days, bases, first, files):
    remove_old(archive, keep=timedelta(days=days))
    assert [base.name for base in archive.bases()] == list(bases)
    assert min(archive.log_pieces()) == segment(first)
    left = {stored.sha256 for batch in archive.files.list_stored() for stored in batch}
    assert left == {sha256(file.encode()).digest() for file in files}


def test_a_file_that_was_stored_since_is_kept(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    new, again = sha256(b"new").digest(), sha256(b"0").digest()
    archive.files.write(new, iter([b"new"]))
    drop_files = Archive.drop_files

    def store_again(_: Archive, sha256s: set[bytes], *, before: datetime) -> int:
        assert again in sha256s
        archive.files.write(again, iter([b"0"]))
        return drop_files(archive, sha256s, before=before)

    monkeypatch.setattr(Archive, "drop_files", store_again)
    assert remove_old(archive, keep=timedelta(days=2)).files == 3
    assert b"".join(archive.files.read(new)) == b"new"
    assert b"".join(archive.files.read(again)) == b"0"


def test_each_kept_backup_keeps_what_it_is_made_of(archive: Archive) -> None:
    """Of two concurrent backups, the last to end may have begun first, based on an older backup."""
    put_base(archive, "d", days=2, parent="a", begins=8, files=[])
    remove_old(archive, keep=timedelta(days=2, hours=12))
    assert [base.name for base in archive.bases()] == ["a", "c", "d"]
    assert min(archive.log_pieces()) == segment(8)


def test_nothing_is_left_of_what_was_cut_off(archive: Archive, tmp_path: Path) -> None:
    unfinished = tmp_path / "bases" / "a-killed" / "base.tar.gz#1"
    unfinished.parent.mkdir()
    (tmp_path / "bases" / "b-empty").mkdir()
    for left in (unfinished, tmp_path / "position.json#2"):
        left.touch()
    archive.remove_leftovers()
    assert unfinished.exists()
    assert remove_old(archive, keep=timedelta(days=2))[:2] == (4, 9)
    assert remove_old(archive, keep=timedelta(days=2)) == (0, 0, 0)
    assert not unfinished.parent.exists()
    assert len(list((tmp_path / "log").iterdir())) == 3
    archive.remove_leftovers(untouched_seconds=0)
    assert list(tmp_path.rglob("*#*")) == []


def test_a_backup_waits_as_long_as_the_archive_moves_on(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    now, moving = 0.0, 1000.0

    def sleep(_: float) -> None:
        nonlocal now
        now += 50.0
        archive.move_position(Position(at=NOW, timeline=1, lsn=int(min(now, moving)), segment_bytes=SEGMENT))

    monkeypatch.setattr(bases, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(bases, "open_shipper", lambda *_: nullcontext())
    wait = partial(bases.wait_until_archived, Settings(), cast("Any", None), archive)
    archive.move_position(Position(at=NOW, timeline=1, lsn=0, segment_bytes=SEGMENT))
    wait(lsn=800)
    assert now == 800.0
    with pytest.raises(BackupError, match="doesn't archive"):
        wait(lsn=1200)


@pytest.mark.parametrize(("days", "chain"), [(15, "a"), (5, "ab"), (1, "c"), (None, "c")])
def test_a_moment_has_the_newest_backup_before_it(archive: Archive, days: int | None, chain: str) -> None:
    plan = plan_restore(archive, None if days is None else NOW - timedelta(days=days))
    assert "".join(base.name for base in plan.bases) == chain
    assert plan.is_whole
    assert plan.position.at == NOW
    # A backup that is kept because another is based on it has no log any more.
    remove_old(archive, keep=timedelta(days=7))
    with pytest.raises(MomentError, match=f"can be restored is {NOW - timedelta(days=10):%Y-%m-%dT%H:%M:%S}"):
        plan_restore(archive, NOW - timedelta(days=15))


@pytest.mark.parametrize(("begins", "days"), [(0, 3), (9, 3), (10, None)])
def test_the_newest_backup_that_leads_to_now_is_told(archive: Archive, begins: int, days: int | None) -> None:
    told: dict[Figure, float] = {}
    position = archive.position().model_copy(update={"begins_lsn": begins * SEGMENT})
    shipping.tell_backup(archive, position, told.__setitem__)
    assert told == {Figure.BACKED_UP_AT: 0.0 if days is None else (NOW - timedelta(days=days)).timestamp()}


def test_a_gap_in_the_log_ends_what_can_be_restored(archive: Archive) -> None:
    archive.drop_log([segment(7)])
    plan = plan_restore(archive, NOW - timedelta(days=5))
    assert (len(plan.segments), plan.is_whole) == (2, False)
    archive.drop_log([segment(5)])
    with pytest.raises(ArchiveError, match="00000005"):
        plan_restore(archive, NOW - timedelta(days=5))
    # A gap may begin within a segment, of which pieces are there.
    for place, end in ((0, 100), (100, 200), (300, SEGMENT)):
        archive.put_log(segment(10), place, bytes(end - place))
    plan = plan_restore(archive, None)
    assert (list(plan.segments.values()), plan.is_whole) == ([[0], [0, 100, 300]], False)
    archive.put_log(segment(9), 0, bytes(299))
    with pytest.raises(ArchiveError, match="00000009"):
        plan_restore(archive, None)
    for moment in (NOW + timedelta(seconds=1), NOW - timedelta(days=21)):
        with pytest.raises(MomentError):
            plan_restore(archive, moment)


def test_a_backup_that_becomes_whole_meanwhile_is_no_part_of_a_plan(archive, monkeypatch):
    position = archive.position()

    def read_position(_: Archive) -> Position:
        put_base(archive, "d", days=0, parent=None, begins=12, files=[])
        return position

    monkeypatch.setattr(Archive, "position", read_position)
    assert [base.name for base in plan_restore(archive, None).bases] == ["c"]


def test_a_backup_of_another_postgresql_is_refused(archive: Archive) -> None:
    [base] = (base for base in archive.bases() if base.name == "c")
    archive.finish_base(base.model_copy(update={"postgresql": 17}), manifest=b"{}")
    with pytest.raises(ArchiveError, match="Carrel that has PostgreSQL 17"):
        plan_restore(archive, None)


def test_a_standby_gets_the_log_that_is_new(archive: Archive, tmp_path: Path) -> None:
    data = tmp_path / "standby"
    log = data / "postgres" / "pg_wal"
    log.mkdir(parents=True)
    (log / segment(10)).touch()
    follower = Follower(archive, EmbeddedStandby(data), FileStore.from_url((data / "files").as_uri()))
    follower.bring_log()
    names = [segment(number) for number in (10, 11, 12, 13)]
    for number in (1, 2):
        archive.put_log(names[2], (number - 1) * 100, bytes([number] * 100))
        archive.move_position(archive.position().model_copy(update={"lsn": 12 * SEGMENT + number * 100}))
        follower.bring_log()
    assert sorted(path.name for path in log.iterdir()) == names[:3]
    assert (log / names[2]).read_bytes() == (bytes([1] * 100) + bytes([2] * 100)).ljust(SEGMENT, b"\0")
    position = archive.position().model_copy(update={"lsn": 14 * SEGMENT})
    for changes in ({}, {"begins_lsn": 13 * SEGMENT}, {"timeline": 2}):
        archive.move_position(position.model_copy(update=changes))
        with pytest.raises(GapError):
            follower.bring_log()


def test_a_segment_that_became_full_is_read_whole(archive: Archive) -> None:
    """The earlier listed pieces are deleted then."""
    archive.put_log(segment(12), 0, bytes([1] * SEGMENT))
    assert archive.read_log(segment(12), [0, 100, 200], segment_bytes=SEGMENT) == bytes([1] * SEGMENT)


def test_an_archive_is_of_the_deployment_that_claims_it_first(archive: Archive) -> None:
    mine = uuid7()
    for _ in range(2):
        archive.claim(mine)
    with pytest.raises(ForeignArchiveError):
        archive.claim(uuid7())


async def test_a_stored_file_is_noted_once_for_the_archive(tmp_path: Path) -> None:
    notes, stored = tmp_path / "notes", tmp_path / "stored"
    notes.mkdir()
    store = FileStore.from_url(stored.as_uri(), unarchived=notes)
    names: list[bytes] = []
    for content in (b"whole", b"altered", b"missing", b"unreadable"):
        (tmp_path / "file").write_bytes(content)
        names.append(sha256(content).digest())
        await store.put(tmp_path / "file", names[-1])
    assert store.take_unarchived() == set(names)
    # Whoever took them was killed.
    assert FileStore.from_url(stored.as_uri(), unarchived=notes).take_unarchived() == set(names)
    await store.put(tmp_path / "file", names[-1])
    store.drop_notes(names)
    assert store.take_unarchived() == {names[-1]}
    store.drop_notes(names)
    assert store.take_unarchived() == set()
    (stored / names[1].hex()[:2] / names[1].hex()).write_bytes(b"other")
    (stored / names[2].hex()[:2] / names[2].hex()).unlink()
    unreadable = stored / names[3].hex()[:2] / names[3].hex()
    unreadable.unlink()
    unreadable.symlink_to(unreadable)  # also root can't read it
    target = FileStore.from_url((tmp_path / "target").as_uri())
    assert copy_files(store, target, names) == Copied(files=1, size=5, faulty=names[1:], unreadable=names[3:])
    assert b"".join(target.read(names[0])) == b"whole"


def test_copying_can_be_ended_within_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file on a slow connection must not delay a stop; only a single large file is on the disk at a time."""
    monkeypatch.setattr(shipping, "_IN_MEMORY", 1)
    source = FileStore.from_url((tmp_path / "source").as_uri())
    contents = {sha256(content).digest(): content for content in (bytes([n]) * 2_000_000 for n in range(9))}
    for name, content in contents.items():
        source.write(name, iter([content]))
    target, spool = FileStore.from_url((tmp_path / "target").as_uri()), tmp_path / "spool"
    spool.mkdir()
    assert copy_files(source, target, contents, spool=spool).files == len(contents)
    assert {each.sha256 for batch in target.list_stored() for each in batch} == contents.keys()
    check = Mock(side_effect=[None, None, None, InterruptedError])
    other = FileStore.from_url((tmp_path / "other").as_uri())
    with pytest.raises(InterruptedError):
        copy_files(source, other, list(contents)[:1], spool=spool, check=check)
    assert list(other.list_stored()) == []


@contextmanager
def archiving(tmp_path: Path, work: Callable[[], None]) -> Generator[tuple[ForkedProcess, socket]]:
    ours, theirs = socketpair()
    settings = Settings(data_dir=tmp_path, archive_url="file:///archive")

    def archive() -> None:
        ours.close()
        shipping.LOOK_SECONDS = shipping.LONGEST_PAUSE_SECONDS = 0.0
        Archive.create = lambda _: work()  # type: ignore[method-assign,assignment] # pyright: ignore[reportAttributeAccessIssue]
        with suppress(ForeignArchiveError):
            shipping.keep_archiving(settings, EmbeddedPostgres(tmp_path), theirs, lambda _figure, _value: None)

    process = ForkedProcess(archive)
    theirs.close()
    try:
        yield process, ours
    finally:
        ours.close()
        process.kill()
        process.join()
        process.close()


def test_the_supervisor_is_told_once_that_the_archiver_is_at_work(tmp_path: Path) -> None:
    """The supervisor reads only until then; a second message would block for good."""
    left = iter(range(1000))

    def fail() -> None:
        raise ForeignArchiveError if next(left, None) is None else OSError(5, "Input/output error")

    with archiving(tmp_path, fail) as (process, orders):
        assert wait([process.sentinel], 60) == [process.sentinel]
        process.join()
        assert process.exitcode == 0
        assert orders.recv(16) == READY
        assert orders.recv(16) == b""


def test_the_archiver_ends_with_its_supervisor(tmp_path: Path) -> None:
    with archiving(tmp_path, signal.pause) as (process, orders):
        assert wait([process.sentinel], 0.05) == []
        orders.close()
        assert wait([process.sentinel], 20) == [process.sentinel]
        process.join()
        assert process.exitcode == 1


@pytest.mark.parametrize(("archive", "files", "named"), cases("archive_places"))
def test_an_archive_is_a_place_of_its_own(tmp_path: Path, archive: str, files: str | None, named: str | None) -> None:
    data = tmp_path / "data"
    archive, files = archive.format(data=data), files and files.format(data=data)
    if named is None:
        assert Settings(data_dir=data, archive_url=archive, files_url=files).archive_url == archive
        return
    with pytest.raises(ValueError, match=f"not that of CARREL_{named}"):
        Settings(data_dir=data, archive_url=archive, files_url=files)
