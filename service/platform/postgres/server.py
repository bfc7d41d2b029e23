"""The embedded PostgreSQL, under our own supervisor: the wheel's trusts process ids and lets every local user in. A
cluster's socket is only for the service's system user; a cluster runs only if it answers, and is stopped explicitly."""

import fcntl
import os
import pwd
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from service.platform.database import SERVICE_ROLE
from service.platform.disk import make_room
from service.platform.logs import logger
from service.platform.postgres import host, process

FEWEST_CONNECTIONS = 200
MEBIBYTE = 1024**2
GIBIBYTE = 1024**3
LARGEST_WAL = 4 * GIBIBYTE
KEPT_WAL = 80 * MEBIBYTE


def server_parameters(
    memory_bytes: int,
    *,
    disk_bytes: int,
    segment_bytes: int,
    connections: int = FEWEST_CONNECTIONS,
    is_archived: bool = False,
) -> dict[str, str]:
    """Return the settings used when measuring the index: a quarter of memory (at most 2 GiB) as shared buffers. The
    write-ahead log, even unarchived (`is_archived`), takes at most a sixteenth of the disk. Segments are reused,
    because PostgreSQL panics on a full disk. The server's log has no statements or row values, perhaps secret."""
    log_bytes = max(min(disk_bytes // 16, LARGEST_WAL), 2 * segment_bytes)
    shared = max(min(memory_bytes // 4, 2 * GIBIBYTE), GIBIBYTE // 8)
    return {
        "shared_buffers": f"{shared // 1024}kB",
        "effective_cache_size": f"{memory_bytes // 2048}kB",
        "maintenance_work_mem": "256MB",
        "work_mem": "64MB",
        "random_page_cost": "1.1",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "max_parallel_maintenance_workers": "0",
        "max_connections": str(connections),
        "max_wal_size": f"{log_bytes // MEBIBYTE}MB",
        "min_wal_size": f"{min(log_bytes, KEPT_WAL) // MEBIBYTE}MB",
        "autovacuum_naptime": "15s",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "max_slot_wal_keep_size": f"{log_bytes // MEBIBYTE}MB",
        "summarize_wal": "on" if is_archived else "off",
    }


SUPERUSER = "postgres"
DATABASE = "carrel"
PARTIAL = "postgres."
PARTIALS = PARTIAL + "[0-9a-f]" * 8  # folders that an operator moves aside have other names
LONGEST_SOCKET_FOLDER = 90  # bytes; the socket's whole path may have 107
PLAIN_NAME = re.compile(r"[\w./+=@:~-]+", re.ASCII)
START_SECONDS = 900  # recovery after a crash included, on a slow machine
CONNECT_SECONDS = 60
STOP_SECONDS = 60
ENDING_SECONDS = 10  # for the workers of a killed service
ATTEMPTS = 3  # the first start after a kill -9 may still find the old server's processes ending
LARGEST_LOG = 16 * 1024 * 1024
SMALL_SEGMENT, LARGE_SEGMENT = MEBIBYTE, 16 * MEBIBYTE
# Below this size, a new cluster's write-ahead log has segments of 1 MiB: two of 16 MiB would fill half of a small disk.
SMALL_DISK = GIBIBYTE


class FolderLock:
    """A lock for one service per data folder, held until released and until all processes forked since have ended.
    Making one waits for a killed service's workers. Raises DatabaseServerError if the folder is in use."""

    def __init__(self, data_dir: Path) -> None:
        self._file = (data_dir / "service.lock").open("a+")
        deadline = time.monotonic() + ENDING_SECONDS
        while not self._is_taken():
            holder = self._holder()
            if psutil.pid_exists(holder) or time.monotonic() >= deadline:
                self._file.close()
                message = f"Another Carrel service (process {holder or 'unknown'}) is using {data_dir}."
                raise host.DatabaseServerError(f"{message} Stop it, or set CARREL_DATA_DIR.")
            time.sleep(0.02)  # the service was killed, and its workers end by themselves
        # Only the message above needs the process number, so a full disk must not prevent the start.
        with suppress(OSError):
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), str(os.getpid()).encode())

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _holder(self) -> int:
        """Return the id of the process with the lock, as written in the file; 0 if unknown."""
        self._file.seek(0)
        written = self._file.read().strip()
        return int(written) if written.isdecimal() else 0

    def release(self) -> None:
        self._file.close()


class EmbeddedPostgres:
    """A cluster, created on first use, started or found running, and stopped on request. Its methods block."""

    def __init__(
        self,
        data_dir: Path,
        *,
        parameters: Mapping[str, str] | None = None,
        connections: int = FEWEST_CONNECTIONS,
        is_archived: bool = False,
    ) -> None:
        self._account = host.server_account()
        self._binaries = host.reachable_binaries(self._account)
        self._folder = host.cluster_folder(data_dir)
        self._changing = threading.Lock()
        self._parameters = parameters
        self._connections = max(connections, FEWEST_CONNECTIONS)
        self._is_archived = is_archived

    def start(self) -> None:
        """Start the server, or create the cluster first. Raises DatabaseServerError with the end of the log."""
        with self._changing:
            self._ensure_cluster()
            self._bring_up()

    def restart(self) -> None:
        """Restart a dead server, never creating a new cluster. Raises DatabaseServerError with the end of the log."""
        with self._changing:
            self._bring_up()

    def wait_for_start(self) -> None:
        """Wait for a server started by another process. Raises DatabaseServerError if it doesn't answer."""
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() >= deadline:
                raise host.DatabaseServerError(
                    f"The database of the running service does not answer in {self._folder}."
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server, after a start in progress; clients are disconnected. Logs an error if it doesn't stop."""
        with self._changing:
            if not self._may_run():
                return
            for mode in ("fast", "immediate"):
                with suppress(subprocess.CalledProcessError, OSError):  # already ended, or unreachable
                    self._run("pg_ctl", "-D", self._name(), "-m", mode, "-W", "stop", folder=self._folder)
                if self._ends():
                    return
            logger.error("embedded_postgres_does_not_stop", folder=str(self._folder))

    def process(self) -> psutil.Process | None:
        """Return the server's main process; None if it is certainly not running. Raises UnknownServerError."""
        return process.find_server(self._folder)

    def _may_run(self) -> bool:
        try:
            return self.process() is not None
        except process.UnknownServerError:
            return True

    def _ends(self) -> bool:
        """Wait until the server has ended. pg_ctl would wait for the process to disappear, and a zombie stays."""
        deadline = time.monotonic() + STOP_SECONDS
        while self._may_run() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self._may_run()

    def url(self, *, user: str = SERVICE_ROLE, database: str = DATABASE) -> URL:
        """Return the address of a database as a user; authentication is by operating-system user, without a secret."""
        return URL.create(
            "postgresql+psycopg", username=user, database=database, query={"host": process.socket_folder(self._folder)}
        )

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """Connect as the superuser, in autocommit mode."""
        return psycopg.connect(
            host=process.socket_folder(self._folder),
            user=SUPERUSER,
            dbname=database,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
        )

    def remove(self) -> None:
        """Delete a stopped server's data for good."""
        shutil.rmtree(self._folder)

    def _ensure_cluster(self) -> None:
        if (self._folder / "PG_VERSION").exists():
            return
        # Created under another name and renamed, so that a half-made cluster is never used.
        partial = self._folder.with_name(f"{PARTIAL}{secrets.token_hex(4)}")
        try:
            remove_partial_clusters(self._folder)
            self._run_initdb(partial)
            partial.rename(self._folder)
        except (OSError, subprocess.CalledProcessError) as exc:
            shutil.rmtree(partial, ignore_errors=True)
            told = exc.output if isinstance(exc, subprocess.CalledProcessError) else exc
            raise host.DatabaseServerError(f"The database can't be created in {self._folder.parent}:\n{told}") from exc

    def _run_initdb(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True)
        os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        encoding = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        is_small = shutil.disk_usage(folder).total < SMALL_DISK
        log = f"--wal-segsize={(SMALL_SEGMENT if is_small else LARGE_SEGMENT) // MEBIBYTE}"
        options = ("-U", SUPERUSER, "--auth=peer", "--no-instructions", log, *encoding)
        self._run("initdb", "-D", self._name(folder), *options, folder=folder)

    def _name(self, folder: Path | None = None) -> str:
        """Return a folder's name for programs that can't enter the parents, safe in pg_ctl's shell quotes."""
        folder = folder or self._folder
        is_plain = PLAIN_NAME.fullmatch(str(folder)) is not None
        return str(folder) if is_plain and host.can_reach(folder, self._account) else process.WORKING_FOLDER

    def _bring_up(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if self._answers() or self._launch():
                    break
            except process.UnknownServerError:
                if attempt == ATTEMPTS:
                    raise
            if attempt == ATTEMPTS:
                raise host.DatabaseServerError(
                    f"The embedded PostgreSQL did not start. The end of its log:\n{self._log_end()}"
                )
            time.sleep(attempt)
        logger.debug("embedded_postgres_answers", folder=str(self._folder))
        try:
            self._ensure_role_and_database()
        except psycopg.Error as error:
            raise host.DatabaseServerError(f"The embedded PostgreSQL can't be prepared: {error}") from error

    def _measured_parameters(self) -> dict[str, str]:
        segments = (path.stat().st_size for path in (self._folder / "pg_wal").glob("0*") if path.is_file())
        return server_parameters(
            psutil.virtual_memory().total,
            disk_bytes=shutil.disk_usage(self._folder).total,
            segment_bytes=max(segments, default=LARGE_SEGMENT),
            connections=self._connections,
            is_archived=self._is_archived,
        )

    def _launch(self) -> bool:
        """Start the server; return whether it started and answers. Does nothing if a server runs or may run."""
        if self.process() is not None:
            return False
        process.remove_stale_file(self._folder)
        make_room(self._folder)
        self._write_access_rules()
        log = self._folder / "log"
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            log.unlink()
        parameters = {
            **(self._parameters or self._measured_parameters()),
            "listen_addresses": "",
            "unix_socket_directories": self._choose_socket_folder(),
            "unix_socket_permissions": "0700",
        }
        options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in parameters.items())
        wait = ("-w", "-t", str(START_SECONDS))
        try:
            self._run("pg_ctl", "-D", self._name(), "-l", "log", *wait, "-o", options, "start", folder=self._folder)
        except subprocess.CalledProcessError:
            return False
        return self._answers()

    def _write_access_rules(self) -> None:
        """Allow the service's current operating-system user and the server's."""
        users = sorted({pwd.getpwuid(os.geteuid()).pw_name, self._account.pw_name})
        identities = [f"carrel {user} {role}" for user in users for role in (SUPERUSER, SERVICE_ROLE)]
        self._update_file("pg_ident.conf", "\n".join(identities) + "\n")
        self._update_file("pg_hba.conf", "local all,replication all peer map=carrel\n")

    def _update_file(self, name: str, text: str) -> None:
        """Write a server file unless unchanged; on a full disk the old file stays whole."""
        path = self._folder / name
        if path.is_file() and path.read_text() == text:
            return
        partial = path.with_name(f"{name}.{secrets.token_hex(4)}")
        try:
            with partial.open("x") as file:
                os.fchmod(file.fileno(), 0o600)
                os.fchown(file.fileno(), self._account.pw_uid, self._account.pw_gid)
                file.write(text)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def _answers(self) -> bool:
        """Wait until the server accepts a connection; False once its process is gone, or after `START_SECONDS`."""
        deadline = time.monotonic() + START_SECONDS
        while self.process() is not None and time.monotonic() < deadline:
            try:
                with self.connect(SUPERUSER):
                    return True
            except psycopg.OperationalError:
                time.sleep(0.1)
        return False

    def _ensure_role_and_database(self) -> None:
        role, database = sql.Identifier(SERVICE_ROLE), sql.Identifier(DATABASE)
        with self.connect(SUPERUSER) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [SERVICE_ROLE]).rowcount:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS").format(role))
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(database))

    def _choose_socket_folder(self) -> str:
        # In a server's name, a client reads a comma as the end, and can't encode some characters.
        is_name = str(self._folder).isprintable() and "," not in str(self._folder)
        if is_name and len(os.fsencode(self._folder)) <= LONGEST_SOCKET_FOLDER:
            return self._name()
        folder = tempfile.mkdtemp(prefix="carrel-socket-")
        os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        return folder

    def _log_end(self) -> str:
        log = self._folder / "log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else "(no log)"

    def _run(self, command: str, *arguments: str, folder: Path) -> None:
        """Run a PostgreSQL program in `folder`, entered before the switch to PostgreSQL's user. Logs a failure, and
        raises CalledProcessError with the end of the output."""
        account = self._account
        switch: dict[str, Any] = {}
        if account.pw_uid != os.geteuid():
            switch = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        # The server would inherit a pipe, which would then never end.
        with tempfile.TemporaryFile("w+") as output:
            line = [str(self._binaries / command), *arguments]
            try:
                subprocess.run(line, check=True, cwd=folder, env=environment, stdout=output, stderr=output, **switch)  # noqa: S603
            except subprocess.CalledProcessError as error:
                output.seek(0)
                error.output = output.read()[-2000:]
                logger.warning("postgres_command_failed", command=command, output=error.output)
                raise


def remove_cluster(data_dir: Path) -> None:
    """Stop the server and delete a data folder's cluster for good, even a partial cluster, and wherever it lies."""
    link = data_dir / "postgres"
    cluster = link.resolve()
    if (cluster / "PG_VERSION").exists():
        EmbeddedPostgres(data_dir).stop()
    shutil.rmtree(cluster, ignore_errors=True)
    remove_partial_clusters(cluster)
    if link.is_symlink():
        link.unlink()


def remove_partial_clusters(cluster: Path) -> None:
    for folder in cluster.parent.glob(PARTIALS):
        shutil.rmtree(folder, ignore_errors=True)
