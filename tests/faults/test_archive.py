"""Going back to a moment: the archive of log and files, backups in it, and restores, with real processes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.test_backup import content, documents, upload
from tests.harness.processes import ServiceProcess
from tests.service.directory import done


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


@pytest.mark.parametrize("name", ["between", "after", "end"])
def test_a_moment_is_restored(archived: Archived, name: str) -> None:
    """What there was then is there, with its files, and nothing of later; the newest moment is the last write."""
    restored = archived.restore(None if name == "end" else archived.moments[name])
    try:
        holds(restored, archived.then[name])
    finally:
        restored.close()
