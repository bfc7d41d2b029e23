"""kill -9 of service and database during a sync: afterwards the collection equals the source. Each point changes every
document, removes some and adds some, kills at a random moment, and compares ids and hashes. The long profile
(tests.faults.points) has many more."""

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import httpx
import pytest

from service.domains.documents.docstore.mongodb import PAGE_DOCUMENTS
from service.domains.documents.docstore.values import SourceId
from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import cheap_service
from tests.faults.points import KILLS, MANY_DOCUMENTS, kill_database, kill_service, share_points
from tests.harness.cases import statement
from tests.harness.databases import connect
from tests.harness.jobs import until
from tests.harness.mongo.processes import MongoServer
from tests.harness.processes import ServiceProcess
from tests.service.directory import done
from tests.service.docstore import START, a_thing

DOCUMENTS, POINTS = 60, 1
SECONDS = 600

# Of the stand-in for a model, whose vectors have 384 dimensions: chunks lie in a table for each size.
_CATALOG = statement("synced_documents")


@dataclass
class Site:
    """A service, a document database, and a sync of both, in successive editions."""

    service: ServiceProcess
    mongo: MongoServer
    dice: random.Random
    documents: int
    collection_id: str = ""
    sync_id: str = ""
    edition: int = 0
    said: str = ""

    def things(self) -> list[dict]:
        moment = START + timedelta(hours=self.edition)
        return [
            a_thing(
                number, content={"text": f"Edition {self.edition} of lamp {number}."}, updatedAt=moment, serial=number
            )
            for number in self._numbers(self.edition)
        ]

    def _numbers(self, edition: int) -> range:
        return range(edition * self.lost, edition * self.lost + self.documents)

    @property
    def lost(self) -> int:
        return self.documents // 20

    def launch(self) -> None:
        self.edition += 1
        self.mongo.collection.delete_many({})
        self.mongo.collection.insert_many(self.things())
        before = self.versions()
        folder = "documentCollections/docstore"
        if self.sync_id:
            assert done(self.service.call(f"{folder}/launchDocstoreSync", self.named))["syncLaunched"]
        else:
            name = {"collectionName": self.mongo.collection_name}
            made = done(self.service.call("documentCollections/createDocumentCollection", name))
            self.collection_id = made["documentCollectionId"]
            fields = {"body": "content.text", "sourceName": "title", "sourceSystemUpdated": "updatedAt"}
            config = {"syncName": "things", "collectionName": self.mongo.collection_name, "sourceFields": fields}
            body = {"documentCollectionId": self.collection_id, "docstoreURI": self.mongo.uri, "config": config}
            self.sync_id = done(self.service.call(f"{folder}/createDocstoreSync", body))["docstoreCredentialId"]
        self._wait_for_a_moment(before)

    @property
    def named(self) -> dict:
        return {"docstoreCredentialId": self.sync_id}

    def _wait_for_a_moment(self, before: int) -> None:
        most = self.documents - self.lost  # later, what is removed hides what was brought
        number = most if self.dice.random() < 0.25 else self.dice.randrange(0, most)
        self.said = f"edition {self.edition}, killed after {number} documents"
        until(lambda: self.versions() >= before + number, SECONDS, told=lambda: self.said, pause=0.005)
        time.sleep(self.dice.uniform(0, 0.3))

    def _external_id(self, thing: dict) -> str:
        return f"{self.sync_id}:{SourceId(thing['_id']).key}"

    def _wait_until_searchable(self) -> None:
        rows = partial(self._rows, _CATALOG, self.collection_id)
        until(lambda: all(row[3] and row[4] for row in rows()), SECONDS, told=lambda: self.said, pause=0.1)

    def versions(self) -> int:
        return self._rows("SELECT count(*) FROM document_versions")[0][0]

    def _rows(self, statement: str, *values: str) -> list[tuple]:
        with connect(self.service.database_server().url(user=SUPERUSER)) as connection:
            return connection.execute(statement, values).fetchall()  # type: ignore[call-overload, no-any-return]

    def ended(self) -> dict:
        deadline = time.monotonic() + SECONDS
        sync: dict = {}
        while sync.get("status") not in {"COMPLETED", "FAILED"}:
            assert time.monotonic() < deadline, (self.said, sync)
            time.sleep(0.1)
            with suppress(httpx.TransportError):
                answer = self.service.call("documentCollections/docstore/getDocstoreSync", self.named)
                sync = answer.json() if answer.status_code == 200 else {}
        return sync

    def compare(self) -> None:
        sync = self.ended()
        assert sync["status"] == "COMPLETED", (self.said, sync)
        assert "warning" not in sync, (self.said, sync)
        rows = self._rows(_CATALOG, self.collection_id)
        source = {
            self._external_id(thing): hashlib.sha256(thing["content"]["text"].encode()).hexdigest()
            for thing in self.things()
        }
        assert {row[0]: row[1] for row in rows} == source, self.said
        assert len(rows) == sync["documentCount"] == self.documents, self.said
        self._wait_until_searchable()
        # Brought twice or not, each edition is one version of every document; no more than a page was brought again.
        editions = [self._numbers(edition + 1) for edition in range(self.edition)]
        expected = {
            self._external_id(thing): sum(thing["serial"] in numbers for numbers in editions) for thing in self.things()
        }
        assert {row[0]: row[2] for row in rows} == expected, self.said
        counts = sync["counts"]
        assert counts["created"] + counts["updated"] <= self.documents, (self.said, counts)
        # The latest is read again to see that nothing follows it.
        assert counts["unchanged"] <= PAGE_DOCUMENTS + self.documents * (self.edition == 1), (self.said, counts)


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with cheap_service(CARREL_DOCSTORE_ALLOWED_HOSTS="127.0.0.1", CARREL_DOCSTORE_OVERLAP_SECONDS="0") as process:
        yield process


def sync_and_kill(site: Site, kills: list[Callable[[ServiceProcess], None]]) -> None:
    for kill in kills:
        site.launch()
        kill(site.service)
        site.compare()
    done(site.service.call("documentCollections/docstore/launchDocstoreSync", site.named))
    again = site.ended()
    assert [again["counts"][name] for name in ("created", "updated", "deleted", "failed")] == [0, 0, 0, 0]


@pytest.mark.parametrize("kill", [kill_service, pytest.param(kill_database, marks=pytest.mark.slow)])
def test_what_is_killed_loses_nothing_and_brings_nothing_twice(service, mongo, kill) -> None:
    site = Site(service, mongo, random.Random(5), DOCUMENTS)  # noqa: S311 - no secret
    sync_and_kill(site, [kill] * POINTS)


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_the_same_at_many_more_moments(service: ServiceProcess, mongo: MongoServer) -> None:
    site = Site(service, mongo, random.Random(20), MANY_DOCUMENTS)  # noqa: S311 - no secret
    sync_and_kill(site, [kill for kill, points in share_points(KILLS).items() for _ in range(points)])
