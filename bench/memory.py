"""Memory and processor of the processes: of a stack at rest, and of the service while it loads and searches for long.

`rest PID` looks at all processes below one, such as the `scripts.up` of a `make up` that has settled. `slope` starts a
service of its own; two clients upload, replace and delete documents of about 1,000 words in three languages, and two
search, until the time is over. What processes share is counted once (PSS). The slope is that of the least squares
through the second half of the samples, when caches are full.
Goals: at rest, `make up` with the sample takes at most 1.0 GB and 3 % of a core; under load, less than 10 MB an hour.
Run: `python -m bench.memory rest PID [--seconds N]`, `python -m bench.memory slope [--minutes N]`.
"""

import argparse
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from bench.report import report
from bench.running import run_client, words
from carrel import Carrel

REST_SECONDS, SAMPLE_SECONDS, MINUTES = 60.0, 5.0, 10.0
DOCUMENTS, CLIENTS = 200, 2
MEBIBYTE = 1024 * 1024
OTHER = (
    "The ferry leaves the harbour at nine, and dogs may travel with it. ",
    "Die Fähre verlässt den Hafen um neun Uhr, und Hunde dürfen mitfahren. ",
    "Le ferry quitte le port à neuf heures, et les chiens peuvent embarquer. ",
)


def name_of(process: psutil.Process) -> str:
    """Return what a process is for, by its command."""
    if process.name().startswith("postgres"):  # whose commands name the service's role
        return "postgres"
    command = " ".join(process.cmdline())
    for part in ("flows serve", "flows.server", "forkserver", "resource_tracker", "service", "app", "scripts.up"):
        if part in command:
            return part
    return "other"


def below(pid: int) -> list[psutil.Process]:
    """Return a process and all that it and its children have started."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def memory_of(process: psutil.Process) -> int:
    """Return a process's memory in bytes; of what it shares, its part."""
    return process.memory_full_info().pss


def run_time(process: psutil.Process) -> float:
    """Return the processor seconds that a process has taken, to the nanosecond where Linux tells them."""
    tasks = Path(f"/proc/{process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def look_at_rest(pid: int, seconds: float) -> list[dict[str, object]]:
    """Return what the processes below one have in memory, and take of a core for some seconds, by what they are for."""
    before = {process: run_time(process) for process in below(pid)}
    time.sleep(seconds)
    memory, taken, count = Counter[str](), dict[str, float](), Counter[str]()
    for process in below(pid):
        name = name_of(process)
        memory[name] += memory_of(process)
        taken[name] = taken.get(name, 0.0) + run_time(process) - before.get(process, 0.0)
        count[name] += 1
    figures = [(name, count[name], memory[name], taken[name]) for name, _ in memory.most_common()]
    figures.append(("all", count.total(), memory.total(), sum(taken.values())))
    return [
        {
            "process": name,
            "count": number,
            "MB": round(size / MEBIBYTE, 1),
            "% of a core": round(100 * spent / seconds, 2),
        }
        for name, number, size, spent in figures
    ]


def load(client: Carrel, number: int, ended: threading.Event, done: Counter[str]) -> None:
    """Upload documents, again and again under the same names, and delete every fifth."""
    turn = 0
    while not ended.is_set():
        document = turn % DOCUMENTS
        text = OTHER[document % len(OTHER)] * 20 + words(1000, seed=number * 10_000 + turn)
        stored = client.catalog.upload_file(
            text.encode(), file_name="bench.txt", document_external_id=f"bench:{number}:{document}"
        )
        if turn % 5 == 0:
            client.catalog.delete_document(document_id=stored.document_id)
        turn += 1
        done["uploads"] += 1


def search(client: Carrel, number: int, ended: threading.Event, done: Counter[str]) -> None:
    """Search for other words each time."""
    while not ended.is_set():
        client.search.search_document_catalog(words(5, seed=number * 10_000 + done["searches"]))
        done["searches"] += 1


def measure_slope(minutes: float) -> list[dict[str, object]]:
    """Return, for each kind of process, the memory at the beginning and at the end, and its slope."""
    ended, done, samples = threading.Event(), Counter[str](), list[tuple[float, Counter[str]]]()
    with run_client("memory") as (client, _):
        # The process of the benchmark itself is left out.
        service = next(each for each in psutil.Process().children() if name_of(each) == "service")
        threads = [
            threading.Thread(target=work, args=(client, number, ended, done))
            for work in (load, search)
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while (now := time.monotonic() - began) < 60 * minutes:
            sample = Counter[str]()
            for process in [*below(service.pid), *servers()]:
                with suppress(psutil.NoSuchProcess):
                    sample[name_of(process)] += memory_of(process)
            samples.append((now, sample))
            time.sleep(SAMPLE_SECONDS)
        ended.set()
        for thread in threads:
            thread.join()
    half = samples[len(samples) // 2 :]
    names = sorted({name for _, sample in samples for name in sample})
    found = {"all": [(at, sample.total()) for at, sample in half]}
    found |= {name: [(at, sample[name]) for at, sample in half] for name in names}
    return [
        {
            "process": name,
            "MB at half": round(late[0][1] / MEBIBYTE, 1),
            "MB at end": round(late[-1][1] / MEBIBYTE, 1),
            "MB an hour": round(slope_of(late) * 3600 / MEBIBYTE, 1),
            "uploads": done["uploads"],
            "searches": done["searches"],
        }
        for name, late in found.items()
    ]


def slope_of(samples: list[tuple[float, int]]) -> float:
    """Return the slope of the line of least squares."""
    at, size = np.array(samples, np.float64).T
    at -= at.mean()
    return float(at @ size / (at @ at))


def servers() -> list[psutil.Process]:
    """Return the embedded server of the benchmark's data folder, which is nobody's child."""
    [written] = Path(os.environ["CARREL_DATA_DIR"]).rglob("postmaster.pid")
    return below(int(written.read_text().split()[0]))


def main() -> None:
    """Measure what the command names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    rest = commands.add_parser("rest")
    rest.add_argument("pid", type=int)
    rest.add_argument("--seconds", type=float, default=REST_SECONDS)
    commands.add_parser("slope").add_argument("--minutes", type=float, default=MINUTES)
    parsed = parser.parse_args()
    if parsed.command == "rest":
        report("memory_at_rest", look_at_rest(parsed.pid, parsed.seconds), keep=False)
    else:
        report("memory_slope", measure_slope(parsed.minutes))


if __name__ == "__main__":
    main()
