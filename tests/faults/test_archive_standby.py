"""A standby of the embedded database: it follows an archive, is killed and goes on, and is promoted."""

import asyncio
from pathlib import Path

import pytest

from service.operate.archiving.archive import Archive
from service.operate.archiving.bases import take_base
from service.operate.archiving.restoring import Follower, make_standby, plan_restore, promote_standby
from service.operate.archiving.shipping import open_shipper
from service.operate.startup import prepare
from service.platform.files import open_files
from service.platform.postgres.server import DATABASE, EmbeddedPostgres
from service.platform.postgres.standby import EmbeddedStandby
from service.platform.settings import Settings
from tests.faults.test_archive import holds, wait_for, wait_until_archived
from tests.faults.test_backup import documents, upload
from tests.harness.first_start import bring_database
from tests.harness.processes import ServiceProcess


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
    """Also what was archived after it looked last, and though its server was killed."""
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
    """A process that follows an archive; once it is promoted, `become_service`."""

    def __init__(self, archive: Path) -> None:
        super().__init__()
        self.program = ("-m", "service", "follow", str(archive))

    def _bring_what_is_made(self) -> None:
        """Begin with nothing: the folder is made from the archive."""

    def become_service(self) -> None:
        self.program = ("-m", "service")
        self.start()


@pytest.mark.long
def test_a_standby_goes_on_where_the_service_was_lost(tmp_path: Path) -> None:
    """What was archived is there after a promotion, with its files, though both processes were killed before."""
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
