"""Loading into a service that can't keep up, is full, or indexes for long: runs wait as told, say so, and lose nothing.

What the service answers then comes from a proxy before the real one, so that each answer comes when it is wanted.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import IO

import pytest

from tests.faults.loading import Catalog, Loader, catalog_of, cheap_service, is_the_source
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess
from tests.harness.proxy import UPLOAD, Fault, Proxy, faulty

pytestmark = pytest.mark.slow

DOCUMENTS = 60
LOCK_BYTES = 244_000
RELEASED = Event()
_LISTED, _ASKED = "catalog/listDocuments", "catalog/getDocument"


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    """A service that answers uploads at once and indexes them afterwards, but lock files not before `RELEASED`."""
    with cheap_service(RELEASED, CARREL_INLINE_INDEXING_SECONDS="0") as process:
        yield process
        RELEASED.set()


@pytest.fixture
def proxy(service: ServiceProcess) -> Iterator[Proxy]:
    """What stands before it; nothing goes wrong yet."""
    RELEASED.clear()
    with faulty(service.base_url) as proxy:
        yield proxy


def test_backlog_is_waited_for_and_is_no_outage(service: ServiceProcess, proxy: Proxy, tmp_path: Path) -> None:
    """Refused for longer than an outage may last, a run comes back as told, few at a time, and sends everything."""
    loader = Loader(tmp_path, proxy.base_url, name="backlog", outage_seconds=1)
    loader.write(DOCUMENTS)
    proxy.refusal = Fault.BACKLOG
    run = loader.start("--direct")
    until(lambda: proxy.happened[Fault.BACKLOG] >= 8)
    time.sleep(4)
    # At first four, then two, then one each second: these eight took three of them. Were it four each second, there
    # would be sixteen more by now.
    assert proxy.happened[Fault.BACKLOG] <= 16
    proxy.refusal = None
    ended = loader.end(run)
    assert ended.code == 0, ended
    assert (ended.said["created"], ended.said["quarantined"]) == (DOCUMENTS, 0)
    assert proxy.count(UPLOAD) == DOCUMENTS
    is_the_source(service, loader)


def test_backlog_is_said_with_what_is_ahead(proxy: Proxy, tmp_path: Path) -> None:
    """Where nobody watches, a line says that the service indexes, how much is ahead, and nothing of an outage."""
    loader = Loader(tmp_path, proxy.base_url, name="words")
    loader.write(4)
    proxy.refusal = Fault.BACKLOG
    run = loader.start("--direct", machine=False)
    while proxy.happened[Fault.BACKLOG] < 20 and run.poll() is None:
        time.sleep(0.05)
    proxy.refusal = None
    out, errors = run.communicate(timeout=120)
    assert run.returncode == 0, (out, errors)
    assert "waiting for the service to index: " in errors
    assert "documents ahead" in errors
    assert "4 created" in out


def test_full_disk_ends_the_run_in_words(service: ServiceProcess, proxy: Proxy, tmp_path: Path) -> None:
    """507 stops the sending, with a code of its own and the service's words; nothing is in quarantine; it goes on."""
    loader = Loader(tmp_path, proxy.base_url, name="full")
    loader.write(DOCUMENTS)
    proxy.refusal = Fault.STORAGE_FULL
    ended = loader.run("--direct")
    assert (ended.code, ended.said["outcome"]) == (7, "storage_full"), ended
    assert "3 MB free" in ended.said["message"]
    assert "run again" in ended.said["message"]
    assert proxy.happened[Fault.STORAGE_FULL] <= 16
    proxy.refusal = None
    again = loader.run("--direct")
    assert (again.code, again.said["created"], again.said["quarantined"]) == (0, DOCUMENTS, 0), again
    is_the_source(service, loader)


def test_document_whose_index_takes_long_holds_no_other(service: ServiceProcess, proxy: Proxy, tmp_path: Path) -> None:
    """All are stored before a lock file of 244 KB is indexed; the wait says for what, and lists instead of asking."""
    loader = Loader(tmp_path, proxy.base_url, name="lock")
    loader.write(DOCUMENTS)
    write_lock_file(loader)
    run = loader.start("--direct", "--include", "package-lock.json", machine=False)
    try:
        catalog = wait_until_stored(service, loader, run)
        assert catalog.indexed["lock/000/package-lock.json"] is None
        assert run.stderr is not None
        assert line_of(run.stderr, "waiting for the index: ")
    finally:
        RELEASED.set()
        out, errors = run.communicate(timeout=120)
    assert run.returncode == 0, (out, errors)
    assert f"{DOCUMENTS + 1} created" in out
    is_the_source(service, loader)
    assert proxy.count(_LISTED) >= 1
    assert proxy.count(_ASKED) <= 2 * DOCUMENTS


def line_of(stream: IO[str], words: str) -> str:
    """Read up to a line with these words and return it; nothing when the stream ends before."""
    return next((line for line in stream if words in line), "")


def write_lock_file(loader: Loader) -> None:
    """Write what a package manager writes."""
    lines, size, number = ["{"], 0, 0
    while size < LOCK_BYTES:
        number += 1
        digest = f"{number * 2654435761 % 2**64:016x}" * 5
        lines.append(
            f'"node_modules/package-{number}": {{"version": "{number % 9}.1.0", "integrity": "sha512-{digest}"}},'
        )
        size += len(lines[-1]) + 1
    path = loader.source / loader.name / "000" / "package-lock.json"
    path.write_text("\n".join([*lines, '"end": {}}']))


def wait_until_stored(service: ServiceProcess, loader: Loader, run: "subprocess.Popen[str]") -> Catalog:
    """Wait until all documents and the lock file are stored; returns the catalog as it is then."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and run.poll() is None:
        catalog = catalog_of(service, loader.name)
        if catalog.rows > DOCUMENTS:
            return catalog
        time.sleep(0.2)
    raise AssertionError((run.poll(), catalog_of(service, loader.name).indexed))


def test_interrupted_wait_for_the_index_leaves_everything_as_it_should_be(
    service: ServiceProcess, proxy: Proxy, tmp_path: Path
) -> None:
    """Ctrl-C while the index is waited for: all is sent, the message says so, and the next run sends nothing."""
    loader = Loader(tmp_path, proxy.base_url, name="interrupted")
    loader.write(DOCUMENTS)
    write_lock_file(loader)
    run = loader.start("--direct", "--include", "package-lock.json")
    try:
        wait_until_stored(service, loader, run)
        until(lambda: proxy.count(_ASKED) > 0)
    finally:
        run.send_signal(signal.SIGINT)
        ended = loader.end(run)
        RELEASED.set()
    assert (ended.code, ended.said["outcome"]) == (130, "interrupted"), ended
    assert f"All {DOCUMENTS + 1} documents are sent" in ended.said["message"]
    again = loader.run("--direct", "--include", "package-lock.json")
    assert (again.code, again.said["indexing"], again.said["quarantined"]) == (0, 0, 0), again
    assert proxy.count(UPLOAD) == DOCUMENTS + 1
    is_the_source(service, loader)
