"""kill -9 of flow, service and database during loading: afterwards the catalog equals the source. Each point rewrites
every document, kills at a random moment, and compares ids and hashes; tests.faults.points has a long profile."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.loading import BATCH, Loader, Run, catalog_of, cheap_service
from tests.faults.points import MANY_DOCUMENTS, RUN_POINTS, RunSite, flow_points, share_points
from tests.harness.processes import ServiceProcess
from tests.harness.proxy import UPLOAD, faulty

DOCUMENTS, POINTS = 75, 1
_PLAN = "catalog/planUpload"


@dataclass(kw_only=True)
class Site(RunSite):
    loader: Loader

    def write(self) -> None:
        self.edition += 1
        self.loader.write(self.documents, edition=self.edition)

    def start(self) -> Run:
        return self.loader.start("--direct")

    def moment(self) -> tuple[str, int]:
        moment = self.dice.random()
        if moment < 0.1:
            return _PLAN, 1
        return UPLOAD, self.documents if moment < 0.2 else self.dice.randrange(1, self.documents)

    def end(self, run: Run) -> None:
        ended = self.loader.end(run)
        self.service.wait_ready()
        assert ended.code == 0, (self.said, ended)
        assert (ended.said["outcome"], ended.said["quarantined"]) == ("completed", 0), (self.said, ended)
        assert ended.said["created"] + ended.said["updated"] + ended.said["unchanged"] == self.documents, self.said
        self.compare()
        again = self.loader.run("--direct")
        assert (again.code, again.said["unchanged"], again.said["sent_bytes"]) == (0, self.documents, 0), self.said

    def compare(self) -> None:
        source, catalog = self.loader.hashes(), catalog_of(self.service, self.loader.name)
        assert catalog.hashes == source, self.said
        assert (catalog.rows, catalog.odd) == (len(source), []), self.said
        # Sent twice or not, each edition is one version; and each can be found.
        assert set(catalog.versions.values()) == {self.edition}, self.said
        assert catalog.indexed == catalog.versions, self.said
        assert self.proxy.count(UPLOAD) <= len(source) + BATCH, self.said


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with cheap_service() as process:
        yield process


@contextmanager
def a_site(service: ServiceProcess, folder: Path, *, name: str, documents: int) -> Iterator[Site]:
    with faulty(service.base_url) as proxy:
        loader, dice = Loader(folder, proxy.base_url, name=name), random.Random(name)  # noqa: S311 - no secret
        yield Site(service=service, proxy=proxy, loader=loader, dice=dice, documents=documents)


@pytest.mark.timeout(900)
def test_what_is_killed_loses_nothing_and_does_nothing_twice(service: ServiceProcess, tmp_path: Path) -> None:
    with a_site(service, tmp_path, name="flow_points", documents=DOCUMENTS) as site:
        flow_points(site, POINTS)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("points_of", RUN_POINTS)
def test_the_same_at_many_more_moments(service, tmp_path, points_of) -> None:
    with a_site(service, tmp_path, name=f"long_{points_of.__name__}", documents=MANY_DOCUMENTS) as site:
        points_of(site, share_points(RUN_POINTS)[points_of])
