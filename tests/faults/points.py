"""The length of the long profiles of kill points: twelve moments each for uploads, syncs, re-indexes, rebuilds and
replies. `make test-long ARGS="tests/faults -k many_more_moments"` runs all sixty, or KILL_POINTS, KILL_DOCUMENTS."""

import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeVar

from tests.faults.loading import Run
from tests.harness.processes import ServiceProcess
from tests.harness.proxy import Proxy

MANY_POINTS = int(os.environ.get("KILL_POINTS", "12"))
MANY_DOCUMENTS = int(os.environ.get("KILL_DOCUMENTS", "2000"))
_MOMENT_SECONDS = 1800

Kind = TypeVar("Kind")


def share_points(kinds: Sequence[Kind], points: int = MANY_POINTS) -> dict[Kind, int]:
    """Return the number of points for each kind, as equal as possible; the first kinds get the rest."""
    given = list(islice(cycle(kinds), points))
    return {kind: given.count(kind) for kind in kinds}


def kill_service(service: ServiceProcess) -> None:
    service.kill()
    service.start()


def kill_database(service: ServiceProcess) -> None:
    service.kill_database()
    service.wait_ready()


KILLS = [kill_service, kill_database]


@dataclass(kw_only=True)
class RunSite(ABC):
    """A service behind a counting proxy, and documents for its runs, in successive editions."""

    service: ServiceProcess
    proxy: Proxy
    dice: random.Random
    documents: int
    edition: int = 0
    said: str = ""

    @abstractmethod
    def write(self) -> None:
        """Change every document."""

    @abstractmethod
    def start(self) -> Run:
        """Start a run."""

    @abstractmethod
    def moment(self) -> tuple[str, int]:
        """Return a random moment for a kill, as an operation and a number of its calls."""

    @abstractmethod
    def end(self, run: Run) -> None:
        """Wait for a run's successful end, and compare the result with the expected state."""

    def runs(self, points: int) -> Iterator[Run]:
        for _ in range(points):
            self.write()
            self.proxy.passed.clear()
            run = self.start()
            operation, number = self.moment()
            self.said = f"edition {self.edition}, killed after {number} of {operation}"
            deadline = time.monotonic() + _MOMENT_SECONDS
            while not self.proxy.wait_for(operation, number, seconds=1):
                assert run.poll() is None, run.communicate()
                assert time.monotonic() < deadline, self.said
            time.sleep(self.dice.uniform(0, 0.05))
            yield run


def flow_points(site: RunSite, points: int) -> None:
    for run in site.runs(points):
        run.kill()
        run.communicate()
        site.end(site.start())


def service_points(site: RunSite, points: int) -> None:
    for run in site.runs(points):
        kill_service(site.service)
        site.end(run)


def database_points(site: RunSite, points: int) -> None:
    for run in site.runs(points):
        site.service.kill_database()
        site.end(run)


RUN_POINTS = [flow_points, service_points, database_points]
