"""kill -9 of `carrel reindex`, service and database during re-indexing: everything is indexed once. Each point changes
every document without indexing, kills at a random moment, and compares found with present."""

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import BATCH, Run, cheap_service
from tests.faults.points import MANY_DOCUMENTS, RUN_POINTS, RunSite, service_points, share_points
from tests.harness.cases import statement
from tests.harness.databases import connect
from tests.harness.documents import create_collection, ok, upload
from tests.harness.processes import ServiceProcess, environment_without_settings
from tests.harness.proxy import faulty
from tests.harness.services import API_KEY

DOCUMENTS, POINTS = 75, 1
REINDEX = "documentCollections/reindexDocumentInCollection"

_PLACES = statement("reindexed_places")


@dataclass(kw_only=True)
class Site(RunSite):
    folder: Path
    collection: str
    collection_id: str

    def write(self) -> None:
        # The first edition comes into the collection, which indexes it; only others are stale there.
        for edition in range(self.edition + 1, max(self.edition + 1, 2) + 1):
            self.edition = edition
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(self._upload, range(self.documents)))

    def _upload(self, number: int) -> None:
        place = {"collectionId": self.collection_id} if self.edition == 1 else {}
        text, external_id = f"Edition {self.edition}: ferry {number} leaves.", f"{self.collection}/{number:05}"
        ok(upload(self.service, external_id, text, reindexCollections="false", **place))

    def start(self) -> Run:
        environment = environment_without_settings() | {
            "CARREL_BASE_URL": self.proxy.base_url,
            "CARREL_API_KEY": API_KEY,
            "CARREL_DATA_DIR": str(self.folder),
            "CARREL_FLOWS_OUTAGE_SECONDS": "120",
        }
        return Run("reindex", self.collection, "--json", environment=environment)

    def moment(self) -> tuple[str, int]:
        return REINDEX, self.dice.randrange(1, self.documents)

    def end(self, run: Run) -> None:
        self._wait_for(run)
        self.service.wait_ready()
        with connect(self.service.database_server().url(user=SUPERUSER)) as connection:
            rows = connection.execute(_PLACES, [self.collection]).fetchall()
        assert len({row[0] for row in rows}) == len(rows) == self.documents, self.said
        for external_id, version, wanted, indexed, counted, chunks, text in rows:
            assert (version, wanted, indexed, counted, chunks) == (self.edition,) * 3 + (1, 1), (self.said, external_id)
            assert text.startswith(f"Edition {self.edition}:"), (self.said, text)
        assert self.proxy.count(REINDEX) <= self.documents + BATCH, self.said
        again = self._wait_for(self.start())
        assert (again["documents"], again["wanted"], again["failed"]) == (self.documents, 0, 0), (self.said, again)

    def _wait_for(self, run: Run) -> dict:
        out, errors = run.communicate()
        assert run.returncode == 0, (self.said, out, errors)
        return json.loads(out)


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with cheap_service() as process:
        yield process


@contextmanager
def a_site(service: ServiceProcess, folder: Path, *, name: str, documents: int) -> Iterator[Site]:
    place = {"folder": folder, "collection": name, "collection_id": create_collection(service, name)}
    with faulty(service.base_url) as proxy:
        dice = random.Random(name)  # noqa: S311 - no secret
        yield Site(service=service, proxy=proxy, dice=dice, documents=documents, **place)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_killed_is_indexed_again_once(service: ServiceProcess, tmp_path: Path) -> None:
    with a_site(service, tmp_path, name="service_points", documents=DOCUMENTS) as site:
        service_points(site, POINTS)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("points_of", RUN_POINTS)
def test_the_same_at_many_more_moments(service, tmp_path, points_of) -> None:
    with a_site(service, tmp_path, name=f"long_{points_of.__name__}", documents=MANY_DOCUMENTS) as site:
        points_of(site, share_points(RUN_POINTS)[points_of])
