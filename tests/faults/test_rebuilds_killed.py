"""kill -9 of service and database during a rebuild: searches miss no document, and the rebuild ends. Each point
rebuilds a collection with the other model, kills at a random moment, and compares index and documents."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest

from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import cheap_service
from tests.faults.points import KILLS, MANY_DOCUMENTS, kill_service, share_points
from tests.harness.cases import statement
from tests.harness.databases import connect
from tests.harness.documents import create_collection, ok, upload
from tests.harness.processes import ServiceProcess
from tests.service.directory import done

DOCUMENTS, POINTS = 60, 1
MODELS = ("stand-in", "stand-in-2")
SECONDS = 900

# Of the stand-ins for models, whose vectors have 384 dimensions: chunks lie in a table for each size.
_PLACES = statement("rebuilt_places")


@dataclass
class Site:
    """A service, and a collection with an index alternating between two models."""

    service: ServiceProcess
    dice: random.Random
    documents: int
    collection_id: str = ""
    rebuilds: int = 0
    said: str = ""

    def fill(self, name: str) -> None:
        self.collection_id = create_collection(self.service, name)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(self._upload, range(self.documents)))

    def _upload(self, number: int) -> None:
        external_id, text = f"{self.collection_id}/{number:05}", f"The lamp {self._word(number)} is lit at dusk."
        ok(upload(self.service, external_id, text, collectionId=self.collection_id))

    def _word(self, number: int) -> str:
        return "lamp" + "".join("abcdefghij"[int(digit)] for digit in f"{number:05}")

    @property
    def named(self) -> dict[str, str]:
        return {"documentCollectionId": self.collection_id}

    def start(self) -> None:
        self.rebuilds += 1
        number = self.dice.randrange(self.documents)
        self.said = f"rebuild {self.rebuilds}, killed after {number}"
        model = MODELS[self.rebuilds % 2]
        done(self.service.call("documentCollections/startIndexRebuild", {**self.named, "embeddingsModel": model}))
        self._wait_until(lambda state: state["status"] == "COMPLETED" or state["indexedCount"] >= number)
        time.sleep(self.dice.uniform(0, 0.1))

    def end(self) -> None:
        self._wait_until(lambda state: state["status"] == "COMPLETED")

    def _wait_until(self, is_so: Callable[[dict], bool]) -> None:
        deadline, state = time.monotonic() + SECONDS, {}
        while not state or not is_so(state):
            assert time.monotonic() < deadline, (self.said, state)
            time.sleep(0.02)
            with suppress(httpx.TransportError):
                answer = self.service.call("documentCollections/getIndexRebuild", self.named)
                state = answer.json() if answer.status_code == 200 else {}

    def search(self) -> None:
        for number in self.dice.sample(range(self.documents), 5):
            body = {**self.named, "searchQuery": self._word(number), "searchOptions": {"mode": "LEXICAL"}}
            found = done(self.service.call("search/searchDocumentCollection", body))["results"]
            assert any(self._word(number) in str(one) for one in found), (self.said, number, found)

    def compare(self) -> None:
        state = done(self.service.call("documentCollections/getIndexRebuild", self.named))
        assert state["embeddingsModel"] == MODELS[self.rebuilds % 2], (self.said, state)
        with connect(self.service.database_server().url(user=SUPERUSER)) as connection:
            rows = connection.execute(_PLACES, [self.collection_id]).fetchall()
            statement = "SELECT model FROM spaces JOIN collections USING (space_id) WHERE collection_id = %s"
            model = connection.execute(statement, [self.collection_id]).fetchone()
        assert model == (state["embeddingsModel"],), self.said
        assert len({row[0] for row in rows}) == len(rows) == self.documents, self.said
        for row in rows:
            assert row[1:] == (True, 1, 1), (self.said, row)


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with cheap_service(CARREL_EMBEDDINGS_FURTHER_MODELS="stand-in-2=384") as process:
        yield process


def rebuild_and_kill(site: Site, kill: Callable[[ServiceProcess], None], *, points: int) -> None:
    site.fill(f"{kill.__name__}-{site.documents}-{points}")
    for _ in range(points):
        site.start()
        kill(site.service)
        site.search()
        site.end()
        site.search()
        site.compare()


def test_what_is_killed_rebuilds_the_whole_index(service: ServiceProcess) -> None:
    site = Site(service, random.Random(7), DOCUMENTS)  # noqa: S311 - no secret
    rebuild_and_kill(site, kill_service, points=POINTS)


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("kill", KILLS)
def test_the_same_at_many_more_moments(service: ServiceProcess, kill: Callable[[ServiceProcess], None]) -> None:
    site = Site(service, random.Random(kill.__name__), MANY_DOCUMENTS)  # noqa: S311 - no secret
    rebuild_and_kill(site, kill, points=share_points(KILLS)[kill])
