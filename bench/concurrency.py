"""Searches by many clients at once, and searches beside uploads.

A service of its own holds a synthetic catalog; clients search it over HTTP as a reader of one twentieth of it, each
sending its next search as soon as the last one is answered. The service runs with one worker and with two, in turns.
Beside the searches a second stands the processor time that a search takes of each process, which is what bounds them.
Goals: no error, and p95 <= 4 x p50 at 64 clients; two workers answer at least 1.8 times as many searches as one; beside
16 uploads the median search takes at most 1.5 times as long.
Run: `python -m bench.concurrency [--chunks N]`.
"""

import argparse
import asyncio
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg

from bench import synthetic
from bench.flows import count_cpu_seconds
from bench.report import report
from bench.running import Stack, run_stack, words
from bench.search import address
from carrel import AsyncCarrel
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.text.embedding.models import MINILM

CHUNKS = 100_000
CLIENTS = (1, 4, 16, 64)
WORKERS = (1, 2)
ROUNDS = 2
SECONDS = 5.0
UPLOADS = 16
READER = "typical@bench.example"


@dataclass
class Answers:
    """What clients saw: milliseconds of each answered search, and how many answers had another status than 200.

    `processor` has the seconds of processor time that each process took (`Stack.cpu_seconds`).
    """

    milliseconds: list[float] = field(default_factory=list)
    failures: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    processor: Counter[str] = field(default_factory=Counter)

    @property
    def per_second(self) -> float:
        """Return the searches answered a second."""
        return len(self.milliseconds) / self.seconds

    def add(self, others: "Answers") -> None:
        """Take the answers of another round, too."""
        self.milliseconds += others.milliseconds
        self.failures += others.failures
        self.seconds += others.seconds
        self.processor += others.processor

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which so many per cent of the searches were answered."""
        return float(np.percentile(self.milliseconds, share))


async def search_for(stack: Stack, questions: list[str], *, clients: int, seconds: float = SECONDS) -> Answers:
    """Search with so many clients for so many seconds, after each has searched once."""
    answers = Answers()
    key = stack.settings.api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value() if key else ''}"}
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=stack.settings.base_url, headers=headers, limits=limits, timeout=60) as http:
        await asyncio.gather(*(_search(http, question, Answers()) for question in questions[:clients]))
        began, used = time.perf_counter(), stack.cpu_seconds()

        async def work(number: int) -> None:
            while time.perf_counter() - began < seconds:
                await _search(http, questions[number % len(questions)], answers)
                number += clients

        await asyncio.gather(*(work(number) for number in range(clients)))
    answers.seconds = time.perf_counter() - began
    answers.processor = Counter(count_cpu_seconds(stack, used))
    return answers


async def _search(http: httpx.AsyncClient, question: str, answers: Answers) -> None:
    began = time.perf_counter()
    answer = await http.post(
        "/api/v0/search/searchDocumentCatalog", json={"searchQuery": question, "userEmail": READER}
    )
    if answer.is_success:
        answers.milliseconds.append((time.perf_counter() - began) * 1000)
    else:
        answers.failures[answer.status_code] += 1


async def search_beside_uploads(stack: Stack, questions: list[str]) -> tuple[Answers, Answers]:
    """Search with four clients alone, and then while so many documents at a time are uploaded."""
    alone = await search_for(stack, questions, clients=4)
    ended = asyncio.Event()

    async def load(client: AsyncCarrel, number: int) -> None:
        folder = Path(stack.settings.data_dir)
        while not ended.is_set():
            number += UPLOADS
            file = folder / f"upload-{number % UPLOADS}.md"
            file.write_text(f"# Upload {number}\n\n{words(300, seed=number)}\n")
            await client.catalog.upload_file(file, document_external_id=f"upload-{secrets.token_hex(8)}")

    async with AsyncCarrel() as client, asyncio.TaskGroup() as group:
        for number in range(UPLOADS):
            group.create_task(load(client, number))
        await asyncio.sleep(2)
        beside = await search_for(stack, questions, clients=4)
        ended.set()
    return alone, beside


@contextmanager
def filled_folder(chunks: int) -> Iterator[tuple[Path, dict[str, str], list[str]]]:
    """Make a data folder with the synthetic catalog; yield it, its service's settings, and questions."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-bench-concurrency-"))
    folder.chmod(0o711)
    key = f"svc_key_{secrets.token_hex(24)}"
    settings = {"CARREL_BOOTSTRAP_API_KEY": key, "CARREL_API_KEY": key}
    try:
        with run_stack(folder, prefect=False, environment=settings):
            made = _fill(address(EmbeddedPostgres(folder), SUPERUSER), chunks)
        picked = np.random.default_rng(5).choice(made.texts, 200)
        yield folder, settings, [" ".join(text.split()[20:26]) for text in picked]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(owner_url: str, chunks: int) -> synthetic.Organization:
    with psycopg.connect(owner_url, autocommit=True) as connection:
        organization_id, owner_id = connection.execute(
            "SELECT organization_id, principal_id FROM principals WHERE kind = 'user'"
        ).fetchone()
        return synthetic.make(
            connection, organization_id=organization_id, owner_id=owner_id, chunks=chunks, model=MINILM
        )


