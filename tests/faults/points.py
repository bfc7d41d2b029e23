"""How long the long profiles of kill points are: twelve moments each for uploads, syncs, re-indexes, rebuilds, replies.

`make test-long ARGS="tests/faults -k many_more_moments"` runs all sixty; KILL_POINTS says another number for each, and
KILL_DOCUMENTS how many documents there are at each.
"""

import os
from collections.abc import Sequence
from itertools import cycle, islice
from typing import TypeVar

from tests.harness.processes import ServiceProcess

MANY_POINTS = int(os.environ.get("KILL_POINTS", "12"))
MANY_DOCUMENTS = int(os.environ.get("KILL_DOCUMENTS", "2000"))

Kind = TypeVar("Kind")


def share_points(kinds: Sequence[Kind], points: int = MANY_POINTS) -> dict[Kind, int]:
    """Return how many of the points are of each kind of what is killed, as equally as can be, the first ones first."""
    given = list(islice(cycle(kinds), points))
    return {kind: given.count(kind) for kind in kinds}


def kill_service(service: ServiceProcess) -> None:
    """Kill the service, and start it again."""
    service.kill()
    service.start()


def kill_database(service: ServiceProcess) -> None:
    """Kill PostgreSQL; the service starts it again."""
    service.kill_database()
    service.wait_ready()


KILLS = [kill_service, kill_database]
