"""kill -9 of `carrel reindex`, the service and its database while a collection is indexed again: all of it is, once.

Each point gives every document other contents without indexing them, kills something at a random moment, and compares
what can be found with what is there.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import BATCH, cheap_service
from tests.faults.points import MANY_DOCUMENTS, kill_service, share_points
from tests.harness.databases import connect
from tests.harness.processes import ServiceProcess, environment_without_settings
from tests.harness.proxy import Proxy, faulty
from tests.harness.services import API_KEY

DOCUMENTS, POINTS = 100, 1
REINDEX = "documentCollections/reindexDocumentInCollection"
_RUN_SECONDS, _MOMENT_SECONDS = 1800, 1800

_PLACES = """
SELECT d.external_id, d.version, s.version, s.indexed_version, s.chunk_count,
       (SELECT count(*) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id),
       (SELECT min(k.text) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id)
FROM documents d
JOIN space_documents s ON s.document_id = d.document_id
JOIN collections c ON c.space_id = s.space_id
WHERE c.name = %s AND d.deleted_at IS NULL
"""


@dataclass
class Site:
    """A service behind a proxy that counts, and a collection in it whose documents get one edition after the other."""

    service: ServiceProcess
    proxy: Proxy
    folder: Path
    collection: str
    collection_id: str
    documents: int
    dice: random.Random
    edition: int = 0
    said: str = ""

    def write(self) -> None:
        """Give every document other contents, that the collection has not in its index yet."""
        # The first edition comes into the collection, which indexes it; only others are stale there.
        for edition in range(self.edition + 1, max(self.edition + 1, 2) + 1):
            self.edition = edition
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(self._upload, range(self.documents)))
        self.proxy.passed.clear()

    def _upload(self, number: int) -> None:
        parts = {"documentExternalId": f"{self.collection}/{number:05}", "reindexCollections": "false"}
        if self.edition == 1:
            parts["collectionId"] = self.collection_id
        file = ("note.txt", f"Edition {self.edition}: ferry {number} leaves.".encode())
        answer = self.service.http.post("/api/v0/catalog/uploadFile", data=parts, files={"file": file})
        assert answer.status_code == 200, answer.text

    def start(self) -> "subprocess.Popen[str]":
        """Start indexing again what is stale."""
        command = [str(Path(sys.executable).with_name("carrel")), "reindex", self.collection, "--json"]
        environment = environment_without_settings() | {
            "CARREL_BASE_URL": self.proxy.base_url,
            "CARREL_API_KEY": API_KEY,
            "CARREL_DATA_DIR": str(self.folder),
            "CARREL_FLOWS_OUTAGE_SECONDS": "120",
        }
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, run: "subprocess.Popen[str]") -> dict[str, Any]:
        """Wait for a run's end, which must be a good one; return what it says."""
        out, errors = run.communicate(timeout=_RUN_SECONDS)
        assert run.returncode == 0, (self.said, out, errors)
        return json.loads(out)

    def wait_for_a_moment(self, run: "subprocess.Popen[str]") -> None:
        """Wait until some number of documents is indexed again; which is random."""
        number = self.dice.randrange(1, self.documents)
        self.said = f"edition {self.edition}, killed after {number}"
        deadline = time.monotonic() + _MOMENT_SECONDS
        while not self.proxy.wait_for(REINDEX, number, seconds=1):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, self.said
        time.sleep(self.dice.uniform(0, 0.05))

    def runs(self, points: int) -> Iterator["subprocess.Popen[str]"]:
        """So often write another edition, and start a run; yield it at a random moment."""
        for _ in range(points):
            self.write()
            run = self.start()
            self.wait_for_a_moment(run)
            yield run

    def compare(self) -> None:
        """See each document in the index once, as it is now; and at most a batch of them done twice."""
        with connect(self.service.database_server().url(user=SUPERUSER)) as connection:
            rows = connection.execute(_PLACES, [self.collection]).fetchall()
        assert len({row[0] for row in rows}) == len(rows) == self.documents, self.said
        for external_id, version, wanted, indexed, counted, chunks, text in rows:
            assert (version, wanted, indexed, counted, chunks) == (self.edition,) * 3 + (1, 1), (self.said, external_id)
            assert text.startswith(f"Edition {self.edition}:"), (self.said, text)
        assert self.proxy.count(REINDEX) <= self.documents + BATCH, self.said
        again = self.end(self.start())
        assert (again["documents"], again["wanted"], again["failed"]) == (self.documents, 0, 0), (self.said, again)


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    """A service with a database of its own, both of which are killed."""
    with cheap_service() as process:
        yield process


def flow_points(site: Site, points: int) -> None:
    """Kill the run, and run it again: what was done is not stale any more."""
    for run in site.runs(points):
        run.kill()
        run.communicate()
        site.end(site.start())
        site.compare()


def service_points(site: Site, points: int) -> None:
    """Kill the service and start it again: the run waits, and goes on."""
    for run in site.runs(points):
        kill_service(site.service)
        site.end(run)
        site.compare()


def database_points(site: Site, points: int) -> None:
    """Kill the database, which the service starts again: the run waits, and goes on."""
    for run in site.runs(points):
        site.service.kill_database()
        site.end(run)
        site.service.wait_ready()
        site.compare()


def _points(
    service: ServiceProcess, folder: Path, points_of: Callable[[Site, int], None], *, documents: int, points: int
) -> None:
    name = f"{points_of.__name__}-{documents}-{points}"
    made = service.call("documentCollections/createDocumentCollection", {"collectionName": name}).json()
    with faulty(service.base_url) as proxy:
        dice = random.Random(name)  # noqa: S311 - no secret
        points_of(Site(service, proxy, folder, name, made["documentCollectionId"], documents, dice), points)


ALL_POINTS = [flow_points, service_points, database_points]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("points_of", [service_points])
def test_what_is_killed_is_indexed_again_once(
    service: ServiceProcess, tmp_path: Path, points_of: Callable[[Site, int], None]
) -> None:
    """After kill -9 at a random moment: each document is in the index once, with the contents it has now."""
    _points(service, tmp_path, points_of, documents=DOCUMENTS, points=POINTS)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("points_of", ALL_POINTS)
def test_the_same_at_many_more_moments(
    service: ServiceProcess, tmp_path: Path, points_of: Callable[[Site, int], None]
) -> None:
    points = share_points(ALL_POINTS)[points_of]
    _points(service, tmp_path, points_of, documents=MANY_DOCUMENTS, points=points)
