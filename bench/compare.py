"""Compare this checkout with another revision: the same measurements of both, in turns.

Both services run with one worker, each on a data folder of its own, which the code of its revision fills with the same
synthetic catalog. A turn measures the old one and then the new one, so that whatever else the machine does is in both;
a ratio is the median of the turns' ratios. Processor time has what all processes of a service took, or all of its
database's. The measurements: `search` (each mode and reader), `loading` (small documents, until they are found by words
and until all are indexed) and `size` (bytes in the database).
Run: `python -m bench.compare REV [size|search|loading …] [--chunks N] [--turns N] [--readers …] [--modes …]`.
"""

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.flows import count_cpu_seconds
from bench.report import report
from bench.running import Stack, import_from, run_stack, words
from bench.search import READERS, address
from carrel import AsyncCarrel
from carrel.wire.search import SearchMode
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres

HERE = Path(__file__).parents[1]
LOCK = "requirements.lock"
CHUNKS = 20_000
TURNS = 5
QUESTIONS = 40
DOCUMENTS = 40
AT_ONCE = 8
MODES = tuple(mode.value for mode in SearchMode)

# What a revision's own code runs to fill its database; it prints questions near chunks that each reader may read.
_FILL = """
import json, sys
import numpy as np, psycopg
from bench import synthetic
from service.text.embedding.models import MINILM
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    ids = connection.execute("SELECT organization_id, principal_id FROM principals WHERE kind = 'user'").fetchone()
    made = synthetic.make(
        connection, organization_id=ids[0], owner_id=ids[1], chunks=int(sys.argv[2]), model=MINILM
    )
random = np.random.default_rng(5)
readable = {reader: np.flatnonzero(each[made.of_document]) for reader, each in made.readable.items()}
print(json.dumps({
    reader: [" ".join(made.texts[at].split()[20:26]) for at in random.choice(chunks, int(sys.argv[3]))]
    for reader, chunks in readable.items()
}))
"""

Values = Mapping[str, float]


@dataclass(frozen=True)
class Side:
    """A revision's running service, the questions of each reader, and the key of its only person."""

    stack: Stack
    questions: Mapping[str, Sequence[str]]
    key: str

    @property
    def database(self) -> str:
        """The address of its database, for the owner."""
        return address(EmbeddedPostgres(self.stack.settings.data_dir), SUPERUSER)


def measure_search(side: Side, *, readers: Sequence[str] = READERS, modes: Sequence[str] = MODES) -> Values:
    """Search one after the other as each reader in each mode; return milliseconds, of processors and by the clock."""
    values: dict[str, float] = {}
    headers = {"Authorization": f"Bearer {side.key}"}
    with httpx.Client(base_url=side.stack.settings.base_url, headers=headers, timeout=60) as client:
        for reader in readers:
            for mode in modes:
                before, took = side.stack.cpu_seconds(), list[float]()
                for question in side.questions[reader]:
                    # The service remembers the vectors of the last queries: other orders of words are new queries.
                    fresh = " ".join(random.sample(parts := question.split(), len(parts)))
                    began = time.perf_counter()
                    _search(client, fresh, mode=mode, reader=reader)
                    took.append((time.perf_counter() - began) * 1000)
                used = count_cpu_seconds(side.stack, before)
                named = f"search, {mode} {reader}"
                for part in ("service", "database"):
                    values[f"{named}: processor ms, {part}"] = used[part] / len(took) * 1000
                values[f"{named}: p50 ms"] = statistics.median(took)
    return values


def _search(client: httpx.Client, question: str, *, mode: str, reader: str | None = None, most: int = 10) -> int:
    asked: dict[str, Any] = {"searchQuery": question, "searchOptions": {"mode": mode, "maxResults": most}}
    if reader is not None:
        asked["userEmail"] = f"{reader}@bench.example"
    return len(client.post("/api/v0/search/searchDocumentCatalog", json=asked).raise_for_status().json()["results"])


def measure_loading(side: Side) -> Values:
    """Upload small documents, several at a time; return the seconds until they are found, and processor milliseconds.

    "found by words": a search for a word that all of them have, and no document before them, finds each.
    """
    mark = "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(12))
    headers = {"Authorization": f"Bearer {side.key}"}
    before, began = side.stack.cpu_seconds(), time.perf_counter()
    asyncio.run(_upload(side, mark))
    uploaded = time.perf_counter() - began
    with httpx.Client(base_url=side.stack.settings.base_url, headers=headers, timeout=60) as client:
        while _search(client, mark, mode="LEXICAL", most=DOCUMENTS) < DOCUMENTS:
            time.sleep(0.02)
    found = time.perf_counter() - began
    with psycopg.connect(side.database, autocommit=True) as connection:
        pending = "SELECT count(*) FROM space_documents WHERE indexed_version IS DISTINCT FROM version"
        while connection.execute(pending).fetchone() != (0,):
            time.sleep(0.02)
    indexed = time.perf_counter() - began
    used = count_cpu_seconds(side.stack, before)
    return {
        f"loading {DOCUMENTS} documents: s until answered": uploaded,
        f"loading {DOCUMENTS} documents: s until found by words": found,
        f"loading {DOCUMENTS} documents: s until all is indexed": indexed,
        **{
            f"loading: processor ms a document, {part}": used[part] / DOCUMENTS * 1000
            for part in ("service", "database")
        },
    }


