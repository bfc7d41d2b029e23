"""Backups and restores: with the real process, killed midway, of an outside database, and of the previous release."""

import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
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
from service.platform.postgres.recovery import RecoveringPostgres, RecoveryError
from service.platform.settings import Settings
from tests.harness.cases import statement
from tests.harness.databases import TestDatabases
from tests.harness.documents import upload as send
from tests.harness.documents import uploaded
from tests.harness.jobs import until
from tests.harness.loops import going_on
from tests.harness.processes import ServiceProcess
from tests.harness.releases import export_release_before, migrate_before, run_before
from tests.harness.services import settings_for_test
from tests.service.directory import code, done
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

PASSWORD = "4-quinqueremes-of-nineveh"
DOCUMENTS = 12

# What a database lets whom do: policies, row-level security, and the rights of the service's role.
RULES = statement("rules_of_a_database")


@dataclass
class Deployment:
    """A service with data of every kind, and the answers about the data."""

    process: ServiceProcess
    archive: Path
    acknowledged: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    before: dict = field(default_factory=dict)


def content(name: str) -> bytes:
    word = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"# {name}\n\nThe lighthouse keeper of {word} counts the ships.\n".encode() * 3


def upload(process: ServiceProcess, name: str, **parts: str) -> None:
    send(process, name, content(name), file_name=f"{name}.md", **parts).raise_for_status()


def documents(process: ServiceProcess) -> dict[str, str]:
    page = done(process.call("catalog/listDocuments", {"pageSize": 1000}))
    assert "nextPageToken" not in page
    return {one["documentExternalId"]: one["documentId"] for one in page["documents"]}


def answers(process: ServiceProcess, secrets: dict[str, str]) -> dict:
    everything = {"pageSize": 1000}
    return {
        "users": done(process.call("admin/users/list", everything))["users"],
        "groups": done(process.call("admin/groups/list", everything))["groups"],
        "keys": [one | {"lastUsedAt": None} for one in done(process.call("admin/apiKeys/list", everything))["apiKeys"]],
        "accounts": done(process.call("admin/serviceAccounts/list", everything))["serviceAccounts"],
        "organization": done(process.call("admin/organization/get")),
        "ada reads": done(
            process.call(
                "permissions/listAuthorizedResources", {"action": "READ", "pageSize": 20}, api_key=secrets["ada"]
            )
        )["resources"],
    }


