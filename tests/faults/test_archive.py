"""Going back to a moment: the archive of log and files, backups in it, and restores, with real processes."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.operate.archiving.archive import Archive
from service.operate.archiving.models import segment_name
from tests.faults.test_backup import content, documents, refused, upload
from tests.harness.processes import ServiceProcess
from tests.service.directory import done

SEGMENT = 16 * 1024 * 1024


def now() -> str:
    """The time, as `--to` takes it."""
    return datetime.now(UTC).isoformat()


@dataclass
class Archived:
    """A service that archives, and what its documents were at some moments."""

    process: ServiceProcess
    archive: Path
    moments: dict[str, str] = field(default_factory=dict)
    then: dict[str, dict[str, str]] = field(default_factory=dict)

    def note(self, name: str) -> None:
        """Note what there is at this moment."""
        self.then[name] = documents(self.process)
        time.sleep(0.01)
        self.moments[name] = now()
        time.sleep(0.01)

    def back_up(self, *arguments: str) -> str:
        """Take an incremental backup; returns what the command says."""
        ended = self.process.command("backup", "--incremental", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    def restore(self, to: str | None) -> ServiceProcess:
        """Restore a moment into a folder of its own, and start its service."""
        other = ServiceProcess()
        try:
            arguments = [] if to is None else ["--to", to]
            ended = other.command("restore", str(self.archive), *arguments)
            assert ended.returncode == 0, ended.stderr
            other.start()
        except BaseException:
            other.close()
            raise
        return other


def delete(process: ServiceProcess, document_id: str) -> None:
    """Delete a document."""
    done(process.call("catalog/deleteDocument", {"documentId": document_id}))


def holds(process: ServiceProcess, then: dict[str, str]) -> None:
    """Compare a restored service's documents and their files with what there was."""
    assert documents(process) == then
    for name, document_id in then.items():
        file = process.http.post("/api/v0/catalog/downloadDocument", json={"documentId": document_id})
        assert file.content == content(name), name


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    """A service with a full backup, an incremental one, and documents written and deleted between and after them."""
    archive = tmp_path_factory.mktemp("archives") / "carrel"
    process = ServiceProcess(CARREL_ARCHIVE_URL=archive.as_uri())
    made = Archived(process, archive)
    try:
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
    finally:
        process.close()


def test_the_service_tells_how_far_its_archive_is(archived: Archived) -> None:
    """All that was written some seconds ago is archived, whichever worker is asked."""
    told = done(archived.process.call("admin/status/get"))["archive"]["archivedAt"]
    assert datetime.now(UTC) - datetime.fromisoformat(told) < timedelta(seconds=30)
    assert "\ncarrel_archive_timestamp_seconds 1." in archived.process.http.get("/metrics").text


def test_a_moment_is_restored(archived: Archived) -> None:
    """What there was then is there, with its files, and nothing of later: an incremental backup and log upon it."""
    other = ServiceProcess()
    try:
        ended = other.command("restore", str(archived.archive), "--to", archived.moments["after"])
        assert ended.returncode == 0, ended.stderr
        # The row of the deleted one stays.
        assert ended.stderr.startswith("Restored: 3 documents, 2 files, 1 organization, as of 2")
        checked = other.command("files", "check")
        assert checked.stderr.startswith("2 files"), checked.stderr
        assert "0 missing, 0 altered" in checked.stderr
        assert (other.data_dir / "secret.key").read_text() == (archived.process.data_dir / "secret.key").read_text()
        again = other.command("restore", str(archived.archive))
        assert "Restore into an empty folder" in again.stderr
    finally:
        other.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "2001-01-01T00:00:00Z"], "The first moment that can be restored is 2"),
        (["--to", "2101-01-01T00:00:00Z"], "The archive ends at 2"),
        (["--to", "2026-11-26T06:00:00"], "has no time zone"),
        (["--to", "yesterday"], "is no moment"),
    ],
)
def test_a_moment_that_is_not_there_is_refused(
    archived: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """The error says which moments are there, or how one is written, and nothing is made."""
    folder = tmp_path / "data"
    assert said in refused(capsys, folder, "restore", str(archived.archive), *arguments)
    assert not folder.exists()


def test_a_missing_segment_is_named(archived: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log without a segment that the backup needs is refused by the segment's name; so is no archive at all."""
    copy = tmp_path / "copy"
    shutil.copytree(archived.archive, copy)
    base = Archive.find(str(copy)).bases()[-1]
    name = segment_name(base.timeline, base.start_lsn // SEGMENT, segment_bytes=SEGMENT)
    shutil.rmtree(copy / "log" / name)
    assert name in refused(capsys, tmp_path / "data", "restore", str(copy))
    assert "There is no archive in" in refused(capsys, tmp_path / "data", "restore", "file:///nowhere/at/all")


@pytest.mark.long
@pytest.mark.parametrize("name", ["between", "after", "end"])
def test_a_restored_moment_is_a_service(archived: Archived, name: str) -> None:
    """It serves what there was then, with its files, and nothing of later; the newest moment is the last write."""
    restored = archived.restore(None if name == "end" else archived.moments[name])
    try:
        holds(restored, archived.then[name])
    finally:
        restored.close()
