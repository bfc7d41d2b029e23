"""The archive while service, archive process, PostgreSQL and commands are killed, and while its disk is full."""

import os
import subprocess
import time
from contextlib import closing, suppress
from datetime import UTC, datetime

import httpx
import pytest

from service.operate.archiving.archive import Archive
from tests.faults.test_archive import holds, restored, wait_for, wait_until_archived
from tests.faults.test_backup import documents, upload
from tests.harness.loops import going_on
from tests.harness.object_store import object_store
from tests.harness.processes import ServiceProcess

pytestmark = pytest.mark.long

FINISH = "service.operate.archiving.archive:Archive.finish_base"


class Uploads:
    """Uploads documents in turn, and records the acknowledged uploads with times."""

    def __init__(self, process: ServiceProcess) -> None:
        self._process = process
        self.acknowledged: dict[str, datetime] = {}
        self.begun: dict[str, datetime] = {}

    def upload_another(self) -> None:
        name = f"upload-{len(self.begun)}"
        self.begun[name] = datetime.now(UTC)
        try:
            upload(self._process, name)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            self.acknowledged[name] = datetime.now(UTC)

    def wait_for(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        wait_for(self._process, lambda: len(self.acknowledged) >= wanted)


def test_nothing_acknowledged_is_lost_whatever_is_killed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(str(tmp_path / "log")) as store:
        bucket = store.make()
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        address = f"s3://{bucket.name}/carrel"
        archive = Archive(address)
        with closing(ServiceProcess(CARREL_ARCHIVE_URL=address)) as process:
            process.start()
            uploads = Uploads(process)
            with going_on(uploads.upload_another):
                uploads.wait_for(2)
                process.command("backup", "--incremental", killed_at=FINISH)
                assert process.command("backup", "--incremental").returncode == 0
                [archiver] = process.parts("archive")
                archiver.kill()
                uploads.wait_for(3)
                process.kill_database()
                uploads.wait_for(3)
                moment = datetime.now(UTC)
                assert process.command("backup", "--incremental").returncode == 0
                process.kill()
                process.start()
                uploads.wait_for(3)
            wait_until_archived(process, archive)
            everything = documents(process)
            assert uploads.acknowledged.keys() <= everything.keys()
        with restored(address, killed=True) as newest:
            holds(newest, everything)
        with restored(address, "--to", moment.isoformat()) as earlier:
            then = documents(earlier)
            holds(earlier, then)
            assert {name for name, at in uploads.acknowledged.items() if at < moment} <= then.keys()
            assert then.keys() <= {name for name, at in uploads.begun.items() if at < moment}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk")
def test_a_full_disk_of_the_archive_stops_no_upload(tmp_path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=24m", "carrel-test", str(disk)], check=True)
    process = ServiceProcess(CARREL_ARCHIVE_URL=(disk / "archive").as_uri())
    try:
        process.start()
        assert process.command("backup", "--incremental").returncode == 0
        (disk / "foreign").touch()
        while free := os.statvfs(disk).f_bavail:
            with (disk / "foreign").open("ab") as file, suppress(OSError):
                file.write(bytes(min(free, 256) * 4096))
        for number in range(10):
            upload(process, f"while full {number}")
        ended = process.command("backup", "--incremental")
        assert ended.returncode == 1
        assert "No space left" in ended.stderr or "doesn't archive" in ended.stderr
        assert process.events("background_work_failed")
        (disk / "foreign").unlink()
        wait_until_archived(process, Archive((disk / "archive").as_uri()))
        everything = documents(process)
        with restored(str(disk / "archive")) as newest:
            holds(newest, everything)
    finally:
        process.close()
        subprocess.run(["/bin/umount", "--lazy", str(disk)], check=True)
