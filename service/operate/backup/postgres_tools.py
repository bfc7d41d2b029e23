"""PostgreSQL's programs from the wheel. Connection data goes through environment variables, hidden from other users."""

import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psycopg.pq
from psycopg.conninfo import make_conninfo
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL

from service.operate.backup.archive import PIECE, PostgresToolError
from service.platform.database import BACKUP_SETTING
from service.platform.postgres.host import own_binaries

# Options for which libpq has no environment variable, and which must not be on a command line.
_SECRETS = {"sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"}
_LONGEST_COMPLAINT = 2000
# A server's version number divided by this is its major version.
_MAJOR = 10_000


def dump(url: URL, *, snapshot: str) -> Iterator[bytes]:
    """Yield a dump that any PostgreSQL can load: no owners, no needless extensions. Raises PostgresToolError."""
    arguments = (
        "--format=custom",
        "--compress=none",
        "--no-owner",
        "--no-comments",
        "--extension=vector",
        # The owner of an external database reads rows through its own policy, see service.migrations.row_security.
        "--enable-row-security",
        f"--snapshot={snapshot}",
    )
    with _run("pg_dump", arguments, url, reading=True) as output:
        while piece := output.read(PIECE):
            yield piece


@contextmanager
def open_base_backup(url: URL, *, since: Path | None) -> Generator[IO[bytes]]:
    """Yield a tar of the server's folder, or the changes `since` a manifest. Raises PostgresToolError at the end."""
    arguments = ["--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast"]
    if since is not None:
        arguments.append(f"--incremental={since}")
    with _run("pg_basebackup", arguments, url, reading=True) as output:
        yield output


def load(url: URL, pieces: Iterator[bytes]) -> None:
    """Load a dump into an empty database, all or nothing. Raises PostgresToolError with pg_restore's message."""
    arguments = ("--single-transaction", "--no-owner", "--no-comments", "--exit-on-error")
    # The error of a failed program says more than the broken pipe.
    with _run("pg_restore", arguments, url, reading=False) as entrance, suppress(BrokenPipeError):
        for piece in pieces:
            entrance.write(piece)


def tools_major_version() -> int:
    command = [str(own_binaries() / "pg_dump"), "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own
    found = re.search(r"(\d+)(?:\.\d+)?\s*$", said)
    assert found is not None, said  # noqa: S101
    return int(found[1])


def check_version(server_version: int) -> int:
    """Return the server's major version (of `server_version_num`). Raises PostgresToolError if too new to dump."""
    server, ours = server_version // _MAJOR, tools_major_version()
    if server > ours:
        raise PostgresToolError(
            f"The database is PostgreSQL {server}; this Carrel can back up versions up to {ours}. Use a newer Carrel, "
            f"or use pg_dump {server} and copy the files yourself."
        )
    return server


@contextmanager
def _run(program: str, arguments: Sequence[str], url: URL, *, reading: bool) -> Generator[IO[bytes]]:
    """Run a program; the block reads the output or writes the input. Raises PostgresToolError with its error output."""
    environment, rest = _split_connection(url)
    command = [str(own_binaries() / program), *arguments, "--no-password", f"--dbname={rest}"]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(  # noqa: S603 - our own
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL if reading else subprocess.PIPE,
            stdout=subprocess.PIPE if reading else subprocess.DEVNULL,
            stderr=complaints,
        ) as process,
    ):
        try:
            stream = process.stdout if reading else process.stdin
            assert stream is not None  # noqa: S101 - asked for
            yield stream
            if not reading:
                with suppress(BrokenPipeError):
                    stream.close()
            if process.wait() != 0:
                complaints.seek(0)
                said = complaints.read().decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
                raise PostgresToolError(f"{program} failed:\n{said or f'it was ended by signal {-process.returncode}'}")
        finally:
            process.kill()


def _split_connection(url: URL) -> tuple[dict[str, str], str]:
    # The same dialect as the service's own connections.
    dialect = PGDialect_psycopg()
    _, parameters = dialect.create_connect_args(url)  # pyright: ignore[reportUnknownMemberType] - it leaves url untyped
    wanted = {name: str(value) for name, value in parameters.items()}
    wanted["options"] = f"{wanted.get('options', '')} -c {BACKUP_SETTING}=on".strip()
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.envvar is not None
    }
    rest = {name: value for name, value in wanted.items() if name not in variables}
    if secret := _SECRETS & rest.keys():
        raise PostgresToolError(f"pg_dump can't use {min(secret)} of CARREL_DATABASE_URL. Sign in another way.")
    given = {variables[name]: value for name, value in wanted.items() if name in variables}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
    return kept | given, make_conninfo(application_name="carrel-backup", **rest)
