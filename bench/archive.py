"""Going back to a moment: how long a backup into an archive and a restore from it take, and how large they are.

A service with an archive has its first backup taken; then the synthetic catalog is written, as fast as the database
takes it; an incremental backup has all of it. Half of the chunks are deleted after a moment, which is restored
and counted. Run: `python -m bench.archive [--scale]`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from bench import synthetic
from bench.report import report
from bench.running import run_stack
from bench.search import CHUNKS, SCALED, address
from service.operate.archiving.archive import Archive
from service.operate.backup.archive import ArchiveError
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres

_COUNTS = "SELECT count(*), sum(hashtext(text)::bigint), (SELECT count(*) FROM documents) FROM chunks_384"


def main(chunks: int) -> None:
    """Measure, and report."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-bench-archive-"))
    folder.chmod(0o711)
    rows: list[dict[str, object]] = []
    try:
        measure(folder, chunks, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report("archive", rows)


def measure(folder: Path, chunks: int, rows: list[dict[str, object]]) -> None:
    """Add a row for each step."""
    kept = folder / "archive"
    environment = {"CARREL_ARCHIVE_URL": kept.as_uri()}

    def note(step: str, seconds: float, **sizes: float) -> None:
        load = round(os.getloadavg()[0], 1)
        rows.append({"step": step, "seconds": round(seconds, 1), "MB": "", "load": load} | sizes)
        print(rows[-1], flush=True)

    with run_stack(folder / "data", prefect=False, environment=environment):
        server, archive = EmbeddedPostgres(folder / "data"), Archive(kept.as_uri())
        note("first backup", run("backup", "--incremental"), MB=base_size(archive))
        with watch_lag(server, archive) as lag, timed() as took:
            fill(server, chunks)
        note(f"fill {chunks} chunks; most log not archived yet", took[0], MB=megabytes(lag[0]))
        with timed() as took:
            wait_until_archived(server, archive)
        note("until all is archived", took[0], MB=folder_size(kept / "log"))
        note("incremental backup", run("backup", "--incremental"), MB=base_size(archive))
        wanted, moment = count(server), datetime.now(UTC).isoformat()
        with server.connect(DATABASE) as connection, timed() as took:
            connection.execute("DELETE FROM chunks_384 WHERE chunk_no % 2 = 0")
            connection.execute("UPDATE documents SET name = 'changed'")
        note("delete half of the chunks, change all documents", took[0])
        with timed() as took:
            wait_until_archived(server, archive)
        note("until all is archived", took[0], MB=folder_size(kept / "log"))
        note("incremental backup after it", run("backup", "--incremental"), MB=base_size(archive))
        note("database", 0, MB=folder_size(server_folder(folder / "data")))
    for to, expected in ((moment, wanted), (None, None)):
        other = folder / "restored"
        arguments = [] if to is None else ["--to", to]
        seconds = run("restore", str(kept), *arguments, CARREL_DATA_DIR=str(other))
        restored = EmbeddedPostgres(other)
        try:
            restored.start()
            found = count(restored)
        finally:
            restored.stop()
        if expected is not None and found != expected:
            message = f"restored {found}, but there was {expected}"
            raise AssertionError(message)
        what = "to the moment before the deletion" if to else "to the newest moment"
        note(f"restore {what}: {found[0]} chunks", seconds, MB=folder_size(server_folder(other)))
        shutil.rmtree(other)


def fill(server: EmbeddedPostgres, chunks: int) -> None:
    """Write the synthetic catalog."""
    with psycopg.connect(address(server, SUPERUSER), autocommit=True) as connection:
        organization_id, owner_id = connection.execute(
            "SELECT organization_id, principal_id FROM principals WHERE kind = 'user'"
        ).fetchone()
        synthetic.make(connection, organization_id=organization_id, owner_id=owner_id, chunks=chunks)


def count(server: EmbeddedPostgres) -> tuple[int, ...]:
    """Return the number of chunks, a checksum of their texts, and the number of documents."""
    with server.connect(DATABASE) as connection:
        found = connection.execute(_COUNTS).fetchone()
    assert found is not None
    return tuple(int(each) for each in found)


def log_end(server: EmbeddedPostgres) -> int:
    """Return how far the log is, in bytes."""
    with server.connect(DATABASE) as connection:
        found = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint").fetchone()
    assert found is not None
    return found[0]


@contextmanager
def watch_lag(server: EmbeddedPostgres, archive: Archive) -> Iterator[list[int]]:
    """Yield the most bytes of log that the archive hadn't got yet, looked at each second."""
    most, is_over = [0], threading.Event()

    def look() -> None:
        while not is_over.wait(1):
            try:
                most[0] = max(most[0], log_end(server) - archive.position().lsn)
            except (psycopg.Error, ArchiveError):
                continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def wait_until_archived(server: EmbeddedPostgres, archive: Archive) -> None:
    """Wait until the archive has all of the log that there is now."""
    end = log_end(server)
    while archive.position().lsn < end:
        time.sleep(0.1)


def run(*arguments: str, **environment: str) -> float:
    """Run a command of the service, and return the seconds that it took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "service", *arguments], env=os.environ | environment, check=True)
    return time.perf_counter() - began


@contextmanager
def timed() -> Iterator[list[float]]:
    """Yield a list that has the seconds of the block when it has ended."""
    took: list[float] = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)


def base_size(archive: Archive) -> int:
    """Return the size of the newest backup in MB."""
    return megabytes(archive.bases()[-1].size)


def server_folder(data_dir: Path) -> Path:
    """Return the folder of the database in a data folder."""
    return (data_dir / "postgres").resolve()


def folder_size(folder: Path) -> int:
    """Return the size of all files in a folder in MB."""
    sizes = 0
    for path in folder.rglob("*"):
        try:
            sizes += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return megabytes(sizes)


def megabytes(size: float) -> int:
    """Return bytes as MB."""
    return round(size / 1_000_000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", action="store_true", help="a million chunks")
    parser.add_argument("--chunks", type=int, help="so many chunks")
    given = parser.parse_args()
    main(given.chunks or (SCALED if given.scale else CHUNKS))
