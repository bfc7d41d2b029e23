"""Restoring a moment: the archive of log and files, backups in it, restores, and a standby."""

import asyncio
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.operate.archiving.archive import Archive, segment_name
from service.operate.archiving.bases import take_base
from service.operate.archiving.restoring import Follower, make_standby, plan_restore, promote_standby
from service.operate.archiving.shipping import open_shipper
from service.operate.commands import run
from service.operate.startup import prepare
from service.platform.files import open_files
from service.platform.postgres.server import DATABASE, EmbeddedPostgres
from service.platform.postgres.standby import EmbeddedStandby
from service.platform.settings import Settings
from tests.faults.test_backup import content, documents, refused, upload
from tests.harness.cases import cases
from tests.harness.first_start import bring_database
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess
from tests.service.directory import done

SEGMENT = 16 * 1024 * 1024
CAUGHT_UP_SECONDS = 120
BRING = "service.operate.archiving.restoring:copy_files"


@dataclass
class Archived:
    """A service with an archive, and the documents of some moments."""

    process: ServiceProcess
    archive: Path
    moments: dict[str, str] = field(default_factory=dict)
    then: dict[str, dict[str, str]] = field(default_factory=dict)

    def note(self, name: str) -> None:
        self.then[name] = documents(self.process)
        time.sleep(0.01)
        self.moments[name] = datetime.now(UTC).isoformat()
        time.sleep(0.01)

    def wait_for(self, name: str) -> None:
        moment = datetime.fromisoformat(self.moments[name])
        until(lambda: Archive.find(str(self.archive)).position().at >= moment, CAUGHT_UP_SECONDS)

    def back_up(self, *arguments: str) -> str:
        ended = self.process.command("backup", "--incremental", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stderr


def delete(process: ServiceProcess, document_id: str) -> None:
    done(process.call("catalog/deleteDocument", {"documentId": document_id}))


def holds(process: ServiceProcess, then: dict[str, str]) -> None:
    assert documents(process) == then
    for name, document_id in then.items():
        file = process.http.post("/api/v0/catalog/downloadDocument", json={"documentId": document_id})
        assert file.content == content(name), name


@contextmanager
def restored(address: str, *arguments: str, killed: bool = False) -> Generator[ServiceProcess]:
    with closing(ServiceProcess()) as process:
        if killed:
            process.command("restore", address, *arguments, killed_at=BRING)
        ended = process.command("restore", address, *arguments)
        assert ended.returncode == 0, ended.stderr
        assert "lacks" not in ended.stderr
        process.start()
        yield process


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    archive = tmp_path_factory.mktemp("archives") / "carrel"
    with closing(ServiceProcess(CARREL_ARCHIVE_URL=archive.as_uri())) as process:
        made = Archived(process, archive)
        process.start()
        upload(process, "first")
        assert "full backup" in made.back_up()
        upload(process, "second")
        made.note("between")
        delete(process, made.then["between"]["first"])
        upload(process, "third")
        assert "incremental backup" in made.back_up()
        made.note("after")
        delete(process, made.then["after"]["third"])
        upload(process, "last")
        made.note("end")
        yield made


@pytest.mark.slow
def test_the_service_tells_how_far_its_archive_is(archived: Archived) -> None:
    told = done(archived.process.call("admin/status/get"))["archive"]["archivedAt"]
    assert datetime.now(UTC) - datetime.fromisoformat(told) < timedelta(seconds=30)
    assert "\ncarrel_archive_timestamp_seconds 1." in archived.process.http.get("/metrics").text


def test_a_moment_is_restored(archived: Archived) -> None:
    archived.wait_for("after")
    with closing(ServiceProcess()) as other:
        ended = other.command("restore", str(archived.archive), "--to", archived.moments["after"])
        assert ended.returncode == 0, ended.stderr
        # A deleted document is in the trash, and its row stays.
        assert ended.stderr.startswith("Restored: 4 documents, 3 files, 1 organization, as of 2")
        checked = other.command("files", "check")
        assert checked.stderr.startswith("3 files"), checked.stderr
        assert "0 missing, 0 altered" in checked.stderr
        assert (other.data_dir / "secret.key").read_text() == (archived.process.data_dir / "secret.key").read_text()
        assert "The restore needs an empty folder" in other.command("restore", str(archived.archive)).stderr


@pytest.mark.parametrize(("arguments", "said"), cases("a_moment_that_is_not_there_is_refused"))
def test_a_moment_that_is_not_there_is_refused(archived, tmp_path, capsys, arguments, said) -> None:
    folder = tmp_path / "data"
    assert said in refused(capsys, folder, "restore", str(archived.archive), *arguments)
    assert not folder.exists()


def test_a_missing_segment_is_named(archived: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(archived.archive, copy)
    base = Archive.find(str(copy)).bases()[-1]
    name = segment_name(base.timeline, base.start_lsn // SEGMENT, segment_bytes=SEGMENT)
    shutil.rmtree(copy / "log" / name)
    assert name in refused(capsys, tmp_path / "data", "restore", str(copy))
    assert "There is no archive in" in refused(capsys, tmp_path / "data", "restore", "file:///nowhere/at/all")


def log_end(process: ServiceProcess) -> int:
    with process.database_server().connect("carrel") as connection:
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    return int(row[0])


def wait_for(process: ServiceProcess, has_come: Callable[[], bool]) -> None:
    until(has_come, CAUGHT_UP_SECONDS, told=lambda: process.log.read_text()[-3000:], pause=0.05)


def wait_until_archived(process: ServiceProcess, archive: Archive) -> None:
    end = log_end(process)
    wait_for(process, lambda: archive.position().lsn >= end)


@pytest.mark.long
def test_an_archive_that_is_not_the_one_before_is_not_written_to(tmp_path: Path) -> None:
    folder, away = tmp_path / "disk", tmp_path / "away"
    archive = Archive(folder.as_uri())
    with closing(ServiceProcess(CARREL_ARCHIVE_URL=folder.as_uri())) as process:
        process.start()
        wait_for(process, (folder / "position.json").exists)
        upload(process, "last")
        end = log_end(process)
        assert process.stop() == 0
        assert archive.position().lsn >= end
        assert len([each for batch in archive.files.list_stored() for each in batch]) == 1

        folder.rename(away)
        process.start()
        wait_for(process, lambda: "Check that its disk is mounted." in process.log.read_text())
        assert "Check that its disk is mounted." in process.command("backup", "--incremental").stderr
        upload(process, "meanwhile")
        assert not [path for path in folder.rglob("*") if path.is_file()]
        shutil.rmtree(folder)
        away.rename(folder)
        wait_until_archived(process, archive)
        assert len(process.events("archive_begins")) == 1
        assert process.stop() == 0

        position = archive.position()
        archive.move_position(position.model_copy(update={"lsn": position.lsn + 1024 * SEGMENT}))
        process.start(wait=False)
        assert process.process is not None
        assert process.process.wait(CAUGHT_UP_SECONDS) == 1
        assert "is newer than this database" in process.log.read_text()

        # As if another archive had been written to meanwhile.
        archive.move_position(position.model_copy(update={"lsn": SEGMENT}))
        archive.drop_log(archive.log_pieces())
        process.start()
        wait_for(process, lambda: len(process.events("archive_begins")) == 2)
        wait_for(process, lambda: archive.position().begins_lsn > 0)
        assert "backedUpAt" not in done(process.call("admin/status/get"))["archive"]
        assert process.command("backup", "--incremental").returncode == 0
        wait_for(process, lambda: "backedUpAt" in done(process.call("admin/status/get"))["archive"])


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True])
def test_a_gap_within_a_segment_is_told(archived, tmp_path, capsys, *, is_full) -> None:
    copy, folder = tmp_path / "copy", tmp_path / "data"
    archived.wait_for("end")
    shutil.copytree(archived.archive, copy)
    archive = Archive.find(str(copy))
    full, incremental = archive.bases()
    archive.drop_base(incremental.name)
    name = segment_name(full.timeline, full.end_lsn // SEGMENT + 1, segment_bytes=SEGMENT)
    begin = archive.read_log(name, archive.log_pieces()[name], segment_bytes=SEGMENT)[:8192]
    archive.put_log(name, 0, begin.ljust(SEGMENT if is_full else 0, b"\0"))
    newest = ["restore" if is_full else "verify", str(copy)]
    for arguments in (["restore", str(copy), "--to", archived.moments["end"]], newest):
        assert run(arguments, Settings(data_dir=folder)) == 1
        assert "log has a gap" in capsys.readouterr().err
    assert (folder / "postgres").exists() is is_full


@pytest.mark.long
@pytest.mark.parametrize("name", ["between", "after", "end"])
def test_a_restored_moment_is_a_service(archived: Archived, name: str) -> None:
    arguments = [] if name == "end" else ["--to", archived.moments[name]]
    with restored(str(archived.archive), *arguments) as service:
        holds(service, archived.then[name])


def write(settings: Settings, server: EmbeddedPostgres, archive: Archive, numbers: range) -> None:
    with server.connect(DATABASE) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (number int)")
        for number in numbers:
            connection.execute("INSERT INTO written VALUES (%s)", [number])
            connection.execute("SELECT pg_switch_wal()")
    with open_shipper(settings, server, archive) as shipper:
        assert shipper is not None
        shipper.ship()


@pytest.mark.slow
def test_a_promoted_standby_has_what_was_archived(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", archive_url=(tmp_path / "archive").as_uri())
    assert settings.archive_url is not None
    other = Settings(data_dir=tmp_path / "other")
    other.data_dir.mkdir()
    settings.data_dir.mkdir()
    bring_database(settings.data_dir)
    archive = Archive.create(settings.archive_url)
    server, standby = EmbeddedPostgres(settings.data_dir, is_archived=True), EmbeddedStandby(other.data_dir)
    try:
        server.start()
        asyncio.run(prepare(settings, server))
        take_base(settings, server, archive, say=print)
        write(settings, server, archive, range(2))
        make_standby(archive, plan_restore(archive, None), standby)
        standby.follow()
        follower = Follower(archive, standby, open_files(other))
        follower.bring_log()
        write(settings, server, archive, range(2, 5))
        follower.bring_log()
        process = standby.process()
        assert process is not None
        process.kill()
        process.wait(60)
        write(settings, server, archive, range(5, 7))
        restored = promote_standby(archive, standby, files=open_files(other), key_folder=other.data_dir)
        assert restored.moment is not None
        with standby.connect(DATABASE) as connection:
            found = connection.execute("SELECT array_agg(number ORDER BY number) FROM written").fetchone()
            assert found == (list(range(7)),)
            connection.execute("INSERT INTO written VALUES (7)")
        assert promote_standby(archive, standby, files=open_files(other), key_folder=other.data_dir).moment is None
    finally:
        standby.stop()
        server.stop()


class StandbyProcess(ServiceProcess):
    """A process following an archive; after the promotion, use `become_service`."""

    def __init__(self, archive: Path) -> None:
        super().__init__()
        self.program = ("-m", "service", "follow", str(archive))

    def _bring_what_is_made(self) -> None:
        """Begin empty: the folder is made from the archive."""

    def become_service(self) -> None:
        self.program = ("-m", "service")
        self.start()


@pytest.mark.long
def test_a_standby_goes_on_where_the_service_was_lost(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    primary, standby = ServiceProcess(CARREL_ARCHIVE_URL=folder.as_uri()), StandbyProcess(folder)
    try:
        primary.start()
        upload(primary, "before")
        assert primary.command("backup", "--incremental").returncode == 0
        standby.start(wait=False)
        wait_for(standby, lambda: bool(standby.events("standby_follows")))
        assert "is a standby" in standby.command("files", "check").stderr
        upload(primary, "while it follows")
        standby.kill()
        upload(primary, "while it is away")
        standby.start(wait=False)
        wait_for(standby, lambda: len(standby.events("standby_follows")) == 2)
        upload(primary, "last")
        wait_until_archived(primary, Archive(folder.as_uri()))
        everything = documents(primary)
        primary.kill()
        primary.kill_database()
        promoted = standby.command("promote")
        assert "Promoted." in promoted.stderr, promoted.stderr + standby.log.read_text()[-3000:]
        assert standby.process is not None
        assert standby.process.wait(60) == 0
        standby.become_service()
        holds(standby, everything)
        upload(standby, "goes on")
    finally:
        standby.close()
        primary.close()
