"""kill -9 of the flow, the service and its database while documents are loaded: afterwards the catalog is the source.

Each point rewrites every document, kills something at a random moment, and compares sets of ids and hashes; the long
profile (tests.faults.points) does so at many more.
"""

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.loading import BATCH, Ended, Loader, catalog_of, cheap_service
from tests.faults.points import MANY_DOCUMENTS, kill_service, share_points
from tests.harness.processes import ServiceProcess
from tests.harness.proxy import UPLOAD, Proxy, faulty

DOCUMENTS, POINTS = 75, 1
_PLAN = "catalog/planUpload"
_MOMENT_SECONDS = 1800


@dataclass
class Site:
    """A service behind a proxy that counts, and the folder that is loaded into it, in one edition after the other."""

    service: ServiceProcess
    proxy: Proxy
    loader: Loader
    dice: random.Random
    documents: int
    edition: int = 0
    said: str = ""

    def runs(self, points: int) -> Iterator["subprocess.Popen[str]"]:
        """So often make every document another one, and start a run; yield it at a random moment."""
        for _ in range(points):
            self.edition += 1
            self.loader.write(self.documents, edition=self.edition)
            self.proxy.passed.clear()
            run = self.loader.start("--direct")
            self.wait_for_a_moment(run)
            yield run

    def wait_for_a_moment(self, run: "subprocess.Popen[str]") -> None:
        """Wait until the run is planning, somewhere in the middle, or waiting for the index; which one is random."""
        moment = self.dice.random()
        if moment < 0.1:
            operation, number = _PLAN, 1
        elif moment < 0.2:
            operation, number = UPLOAD, self.documents
        else:
            operation, number = UPLOAD, self.dice.randrange(1, self.documents)
        self.said = f"edition {self.edition}, killed after {number} of {operation}"
        deadline = time.monotonic() + _MOMENT_SECONDS
        while not self.proxy.wait_for(operation, number, seconds=1):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, self.said
        time.sleep(self.dice.uniform(0, 0.05))

    def compare(self) -> None:
        """Compare the catalog with the source, and what was sent with what there was to send."""
        source, catalog = self.loader.hashes(), catalog_of(self.service, self.loader.name)
        assert catalog.hashes == source, self.said
        assert (catalog.rows, catalog.odd) == (len(source), []), self.said
        # Sent twice or not, each edition is one version; and each can be found.
        assert set(catalog.versions.values()) == {self.edition}, self.said
        assert catalog.indexed == catalog.versions, self.said
        assert self.proxy.count(UPLOAD) <= len(source) + BATCH, self.said

    def is_done(self, ended: Ended) -> None:
        """See that a run says that it has done all of it, and that another one finds nothing to do."""
        assert ended.code == 0, (self.said, ended)
        assert (ended.said["outcome"], ended.said["quarantined"]) == ("completed", 0), (self.said, ended)
        assert ended.said["created"] + ended.said["updated"] + ended.said["unchanged"] == self.documents, self.said
        self.compare()
        again = self.loader.run("--direct")
        assert (again.code, again.said["unchanged"], again.said["sent_bytes"]) == (0, self.documents, 0), self.said


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    """A service with a database of its own, both of which are killed."""
    with cheap_service() as process:
        yield process


@contextmanager
def a_site(service: ServiceProcess, folder: Path, *, name: str, documents: int) -> Iterator[Site]:
    """Give the place where the points of one test happen; the same name has the same random moments."""
    with faulty(service.base_url) as proxy:
        loader = Loader(folder, proxy.base_url, name=name)
        yield Site(service, proxy, loader, random.Random(name), documents)  # noqa: S311 - no secret


def flow_points(site: Site, points: int) -> None:
    """Kill the flow, and run it again: it goes on where it was."""
    for run in site.runs(points):
        run.kill()
        run.communicate()
        site.is_done(site.loader.run("--direct"))


def service_points(site: Site, points: int) -> None:
    """Kill the service and start it again: the run waits, and goes on."""
    for run in site.runs(points):
        kill_service(site.service)
        site.is_done(site.loader.end(run))


def database_points(site: Site, points: int) -> None:
    """Kill the database, which the service starts again: the run waits, and goes on."""
    for run in site.runs(points):
        site.service.kill_database()
        ended = site.loader.end(run)
        site.service.wait_ready()
        site.is_done(ended)


ALL_POINTS = [flow_points, service_points, database_points]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("points_of", [flow_points])
def test_what_is_killed_loses_nothing_and_does_nothing_twice(
    service: ServiceProcess, tmp_path: Path, points_of: Callable[[Site, int], None]
) -> None:
    """After kill -9 at a random moment: the same ids and hashes as the source, one version, at most a batch again."""
    with a_site(service, tmp_path, name=points_of.__name__, documents=DOCUMENTS) as site:
        points_of(site, POINTS)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("points_of", ALL_POINTS)
def test_the_same_at_many_more_moments(
    service: ServiceProcess, tmp_path: Path, points_of: Callable[[Site, int], None]
) -> None:
    with a_site(service, tmp_path, name=f"long_{points_of.__name__}", documents=MANY_DOCUMENTS) as site:
        points_of(site, share_points(ALL_POINTS)[points_of])