@dataclass
class Seen:
    """What was seen with one number of workers."""

    by_clients: dict[int, Answers] = field(default_factory=lambda: {clients: Answers() for clients in CLIENTS})
    alone: Answers = field(default_factory=Answers)
    beside: Answers = field(default_factory=Answers)

    def measure(self, stack: Stack, questions: list[str]) -> None:
        """Measure once more."""
        for clients, answers in self.by_clients.items():
            answers.add(asyncio.run(search_for(stack, questions, clients=clients)))
        alone, beside = asyncio.run(search_beside_uploads(stack, questions))
        self.alone.add(alone)
        self.beside.add(beside)


def measure(chunks: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of searching alone, and those of searching beside uploads."""
    seen = {workers: Seen() for workers in WORKERS}
    with filled_folder(chunks) as (folder, settings, questions):
        for workers in WORKERS * ROUNDS:
            with run_stack(folder, prefect=False, environment=settings | {"CARREL_WORKERS": str(workers)}) as stack:
                seen[workers].measure(stack, questions)
    one = seen[WORKERS[0]].by_clients
    alone = [
        _row(workers, clients, answers, one[clients])
        for workers, each in seen.items()
        for clients, answers in each.by_clients.items()
    ]
    return alone, [_beside(workers, each.alone, each.beside) for workers, each in seen.items()]


def _row(workers: int, clients: int, answers: Answers, one: Answers) -> dict[str, Any]:
    p50, p95, number = answers.percentile(50), answers.percentile(95), len(answers.milliseconds)
    return {
        "workers": workers,
        "clients": clients,
        "searches/s": round(answers.per_second, 1),
        "times one worker's": round(answers.per_second / one.per_second, 2),
        "p50 ms": round(p50, 1),
        "p95/p50": round(p95 / p50, 2),
        "failed": answers.failures.total(),
        "cores busy": round(answers.processor.total() / answers.seconds, 2),
        **{
            f"processor ms, {name}": round(answers.processor[name] / number * 1000, 1)
            for name in ("client", "service", "database")
        },
    }


def _beside(workers: int, alone: Answers, beside: Answers) -> dict[str, Any]:
    return {
        "workers": workers,
        "p50 ms alone": round(alone.percentile(50), 1),
        f"beside {UPLOADS} uploads": round(beside.percentile(50), 1),
        "ratio": round(beside.percentile(50) / alone.percentile(50), 2),
        "p95/p50": round(beside.percentile(95) / beside.percentile(50), 2),
        "failed": dict(beside.failures),
    }


def main() -> None:
    """Measure, print, and write bench/results/concurrency.json and bench/results/search-beside-uploads.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    alone, beside = measure(parser.parse_args().chunks)
    report("concurrency", alone)
    report("search-beside-uploads", beside)


if __name__ == "__main__":
    main()
