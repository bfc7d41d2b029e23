"""A primary with standbys, using the embedded server's programs."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from service import migrations
from service.platform.postgres.process import socket_folder
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from tests.harness.databases import PARAMETERS

# A commit waits for the disk, as anywhere but in tests: what it waits for is what a standby is sent.
REPLICATED = PARAMETERS | {
    "synchronous_commit": "on",
    "shared_buffers": "32MB",
    "hot_standby_feedback": "on",
    "wal_keep_size": "64MB",
    "wal_retrieve_retry_interval": "500ms",
}


class Server(EmbeddedPostgres):
    """A server with possible standbys."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o711, exist_ok=True)
        super().__init__(folder, parameters=REPLICATED)

    def follow(self, *servers: "Server") -> None:
        self._folder.mkdir(mode=0o700)
        shutil.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        hosts = ",".join(socket_folder(server._folder) for server in servers)
        source = f"host={hosts} user={SUPERUSER} target_session_attrs=primary"
        self._run("pg_basebackup", "-D", self._name(), "-R", "-N", "-c", "fast", "-d", source, folder=self._folder)
        for copied in (".s.PGSQL.5432.lock", "log"):
            (self._folder / copied).unlink()
        self.start()

    def execute(self, statement: str, database: str = DATABASE) -> list[tuple[object, ...]]:
        with self.connect(database) as connection:
            result = connection.execute(statement.encode())
            return result.fetchall() if result.description else []

    def address(self, *others: "Server", user: str = SUPERUSER) -> SecretStr:
        hosts = ",".join(socket_folder(server._folder) for server in (self, *others))
        url = self.url(user=user).set(drivername="postgresql", query={"host": hosts})
        return SecretStr(url.render_as_string(hide_password=False))


@contextmanager
def replicated(standbys: int) -> Generator[tuple[Server, list[Server]]]:
    folder = Path(tempfile.mkdtemp(prefix="replication-"))
    folder.chmod(0o711)
    servers = [Server(folder / str(number)) for number in range(standbys + 1)]
    try:
        primary, *others = servers
        primary.start()
        migrations.upgrade(primary.url(user=SUPERUSER))
        for other in others:
            other.follow(*servers)
        yield primary, others
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(folder)
