"""Loading into a slow or full service (by a proxy): runs wait as requested, report it, and lose no documents."""

import signal
import time
from collections.abc import Iterator
from threading import Event

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
    """A service that answers uploads at once and indexes later, but lock files not before `RELEASED`."""
    with cheap_service(RELEASED, CARREL_INLINE_INDEXING_SECONDS="0") as process:
        yield process
        RELEASED.set()


@pytest.fixture
def proxy(service: ServiceProcess) -> Iterator[Proxy]:
    RELEASED.clear()
    with faulty(service.base_url) as proxy:
        yield proxy


def test_backlog_is_waited_for_and_is_no_outage(service: ServiceProcess, proxy: Proxy, tmp_path) -> None:
    loader = Loader(tmp_path, proxy.base_url, name="backlog", outage_seconds=1)
    loader.write(DOCUMENTS)
    proxy.refusal = Fault.BACKLOG
    run = loader.start("--direct", machine=False)
    # At first four, then two, then one each second.
    until(lambda: proxy.happened[Fault.BACKLOG] >= 8)
    began, before = time.monotonic(), proxy.happened[Fault.BACKLOG]
    until(lambda: proxy.happened[Fault.BACKLOG] >= before + 4)
    assert time.monotonic() - began > 2
    proxy.refusal = None
    out, errors = run.communicate()
    assert run.returncode == 0, (out, errors)
    assert "waiting for the service to index: " in errors
    assert "documents ahead" in errors
    assert f"{DOCUMENTS} created" in out
    assert proxy.count(UPLOAD) == DOCUMENTS
    is_the_source(service, loader)


def test_full_disk_ends_the_run_in_words(service: ServiceProcess, proxy: Proxy, tmp_path) -> None:
    loader = Loader(tmp_path, proxy.base_url, name="full")
    loader.write(DOCUMENTS)
    proxy.refusal = Fault.STORAGE_FULL
    ended = loader.run("--direct")
    assert (ended.code, ended.said["outcome"]) == (7, "storage_full"), ended
    assert "3 MB free" in ended.said["message"]
    assert "Run again" in ended.said["message"]
    assert proxy.happened[Fault.STORAGE_FULL] <= 16
    proxy.refusal = None
    again = loader.run("--direct")
    assert (again.code, again.said["created"], again.said["quarantined"]) == (0, DOCUMENTS, 0), again
    is_the_source(service, loader)


def test_document_whose_index_takes_long_holds_no_other(service: ServiceProcess, proxy: Proxy, tmp_path) -> None:
    """A lock file of 244 KB is indexed last; the wait names it, and lists documents instead of asking for each."""
    loader = Loader(tmp_path, proxy.base_url, name="lock")
    loader.write(DOCUMENTS)
    write_lock_file(loader)
    run = loader.start("--direct", "--include", "package-lock.json", machine=False)
    try:
        assert wait_until_stored(service, loader).indexed["lock/000/package-lock.json"] is None
        assert any("waiting for the index: " in line for line in run.stderr)
    finally:
        RELEASED.set()
        out, errors = run.communicate(timeout=120)
    assert run.returncode == 0, (out, errors)
    assert f"{DOCUMENTS + 1} created" in out
    is_the_source(service, loader)
    assert proxy.count(_LISTED) >= 1
    assert proxy.count(_ASKED) <= 2 * DOCUMENTS


def write_lock_file(loader: Loader) -> None:
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


def wait_until_stored(service: ServiceProcess, loader: Loader) -> Catalog:
    until(lambda: catalog_of(service, loader.name).rows > DOCUMENTS, 120)
    return catalog_of(service, loader.name)


def test_interrupted_wait_for_the_index_leaves_everything_as_it_should_be(service, proxy, tmp_path) -> None:
    loader = Loader(tmp_path, proxy.base_url, name="interrupted")
    loader.write(DOCUMENTS)
    write_lock_file(loader)
    run = loader.start("--direct", "--include", "package-lock.json")
    try:
        wait_until_stored(service, loader)
        until(lambda: proxy.count(_ASKED) > 0)
    finally:
        run.send_signal(signal.SIGINT)
        ended = loader.end(run)
        RELEASED.set()
    assert (ended.code, ended.said["outcome"]) == (130, "interrupted"), ended
    assert f"All {DOCUMENTS + 1} documents were sent" in ended.said["message"]
    again = loader.run("--direct", "--include", "package-lock.json")
    assert (again.code, again.said["indexing"], again.said["quarantined"]) == (0, 0, 0), again
    assert proxy.count(UPLOAD) == DOCUMENTS + 1
    is_the_source(service, loader)
