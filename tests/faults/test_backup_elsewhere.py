"""Backups of a database that isn't the embedded one, of the release before, and of files that aren't in a folder."""

import fcntl
import gzip
import os
import re
import tarfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from pydantic import SecretStr
from sqlalchemy.engine import URL, make_url

from service import migrations
from service.operate.backup import postgres_tools
from service.operate.backup.archive import ArchiveError, ArchiveWriter, BackupError, PostgresToolError, new_file
from service.operate.backup.taking import verify
from service.operate.commands import run
from service.platform.database import SERVICE_ROLE
from service.platform.files import FileStore
from service.platform.settings import Settings
from tests.harness.databases import TestDatabases
from tests.harness.documents import uploaded
from tests.harness.releases import export_release_before, migrate_before, run_before
from tests.harness.services import settings_for_test
from tests.service.directory import done

OWNER, PASSWORD = "plain_owner", "a password with = ' and \\ in it"


@dataclass(frozen=True)
class OutsideServer:
    """A PostgreSQL on which a user without any privilege owns databases, and signs in with a password."""

    databases: TestDatabases

    def new_database(self) -> tuple[str, URL]:
        name = self.databases.empty()
        with self.databases.connect(name) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"ALTER DATABASE {name} OWNER TO {OWNER}")
        address = self.databases.owner_url(name).set(username=OWNER, password=PASSWORD, drivername="postgresql")
        return name, address