async def _upload(side: Side, mark: str) -> None:
    numbers = iter(range(DOCUMENTS))

    async def work(client: AsyncCarrel) -> None:
        for number in numbers:
            text = f"# {mark} {number}\n\n{words(120, seed=number + 1)}\n".encode()
            await client.catalog.upload_file(text, document_external_id=f"{mark}-{number}", file_name="load.md")

    async with AsyncCarrel(side.key, side.stack.settings.base_url) as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work(client))


def measure_size(side: Side) -> Values:
    """Return the megabytes of the database's tables and of their indexes."""
    sizes = "SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)) FROM pg_class"
    with psycopg.connect(side.database, autocommit=True) as connection:
        row = connection.execute(f"{sizes} WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace").fetchone()
    return {f"size: MB of {what}": float(each) / 1e6 for what, each in zip(("tables", "indexes"), row, strict=True)}


MEASUREMENTS: dict[str, Callable[[Side], Values]] = {
    "size": measure_size,
    "search": measure_search,
    "loading": measure_loading,
}


def compare(measure: Callable[[Side], Values], old: Side, new: Side, *, turns: int) -> list[dict[str, object]]:
    """Measure both in turns, after each has been measured once for nothing; a row for each value."""
    measure(old), measure(new)
    pairs = [(measure(old), measure(new)) for _ in range(turns)]
    return [
        {
            "what": name,
            "old": round(statistics.median(one[name] for one, _ in pairs), 2),
            "new": round(statistics.median(other[name] for _, other in pairs), 2),
            "new/old": round(statistics.median(other[name] / max(one[name], 1e-9) for one, other in pairs), 3),
        }
        for name in pairs[0][0]
    ]


def _pins(folder: Path) -> set[str]:
    return {line.split()[0] for line in (folder / LOCK).read_text().splitlines() if re.match(r"[\w.-]+==", line)}


@contextmanager
def checkout(revision: str, *, repository: Path = HERE) -> Iterator[Path]:
    """Check a revision out beside this one for a while; the packages that it pins and this one doesn't are printed."""
    with tempfile.TemporaryDirectory(prefix="carrel-bench-revision-") as folder:
        code = Path(folder) / "code"
        Path(folder).chmod(0o711)
        git = ["git", "-C", str(repository), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(code), revision], check=True)
        try:
            if other := sorted(_pins(code) - _pins(repository)):
                print(f"{revision} pins {', '.join(other)}: its code may fail where it needs them.", file=sys.stderr)
            yield code
        finally:
            subprocess.run([*git, "remove", "--force", str(code)], check=True)


@contextmanager
def run_side(folder: Path, code: Path, *, chunks: int) -> Iterator[Side]:
    """Run a checkout's service on a folder, with the synthetic catalog in it."""
    key = f"svc_key_{secrets.token_hex(24)}"
    settings = {"CARREL_BOOTSTRAP_API_KEY": key, "CARREL_API_KEY": key, "CARREL_WORKERS": "1"}
    with run_stack(folder, prefect=False, environment=settings, code=code) as stack:
        owner = address(EmbeddedPostgres(folder), SUPERUSER)
        filling = [sys.executable, "-c", _FILL, owner, str(chunks), str(QUESTIONS)]
        variables = os.environ | import_from(code)
        filled = subprocess.run(filling, check=True, stdout=subprocess.PIPE, cwd=code, env=variables)
        yield Side(stack, json.loads(filled.stdout), key)


def main() -> None:
    """Measure, and print a table; `--keep` writes it to bench/results, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("measurements", nargs="*", help=f"of {', '.join(MEASUREMENTS)}; all unless named")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--readers", nargs="+", choices=READERS, default=READERS, help="of searches; all unless named")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="of searches; all unless named")
    parser.add_argument("--keep", metavar="NAME", help="write bench/results/NAME.json")
    given = parser.parse_args()
    known = MEASUREMENTS | {"search": partial(measure_search, readers=given.readers, modes=given.modes)}
    chosen = [known[name] for name in given.measurements or known]
    with ExitStack() as held:
        work = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="carrel-bench-compare-")))
        work.chmod(0o711)
        old_code = held.enter_context(checkout(given.revision))
        old = held.enter_context(run_side(work / "old", old_code, chunks=given.chunks))
        new = held.enter_context(run_side(work / "new", HERE, chunks=given.chunks))
        rows = [row for measure in chosen for row in compare(measure, old, new, turns=given.turns)]
    report(given.keep or f"compare with {given.revision}", rows, keep=given.keep is not None)


if __name__ == "__main__":
    main()