def fill(process: ServiceProcess) -> dict[str, str]:
    users = [{"email": "ada@example.test", "name": "Ada", "password": PASSWORD}, {"email": "bo@example.test"}]
    done(process.call("admin/users/upsert", {"users": users}))
    members = [{"type": "user", "email": "ada@example.test"}]
    group = done(process.call("admin/groups/upsert", {"groups": [{"name": "Keepers", "members": members}]}))
    key = done(process.call("admin/apiKeys/create", {"name": "Ada's", "ownerEmail": "ada@example.test"}))
    enable_service_accounts(process)
    token = a_token(process, an_account(process), "catalog:read")
    allowed = json.dumps([group["groups"][0]["id"]])
    upload(process, "granted", allowedGroupIds=allowed)
    for number in range(DOCUMENTS):
        upload(process, f"first-{number}", internalPublic="true")
    return {"ada": key["apiKey"], "token": token["token"]}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A filled service, backed up while uploads continue, still running."""
    with closing(ServiceProcess()) as process:
        process.start()
        made = Deployment(process, tmp_path_factory.mktemp("backups") / "carrel.tar.gz")
        made.secrets = fill(process)
        made.before = answers(process, made.secrets)
        back_up_while_uploading(made)
        yield made


def back_up_while_uploading(made: Deployment) -> None:
    uploaded: list[str] = []

    def upload_another() -> None:
        name = f"meanwhile-{len(uploaded)}"
        upload(made.process, name)
        uploaded.append(name)

    with going_on(upload_another):
        until(lambda: len(uploaded) >= 3)
        made.acknowledged = list(uploaded)
        ended = made.process.command("backup", str(made.archive))
        assert ended.returncode == 0, ended.stderr
    assert len(uploaded) > len(made.acknowledged)


@pytest.fixture(scope="module")
def restored(deployment: Deployment) -> Iterator[ServiceProcess]:
    with closing(ServiceProcess()) as process:
        process.command("restore", str(deployment.archive), killed_at="service.operate.backup.postgres_tools:load")
        ended = process.command("restore", str(deployment.archive))
        assert ended.returncode == 0, ended.stderr
        process.start()
        yield process


@pytest.mark.slow
def test_a_backup_is_its_owners_alone_and_never_overwritten(deployment, capsys) -> None:
    assert deployment.archive.stat().st_mode & 0o777 == 0o600
    digest = hashlib.sha256(deployment.archive.read_bytes()).digest()
    assert "not overwritten" in refused(capsys, deployment.process.data_dir, "backup", str(deployment.archive))
    assert hashlib.sha256(deployment.archive.read_bytes()).digest() == digest
    assert list(deployment.archive.parent.iterdir()) == [deployment.archive]


def test_everything_the_backups_moment_knew_is_back(deployment: Deployment, restored: ServiceProcess) -> None:
    assert answers(restored, deployment.secrets) == deployment.before
    log = {"pageSize": 1000}
    then = done(deployment.process.call("admin/auditLog/query", log))["entries"]
    now = done(restored.call("admin/auditLog/query", log))["entries"]
    assert now == then[len(then) - len(now) :]
    assert {"user.create", "apiKey.create", "group.create", "organization.create"} <= {one["action"] for one in now}


def test_credentials_work_as_before(deployment: Deployment, restored: ServiceProcess) -> None:
    assert restored.call("catalog/listDocuments", api_key=deployment.secrets["ada"]).status_code == 200
    scope = code(restored.call("admin/users/list", api_key=deployment.secrets["token"]))
    assert scope == code(deployment.process.call("admin/users/list", api_key=deployment.secrets["token"]))
    assert scope[0] == 403


def test_every_document_is_found_and_downloads_as_it_was_sent(deployment: Deployment, restored: ServiceProcess) -> None:
    found = documents(restored)
    assert {"granted", *(f"first-{number}" for number in range(DOCUMENTS)), *deployment.acknowledged} <= found.keys()
    assert found.items() <= documents(deployment.process).items()
    for name, document_id in found.items():
        file = restored.http.post("/api/v0/catalog/downloadDocument", json={"documentId": document_id})
        assert file.content == content(name), name
    for name in ("granted", "first-3", deployment.acknowledged[-1]):
        word = hashlib.sha256(name.encode()).hexdigest()[:12]
        hits = done(restored.call("search/searchDocumentCatalog", {"searchQuery": f"lighthouse {word}"}))["results"]
        assert hits[0]["documentId"] == found[name], name


def test_the_restored_service_goes_on(restored: ServiceProcess) -> None:
    upload(restored, "afterwards")
    word = hashlib.sha256(b"afterwards").hexdigest()[:12]
    hits = done(restored.call("search/searchDocumentCatalog", {"searchQuery": word}))["results"]
    assert hits[0]["documentId"] == documents(restored)["afterwards"]


def test_row_level_security_and_rights_are_as_before(deployment: Deployment, restored: ServiceProcess) -> None:
    with (
        deployment.process.database_server().connect("carrel") as then,
        restored.database_server().connect("carrel") as now,
    ):
        rules = then.execute(RULES).fetchall()
        assert now.execute(RULES).fetchall() == rules
        assert len(rules) > 100
        # The store of the deployment that was backed up, which may go on, isn't the restored one's.
        owned = "SELECT store_id FROM deployment"
        assert now.execute(owned).fetchone() != then.execute(owned).fetchone()
        now.execute("SET ROLE carrel_service")
        now.execute("SELECT set_config('carrel.organization_id', gen_random_uuid()::text, false)")
        assert now.execute("SELECT count(*) FROM documents").fetchone() == (0,)


def refused(capsys: pytest.CaptureFixture[str], data_dir: Path, *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments, Settings(data_dir=data_dir)) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_a_restore_wants_an_empty_folder(deployment, restored, capsys) -> None:
    said = refused(capsys, restored.data_dir, "restore", str(deployment.archive))
    assert str(restored.data_dir / "postgres") in said
    assert "empty folder" in said
    assert restored.call("catalog/listDocuments").status_code == 200


def test_a_killed_backup_leaves_no_archive_and_harms_nothing(deployment: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "backup.tar.gz"
    deployment.process.command("backup", str(path), killed_at="service.operate.backup.archive:ArchiveWriter.close")
    assert [one.name for one in tmp_path.iterdir()] == ["backup.tar.gz.partial"]
    (tmp_path / "backup.tar.gz.partial").chmod(0o644)
    ended = deployment.process.command("backup", str(path))
    assert ended.returncode == 0, ended.stderr
    assert [(one.name, one.stat().st_mode & 0o777) for one in tmp_path.iterdir()] == [("backup.tar.gz", 0o600)]
    with path.open("rb") as file:
        verify(file)


def test_a_restore_killed_at_its_end_is_no_deployment(deployment, tmp_path, capsys) -> None:
    with closing(ServiceProcess()) as process:
        process.command("restore", str(deployment.archive), killed_at="service.operate.deployment.service:remove_mark")
        start = process.command()
        assert start.returncode == 1
        assert "interrupted. Wait for it, or run it again" in start.stderr
        assert "interrupted" in refused(capsys, process.data_dir, "backup", str(tmp_path / "backup.tar.gz"))


def test_commands_reach_the_database_of_a_running_service(deployment, capsys, monkeypatch) -> None:
    """Commands use the service's PostgreSQL, and leave it running; changing keys is refused."""
    server = deployment.process.database_server().process()
    monkeypatch.setattr(sys, "stdin", io.StringIO("another password"))
    arguments = ("user", "set-password", "--email", "bo@example.test")
    statuses: list[int] = []
    settings = Settings(data_dir=deployment.process.data_dir)
    # A thread, because an event loop of the tests' is in this one.
    thread = threading.Thread(target=lambda: statuses.append(run(arguments, settings)))
    thread.start()
    thread.join(60)
    assert statuses == [0], capsys.readouterr().err
    [entry, *_] = done(deployment.process.call("admin/auditLog/query"))["entries"]
    assert entry["details"]["passwordChanged"] is True
    assert "Another Carrel service" in refused(capsys, deployment.process.data_dir, "rotate-key")
    assert deployment.process.database_server().process() == server


