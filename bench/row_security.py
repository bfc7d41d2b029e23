"""What row-level security adds to the legs of a search: the same SQL with the policy and without.

Every question's statements, as the service sends them, run in turns as the service's role, which the policy holds to
one organization, and as the database's owner, whom nothing holds. Processor time of the two database processes is
compared, which other work on the machine disturbs less than the clock; of the clock, the quickest turn counts.
The policy is looked at once a statement (`tests/service/test_tenancy.py`), so what it adds doesn't grow with what is
scanned. Goal: CPU ratio <= 1.05, or 0.3 ms where a search takes no longer than a few. Run:
`python -m bench.row_security [--chunks N]` (on Linux).
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import report
from bench.search import Setting, ask, bare_milliseconds, measure, open_service

CHUNKS = 20_000
TURNS = 10
WARM_UP = 3


async def measure_policy(setting: Setting, reader: str, mode: str, questions: list[str]) -> dict[str, Any]:
    """Ask every question as a reader in one mode, and time its legs on both sides."""
    for question in questions[:WARM_UP]:
        await both_sides(setting, reader, mode, question)
    before = processor_times(setting)
    pairs = [await both_sides(setting, reader, mode, question) for question in questions]
    guarded, free = np.array(pairs).T
    guarded_cpu, free_cpu = processor_times(setting) - before
    return {
        "chunks": len(setting.made.texts),
        "reader": reader,
        "readable": f"{setting.made.readable[reader].mean():.1%}",
        "mode": mode,
        "with policy p50 ms": round(float(np.median(guarded)), 2),
        "without p50 ms": round(float(np.median(free)), 2),
        "ratio": round(float(guarded.sum() / free.sum()), 3),
        "with policy CPU ms": round(float(guarded_cpu / len(questions) / TURNS), 2),
        "without CPU ms": round(float(free_cpu / len(questions) / TURNS), 2),
        "CPU ratio": round(float(guarded_cpu / free_cpu), 3),
    }


def processor_times(setting: Setting) -> Any:
    """The milliseconds that the database's process of each side has spent on a processor."""
    processes = [connection.info.backend_pid for connection in (setting.plain, setting.owner)]
    spent = [Path(f"/proc/{process}/schedstat").read_text().split()[0] for process in processes]
    return np.array(spent, np.float64) / 1e6


async def both_sides(setting: Setting, reader: str, mode: str, question: str) -> tuple[float, float]:
    """The milliseconds of a question's legs with the policy and without."""
    setting.timer.statements.clear()
    await ask(setting.client, question, reader, mode)
    statements = list(setting.timer.statements)
    guarded: list[float] = []
    free: list[float] = []
    for turn in range(TURNS):
        sides = [(setting.plain, guarded), (setting.owner, free)]
        for connection, took in sides if turn % 2 else reversed(sides):
            took.append(await bare_milliseconds(connection, statements))
    return min(guarded), min(free)


async def main(chunks: int) -> None:
    """Measure, and report."""
    async with open_service(chunks) as setting:
        rows = await measure(setting, measure_policy)
    report("row_security", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="so many chunks")
    asyncio.run(main(parser.parse_args().chunks))
