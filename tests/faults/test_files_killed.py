"""kill -9 of service and database during uploads, updates and deletions: the store has all referenced files. Contents
repeat, so collected bytes arrive again."""

import hashlib
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import psutil
import pytest

from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import cheap_service
from tests.harness.databases import connect
from tests.harness.documents import upload
from tests.harness.processes import ServiceProcess

THREADS, CONTENTS = 6, 40
POINTS, OPERATIONS = 1, 60
MANY_POINTS, MANY_OPERATIONS = 30, 5000
_COLLECTED_SECONDS = 120


@pytest.fixture
def service() -> Iterator[ServiceProcess]:
    at_once = {"CARREL_FILE_GRACE_HOURS": "0", "CARREL_TRASH_DAYS": "0"}
    with cheap_service(**at_once, CARREL_SWEEP_SECONDS="0.5", CARREL_WORKERS="2") as process:
        yield process


class Sender:
    """Creates, updates and deletes private documents, and records the acknowledged operations."""

    def __init__(self, service: ServiceProcess, number: int) -> None:
        self._service = service
        self._number = number
        self._dice = random.Random(f"sender {number}")  # noqa: S311 - no secret
        self.ids: dict[str, str] = {}
        # What each document holds: one text, or None once it is deleted; two when an answer never came.
        self.held: dict[str, set[str | None]] = {}

    def send(self, operations: int) -> int:
        for done in range(operations):
            name = f"{self._number}/{self._dice.randrange(8)}"
            content = f"The ferry of pier {self._dice.randrange(CONTENTS)} leaves at noon."
            is_deleted = name in self.ids and self._dice.random() < 0.4
            wanted = None if is_deleted else content
            before = self.held.get(name, {None})
            self.held[name] = before | {wanted}
            try:
                if is_deleted:
                    answer = self._service.call("catalog/deleteDocument", {"documentId": self.ids[name]})
                else:
                    answer = upload(self._service, name, content)
            except httpx.TransportError:
                return done
            if answer.status_code == 503:
                return done
            assert answer.status_code == 200 or (is_deleted and answer.status_code == 404), answer.text
            self.held[name] = {wanted}
            if is_deleted:
                del self.ids[name]
            else:
                self.ids[name] = answer.json()["documentId"]
        return operations


_VERSIONS = """
SELECT d.external_id, d.document_id, encode(v.file_sha256, 'hex'), v.version = d.version
FROM documents d JOIN document_versions v USING (document_id)
"""


def compare(service: ServiceProcess, senders: list[Sender]) -> None:
    held = {name: texts for sender in senders for name, texts in sender.held.items()}
    with connect(service.database_server().url(user=SUPERUSER)) as connection:
        rows = connection.execute(_VERSIONS).fetchall()
    newest = {name: (str(document_id), digest) for name, document_id, digest, is_newest in rows if is_newest}
    for name, texts in held.items():
        if name not in newest:
            assert None in texts, name
            continue
        document_id, digest = newest[name]
        file = service.http.post("/api/v0/catalog/downloadDocument", json={"documentId": document_id})
        assert file.status_code == 200, (name, file.text)
        assert file.text in texts, name
        assert hashlib.sha256(file.content).hexdigest() == digest
    wanted = {digest for _, _, digest, _ in rows}
    deadline = time.monotonic() + _COLLECTED_SECONDS
    while (found := {path.name for path in (service.data_dir / "files").glob("??/*")}) != wanted:
        assert wanted <= found, "a file that a version refers to is missing"
        assert time.monotonic() < deadline, found - wanted
        time.sleep(0.1)


def kill_at_moments(service: ServiceProcess, *, points: int, operations: int) -> None:
    dice = random.Random("moments")  # noqa: S311 - no secret
    senders = [Sender(service, number) for number in range(THREADS)]
    each = -(-operations // (points * THREADS))
    for point in range(points):
        with ThreadPoolExecutor(THREADS) as threads:
            work = [threads.submit(sender.send, each) for sender in senders]
            time.sleep(dice.uniform(0.0, 1.5))
            workers = service.parts("worker")
            if point % 3 == 2:
                service.kill_database()
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            service.kill()
            left = [each - one.result() for one in work]
        service.start()
        # What was cut off is done now, so that every point has its whole number of operations.
        with ThreadPoolExecutor(THREADS) as threads:
            done = list(threads.map(Sender.send, senders, left))
        assert done == left
    assert len(service.events("files_collected")) >= points, "files were collected too seldom to be cut off"
    service.stop()
    service.start()
    compare(service, senders)
    ended = service.command("files", "check", "--json")
    assert ended.returncode == 0, ended
    assert '"leftOver": 0' in ended.stdout


@pytest.mark.timeout(600)
def test_the_store_has_what_is_referred_to_after_kills(service: ServiceProcess) -> None:
    kill_at_moments(service, points=POINTS, operations=OPERATIONS)


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_the_same_at_many_more_moments(service: ServiceProcess) -> None:
    kill_at_moments(service, points=MANY_POINTS, operations=MANY_OPERATIONS)