def rewritten(archive: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[str, bytes] | None]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(archive) as source, tarfile.open(fileobj=target, mode="w:gz") as copy:
        for member in source:
            changed = change(member, source.extractfile(member).read())  # type: ignore[union-attr]
            if changed is not None:
                member.name, content = changed
                member.size = len(content)
                copy.addfile(member, io.BytesIO(content))
    return target.getvalue()


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def edited(content: bytes, **members: object) -> bytes:
    return json.dumps(json.loads(content) | members).encode()


def only(kind: str, change: Callable[[str, bytes], tuple[str, bytes] | None]):
    return lambda one, content: change(one.name, content) if one.name.startswith(kind) else (one.name, content)


TAMPERED = {
    "a file": only("files/", lambda name, content: (name, flipped(content))),
    "a file's name": only("files/", lambda name, content: (name[:-1] + ("0" if name[-1] != "0" else "1"), content)),
    "no files": only("files/", lambda _name, _content: None),
    "the dump": only("database/", lambda name, content: (name, flipped(content))),
    "no dump": only("database/", lambda _name, _content: None),
    "no key": only("secret.key", lambda _name, _content: None),
    "another key": only("secret.key", lambda name, content: (name, flipped(content))),
    "not the manifest": only("manifest", lambda _name, _content: None),
    "the manifest": only("manifest", lambda name, content: (name, edited(content, contents={}))),
    "a newer format": only("manifest", lambda name, content: (name, edited(content, format=2))),
    "a newer schema": only("manifest", lambda name, content: (name, edited(content, schema_revision="9999"))),
    "an older schema": only("manifest", lambda name, content: (name, edited(content, schema_revision="0056"))),
    "a path above": only("secret.key", lambda _name, content: ("../../secret.key", content)),
    "an absolute path": only("secret.key", lambda _name, content: ("/tmp/secret.key", content)),  # noqa: S108
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_tampered_archive_is_refused(deployment: Deployment, what: str) -> None:
    with pytest.raises(ArchiveError):
        verify(io.BytesIO(rewritten(deployment.archive, TAMPERED[what])))


def test_links_and_doubled_members_are_refused(deployment: Deployment) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w:gz") as tar:
            member = tarfile.TarInfo("files/" + "0" * 64)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
        with pytest.raises(ArchiveError):
            verify(io.BytesIO(target.getvalue()))
    twice = rewritten(deployment.archive, lambda one, content: (one.name, content))
    plain = gzip.decompress(twice)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        first_member = tar.getmembers()[0]
    length = 512 + -(-first_member.size // 512) * 512
    with pytest.raises(ArchiveError):
        verify(io.BytesIO(gzip.compress(plain[:length] + plain)))


def test_an_archive_cut_off_anywhere_is_refused(deployment: Deployment) -> None:
    whole = deployment.archive.read_bytes()
    for part in range(20):
        with pytest.raises(ArchiveError):
            verify(io.BytesIO(whole[: (len(whole) - 1) * part // 19]))
    for other in (b"not a backup", gzip.compress(b"nor this"), gzip.compress(b"")):
        with pytest.raises(ArchiveError):
            verify(io.BytesIO(other))


def test_a_damaged_archive_leaves_the_folder_as_empty_as_before(deployment, tmp_path, capsys) -> None:
    damaged, folder = tmp_path / "damaged.tar.gz", tmp_path / "data"
    damaged.write_bytes(deployment.archive.read_bytes()[:-20])
    assert "can't be restored" in refused(capsys, folder, "restore", str(damaged))
    assert not folder.exists()


OWNER, OWNERS_PASSWORD = "plain_owner", "a password with = ' and \\ in it"


@dataclass(frozen=True)
class OutsideServer:
    """A PostgreSQL on which an unprivileged user owns databases, and signs in with a password."""

    databases: TestDatabases

    def new_database(self) -> tuple[str, URL]:
        name = self.databases.empty()
        with self.databases.connect(name) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"ALTER DATABASE {name} OWNER TO {OWNER}")
        address = self.databases.owner_url(name).set(username=OWNER, password=OWNERS_PASSWORD, drivername="postgresql")
        return name, address


@pytest.fixture
def outside(databases: TestDatabases) -> Iterator[OutsideServer]:
    """Allow the user's password in addition to the operating system's users."""
    rules = databases.folder / "postgres" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all {OWNER} scram-sha-256\n{before}")
    with databases.connect("carrel") as connection:
        quoted = OWNERS_PASSWORD.replace("'", "''")
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
    """Includes rows hidden from the owner by row-level security."""
    archive = tmp_path / "backup.tar.gz"
    source, url = outside.new_database()
    service = make_service(database=source, database_url=settings_of(tmp_path / "a", url).database_url)
    service.new_user("ada@example.test")
    uploaded(service, "tides", "High water at noon.", internalPublic="true")
    assert run(["backup", str(archive)], service.settings) == 0, capsys.readouterr().err
    target, url = outside.new_database()
    settings = settings_of(tmp_path / "b", url)
    assert run(["restore", str(archive)], settings) == 0, capsys.readouterr().err
    assert OWNERS_PASSWORD not in "".join(capsys.readouterr())
    restored = make_service(database=target, database_url=settings.database_url, data_dir=settings.data_dir)
    for operation in ("admin/users/list", "admin/auditLog/query", "catalog/listDocuments"):
        assert done(restored.call(operation)) == done(service.call(operation))
    [document] = done(restored.call("catalog/listDocuments"))["documents"]
    file = restored.call("catalog/downloadDocument", {"documentId": document["documentId"]})
    assert file.content == b"High water at noon."
    assert run(["restore", str(archive)], settings_of(tmp_path / "c", url)) == 1
    assert "The database is not empty" in capsys.readouterr().err


def test_a_database_whose_rows_are_hidden_is_not_backed_up(outside, tmp_path, capsys) -> None:
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
    with pytest.raises(PostgresToolError, match=f"PostgreSQL {ours + 1}; .* up to {ours}.* use pg_dump {ours + 1}"):
        postgres_tools.check_version((ours + 1) * 10_000)


def test_no_secret_of_the_databases_address_is_on_a_command_line(outside: OutsideServer) -> None:
    """User, password and host go by the environment; options without a variable go on the line, unless secret."""
    _, url = outside.new_database()
    environment, line = postgres_tools._split_connection(url.update_query_dict({"keepalives_idle": "30"}))
    assert environment["PGPASSWORD"] == OWNERS_PASSWORD
    assert OWNERS_PASSWORD not in line
    assert re.fullmatch(r"application_name=carrel-backup keepalives_idle=30", line)
    with pytest.raises(PostgresToolError, match="sslpassword"):
        postgres_tools._split_connection(make_url("postgresql://u@h/d?sslpassword=x"))


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
    size = len(b"right size, wrong bytes")
    with pytest.raises(BackupError, match="damaged"), new_file(tmp_path / "x") as file:
        ArchiveWriter(file).add_file(b"\0" * 32, iter([content]), size=size)
    assert list(tmp_path.iterdir()) == []


def test_two_backups_to_one_name_do_not_mix(tmp_path: Path) -> None:
    with new_file(tmp_path / "x") as file:
        file.write(b"first")
        with pytest.raises(BackupError, match="Another"), new_file(tmp_path / "x"):
            pass
    assert (tmp_path / "x").read_bytes() == b"first"
    with pytest.raises(BackupError, match=r"There is no folder .*/none\. Create it"), new_file(tmp_path / "none" / "x"):
        pass


def test_a_backup_that_ends_while_another_begins_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second backup may have opened the partial file before the renaming, and must not write to it."""
    lock = fcntl.flock

    def lock_late(descriptor: int, how: int) -> None:
        (tmp_path / "x.partial").rename(tmp_path / "x")
        lock(descriptor, how)

    (tmp_path / "x.partial").write_bytes(b"first")
    monkeypatch.setattr(fcntl, "flock", lock_late)
    with pytest.raises(BackupError, match="Another"), new_file(tmp_path / "x"):
        pass
    assert (tmp_path / "x").read_bytes() == b"first"


@pytest.mark.parametrize("kind", ["hard link", "pipe", "another user's"])
def test_a_backup_is_written_to_no_file_that_others_put_there(tmp_path, monkeypatch, kind) -> None:
    precious, partial = tmp_path / "precious", tmp_path / "x.partial"
    precious.write_bytes(b"precious")
    if kind == "hard link":
        partial.hardlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(partial)
    else:
        partial.write_bytes(b"theirs")
        monkeypatch.setattr(os, "geteuid", lambda: partial.stat().st_uid + 1)
    with pytest.raises(BackupError, match="not a file of yours"), new_file(tmp_path / "x"):
        pass
    assert precious.read_bytes() == b"precious"
    assert partial.exists()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.SYMTYPE])
def test_a_header_that_says_it_is_huge_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("files/x")
    header.type, header.size = kind, 256 * 1024 * 1024
    with gzip.open(tmp_path / "x", "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(256):
            file.write(bytes(1024 * 1024))
    tracemalloc.start()
    try:
        with (tmp_path / "x").open("rb") as file, pytest.raises(ArchiveError, match="not a plain file"):
            verify(file)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x"])
def test_a_backup_of_an_archive_is_unpacked_within_its_folder(tmp_path, monkeypatch, name) -> None:
    monkeypatch.delattr(tarfile, "data_filter")  # as before Python 3.11.4
    with pytest.raises(RecoveryError, match="not a plain file"):
        RecoveringPostgres(tmp_path).unpack(io.BytesIO(tarfile.TarInfo(name).tobuf()), 0)
