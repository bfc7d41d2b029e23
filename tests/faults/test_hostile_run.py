"""Hostile files of every format, uploaded one after another: no 5xx, no hang, and everybody else is answered."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import psutil
import pytest

from tests.faults.mutations import make_seeds, mutations
from tests.harness.loops import going_on

SENDERS = 3
PAUSE_SECONDS = 0.5
MEMORY_BYTES = 400 << 20
SECONDS = 20
# Statuses of what is read, and of a file that is refused for what it is.
EXPECTED = frozenset({200, 400, 413, 415, 422})
# How long others wait for an answer at most: far beyond the usual, far below a file's limit of time.
PATIENCE_SECONDS = 15
# What a worker has before it reads: its limit comes on top.
BEFORE_BYTES = 300 << 20


class Watch:
    """How long searches took, and how much memory the processes that read files have had at most."""

    def __init__(self, service) -> None:
        self.waits: list[float] = []
        self.largest_bytes = 0
        self._service = service

    def look(self) -> None:
        began = time.monotonic()
        answer = self._service.call("search/searchDocumentCatalog", {"searchQuery": "harbour"})
        assert answer.status_code == 200, answer.text
        self.waits.append(time.monotonic() - began)
        for child in psutil.Process(self._service.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "forkserver" in " ".join(child.cmdline()):
                    self.largest_bytes = max(self.largest_bytes, child.memory_info().rss)
        time.sleep(PAUSE_SECONDS)


# Names that an archive has twice are what is sent.
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "count", [pytest.param(41, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.long)]
)
def test_hostile_files_cost_their_senders_alone(service_process, count):
    """Each is read or refused; readers stay within their limit of memory, and searches are answered meanwhile."""
    service = service_process(
        CARREL_EXTRACTION_WORKERS="2",
        CARREL_EXTRACTION_SECONDS=str(SECONDS),
        CARREL_EXTRACTION_MEMORY_BYTES=str(MEMORY_BYTES),
        CARREL_OCR="off",
    )
    files = enumerate(mutations(make_seeds(), random.Random(7), count))  # noqa: S311 - no secret
    lock, outcomes, failures = threading.Lock(), Counter(), []

    def send() -> None:
        with httpx.Client(base_url=service.base_url, headers=service.http.headers, timeout=120) as http:
            while True:
                with lock:
                    number, (kind, name, content) = next(files, (None, ("", "", b"")))
                if number is None:
                    return
                try:
                    answer = http.post(
                        "/api/v0/catalog/uploadFile",
                        data={"documentExternalId": f"hostile-{number}"},
                        files={"file": (name, content)},
                    )
                    outcome = answer.status_code
                except httpx.HTTPError as error:
                    outcome = type(error).__name__
                with lock:
                    outcomes[outcome] += 1
                    if outcome not in EXPECTED:
                        failures.append((outcome, kind, name, number))

    watch = Watch(service)
    with going_on(watch.look), ThreadPoolExecutor(SENDERS) as senders:
        for sending in [senders.submit(send) for _ in range(SENDERS)]:
            sending.result()
    print(dict(outcomes), f"longest search {max(watch.waits):.1f} s", f"{watch.largest_bytes >> 20} MB")  # noqa: T201
    assert not failures, failures
    assert outcomes.total() >= count
    assert max(watch.waits) < PATIENCE_SECONDS
    assert 0 < watch.largest_bytes < MEMORY_BYTES + BEFORE_BYTES