@pytest.fixture
def outside(databases: TestDatabases) -> Iterator[OutsideServer]:
    """Let that user in beside those whom the operating system vouches for."""
    rules = databases.folder / "postgres" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all {OWNER} scram-sha-256\n{before}")
    with databases.connect("carrel") as connection:
        quoted = PASSWORD.replace("'", "''")
        connection.execute(f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER PASSWORD '{quoted}'")
        connection.execute(f"GRANT {SERVICE_ROLE} TO {OWNER}")
        connection.execute("SELECT pg_reload_conf()")
    yield OutsideServer(databases)
    rules.write_text(before)
    with databases.connect("carrel") as connection:
        for (name,) in connection.execute(
            "SELECT datname FROM pg_database WHERE datdba = %s::regrole", [OWNER]
        ).fetchall():
            databases.drop(name)
        connection.execute(f"DROP ROLE {OWNER}")
        connection.execute("SELECT pg_reload_conf()")


def settings_of(folder: Path, url: URL, **others: object) -> Settings:
    folder.mkdir(exist_ok=True)
    return settings_for_test(folder, SecretStr(url.render_as_string(hide_password=False)), **others)


def test_an_outside_database_is_backed_up_and_restored_by_its_owner(outside, make_service, tmp_path, capsys) -> None:
    """Every row of every organization, though row-level security holds that user back; no password is shown."""
    archive = tmp_path / "backup.tar.gz"
    source, url = outside.new_database()
    service = make_service(database=source, database_url=settings_of(tmp_path / "a", url).database_url)
    service.new_user("ada@example.test")
    uploaded(service, "tides", "High water at noon.", internalPublic="true")
    assert run(["backup", str(archive)], service.settings) == 0, capsys.readouterr().err
    target, url = outside.new_database()
    settings = settings_of(tmp_path / "b", url)
    assert run(["restore", str(archive)], settings) == 0, capsys.readouterr().err
    assert PASSWORD not in "".join(capsys.readouterr())
    restored = make_service(database=target, database_url=settings.database_url, data_dir=settings.data_dir)
    for operation in ("admin/users/list", "admin/auditLog/query", "catalog/listDocuments"):
        assert done(restored.call(operation)) == done(service.call(operation))
    [document] = done(restored.call("catalog/listDocuments"))["documents"]
    file = restored.call("catalog/downloadDocument", {"documentId": document["documentId"]})
    assert file.content == b"High water at noon."
    assert run(["restore", str(archive)], settings_of(tmp_path / "c", url)) == 1
    assert "The database has something in it" in capsys.readouterr().err


def test_a_database_whose_rows_are_hidden_is_not_backed_up(outside, tmp_path, capsys) -> None:
    """Where a table would be read in part, there is no archive at all."""
    name, url = outside.new_database()
    migrations.upgrade(url.set(drivername="postgresql+psycopg"))
    with outside.databases.connect(name) as connection:
        connection.execute("DROP POLICY backup ON documents")
    assert run(["backup", str(tmp_path / "x")], settings_of(tmp_path / "a", url)) == 1
    assert "can't read all rows of documents" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_backup_of_the_release_before_is_restored(databases, tmp_path, capsys) -> None:
    archive, old, new = tmp_path / "backup.tar.gz", databases.empty(), databases.empty()
    tree = export_release_before(tmp_path / "before")
    migrate_before(tree, databases.owner_url(old))
    with databases.connect(old) as connection:
        connection.execute(
            "INSERT INTO organizations (organization_id, name, domain) VALUES (gen_random_uuid(), 'Kept', 'x.test')"
        )
    address = databases.owner_url(old).set(drivername="postgresql").render_as_string(hide_password=False)
    (tmp_path / "a/files").mkdir(parents=True)
    run_before(
        tree, "-m", "service", "backup", str(archive), CARREL_DATABASE_URL=address, CARREL_DATA_DIR=f"{tmp_path}/a"
    )
    settings = settings_of(tmp_path / "b", databases.owner_url(new))
    assert run(["restore", str(archive)], settings) == 0, capsys.readouterr().err
    with databases.connect(new) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (migrations.HEAD,)
        assert connection.execute("SELECT name FROM organizations").fetchall() == [("Kept",)]
    for name in (old, new):
        databases.drop(name)


def test_a_newer_postgresql_is_refused_in_words() -> None:
    ours = postgres_tools.tools_major_version()
    assert postgres_tools.check_version(ours * 10_000 + 4) == ours
    with pytest.raises(PostgresToolError, match=f"PostgreSQL {ours + 1}; .* up to {ours}.* Use pg_dump {ours + 1}"):
        postgres_tools.check_version((ours + 1) * 10_000)


def test_no_secret_of_the_databases_address_is_on_a_command_line(outside: OutsideServer) -> None:
    """User, password and host go by the environment; what has no variable goes on the line, unless it is a secret."""
    _, url = outside.new_database()
    environment, line = postgres_tools._connection(url.update_query_dict({"keepalives_idle": "30"}))
    assert environment["PGPASSWORD"] == PASSWORD
    assert PASSWORD not in line
    assert re.fullmatch(r"application_name=carrel-backup keepalives_idle=30", line)
    with pytest.raises(PostgresToolError, match="sslpassword"):
        postgres_tools._connection(make_url("postgresql://u@h/d?sslpassword=x"))


def test_files_of_any_store_are_read_and_written_in_pieces() -> None:
    files = FileStore(MemoryStore())
    pieces = [bytes([number]) * 3_000_000 for number in range(4)]

    def failing() -> Iterator[bytes]:
        yield from pieces
        raise BackupError

    files.write(b"\1" * 32, iter(pieces))
    assert b"".join(files.read(b"\1" * 32)) == b"".join(pieces)
    with pytest.raises(BackupError):
        files.write(b"\2" * 32, failing())
    with pytest.raises(FileNotFoundError):
        files.read(b"\2" * 32)


@pytest.mark.parametrize("content", [b"", b"short", b"right size, wrong bytes", b"far too long" * 100_000])
def test_a_file_that_isnt_what_the_database_says_stops_the_backup(tmp_path: Path, content: bytes) -> None:
    """A damaged file store is noticed when it is backed up, not when it is restored; nothing is left."""
    size = len(b"right size, wrong bytes")
    with pytest.raises(BackupError, match="damaged"), new_file(tmp_path / "x") as file:
        ArchiveWriter(file).add_file(b"\0" * 32, iter([content]), size=size)
    assert list(tmp_path.iterdir()) == []


def test_two_backups_to_one_name_do_not_mix(tmp_path: Path) -> None:
    with new_file(tmp_path / "x") as file:
        file.write(b"first")
        with pytest.raises(BackupError, match="Another backup"), new_file(tmp_path / "x"):
            pass
    assert (tmp_path / "x").read_bytes() == b"first"


def test_a_backup_that_ends_while_another_begins_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one may have opened the partial file just before it got its name, and must not write to it."""
    lock = fcntl.flock

    def lock_late(descriptor: int, how: int) -> None:
        (tmp_path / "x.partial").rename(tmp_path / "x")
        lock(descriptor, how)

    (tmp_path / "x.partial").write_bytes(b"first")
    monkeypatch.setattr(fcntl, "flock", lock_late)
    with pytest.raises(BackupError, match="Another backup"), new_file(tmp_path / "x"):
        pass
    assert (tmp_path / "x").read_bytes() == b"first"


@pytest.mark.parametrize("kind", ["hard link", "pipe", "another user's"])
def test_a_backup_is_written_to_no_file_that_others_put_there(tmp_path, monkeypatch, kind) -> None:
    """In a folder for everybody, somebody could otherwise read the archive, or have another file overwritten."""
    precious, partial = tmp_path / "precious", tmp_path / "x.partial"
    precious.write_bytes(b"precious")
    if kind == "hard link":
        partial.hardlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(partial)
    else:
        partial.write_bytes(b"theirs")
        monkeypatch.setattr(os, "geteuid", lambda: partial.stat().st_uid + 1)
    with pytest.raises(BackupError, match="no file of your own"), new_file(tmp_path / "x"):
        pass
    assert precious.read_bytes() == b"precious"
    assert partial.exists()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.SYMTYPE])
def test_a_header_that_says_it_is_huge_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    """A few kilobytes would unpack to more than the machine has; only plain files are in a backup."""
    header = tarfile.TarInfo("files/x")
    header.type, header.size = kind, 256 * 1024 * 1024
    with gzip.open(tmp_path / "x", "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(256):
            file.write(bytes(1024 * 1024))
    tracemalloc.start()
    try:
        with (tmp_path / "x").open("rb") as file, pytest.raises(ArchiveError, match="no plain file"):
            verify(file)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()
