"""The resource use of a running service, sampled from outside, and growth."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from statistics import median

import psutil

from service.platform.postgres.server import SUPERUSER
from tests.harness.cases import script
from tests.harness.databases import connect
from tests.harness.processes import ServiceProcess

MIB = 1024 * 1024
# The first part of a run, in which caches fill and pools open, says nothing of growth.
WARM_UP = 0.25
LEAST_SAMPLES = 8
# Starts `python -m service`, each of whose workers writes, each second, how many asyncio tasks it has.
COUNTING_TASKS = script("figures_counting_tasks.txt")
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """A sample: seconds since the first, requests answered, and resources. `memory` is the processes' own, in MiB;
    `resident` counts PostgreSQL's shared buffers per process. Descriptors and threads are the service's and its
    workers'; `tasks` are asyncio's; `temporary` are files of uploads under way."""

    seconds: float
    requests: int
    memory: float
    resident: float
    descriptors: int
    connections: int
    threads: int
    tasks: int
    temporary: int


# How much of each may come about after the warm-up, at the least, and as a part of what there is.
TOLERANCE: Mapping[str, tuple[float, float]] = {
    "memory": (48, 0.05),
    "descriptors": (12, 0),
    "connections": (6, 0),
    "threads": (8, 0),
    "tasks": (24, 0),
    "temporary": (4, 0),
}


def count_tasks_in(path: Path) -> tuple[str, ...]:
    """Return the program of a ServiceProcess that writes its number of asyncio tasks to a file."""
    return ("-c", COUNTING_TASKS, str(path))


def take_figures(service: ServiceProcess, *, tasks: Path, seconds: float, requests: int) -> Figures:
    assert service.process is not None
    server = service.database_server()
    own, database = _family(psutil.Process(service.process.pid)), _family(server.process())
    private, resident = _memory([*own, *database])
    with connect(server.url(user=SUPERUSER)) as connection:
        row = connection.execute(_CONNECTIONS).fetchone()
    assert row is not None
    uploads = service.data_dir / "uploads"
    return Figures(
        seconds=round(seconds, 1),
        requests=requests,
        memory=private,
        resident=resident,
        descriptors=_sum(own, "num_fds"),
        connections=row[0],
        threads=_sum(own, "num_threads"),
        tasks=int(tasks.read_text()),
        temporary=len(list(uploads.iterdir())) if uploads.exists() else 0,
    )


def _family(process: psutil.Process | None) -> list[psutil.Process]:
    assert process is not None, "the process is gone"
    return [process, *process.children(recursive=True)]


def _memory(processes: Sequence[psutil.Process]) -> tuple[float, float]:
    private = resident = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            memory = process.memory_full_info()
            private, resident = private + memory.uss, resident + memory.rss
    return round(private / MIB, 1), round(resident / MIB, 1)


def _sum(processes: Sequence[psutil.Process], figure: str) -> int:
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            total += getattr(process, figure)()
    return total


def find_growth(samples: Sequence[Figures]) -> list[str]:
    """Return figures that grow beyond their tolerance after the warm-up, in words. Growth is the median slope between
    all pairs of samples over the whole time (Theil and Sen), so passing peaks don't count."""
    steady = [each for each in samples if each.seconds >= WARM_UP * samples[-1].seconds]
    assert len(steady) >= LEAST_SAMPLES, f"{len(steady)} samples after the warm-up are too few; run for longer"
    found: list[str] = []
    for name, (least, part) in TOLERANCE.items():
        points = [(each.seconds, float(getattr(each, name))) for each in steady]
        slope = median((b - a) / (then - now) for (now, a), (then, b) in combinations(points, 2) if then > now)
        growth, usual = slope * (points[-1][0] - points[0][0]), median(value for _, value in points)
        if growth > max(least, part * usual):
            found.append(f"{name} grew by {growth:,.0f} to about {points[0][1] + growth:,.0f}")
    return found


def table_row(figures: Figures | None) -> str:
    names = [field.name for field in fields(Figures)]
    cells = names if figures is None else [f"{getattr(figures, name):,}" for name in names]
    return "  ".join(cell.rjust(max(len(name), 9)) for name, cell in zip(names, cells, strict=True))


def write_json(path: Path, samples: Sequence[Figures], **members: object) -> None:
    path.write_text(json.dumps({**members, "samples": [asdict(each) for each in samples]}, indent=1))
