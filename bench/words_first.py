"""Words first, meaning after: how soon uploads are found, and what loads and searches cost each other.

Each part runs on a service of its own; if it searches, the service holds the synthetic catalog of `bench.search`. The
clients that load or search without a pause are a process of their own. "Found" means that a search has found the
document, counted from the moment when its upload began. The parts:

- `pages`: page-sized files one after the other, alone and beside 16 clients that upload without a pause. Goals, alone:
  p95 <= 300 ms by words, <= 1 s by meaning; beside the uploads: p95 <= 300 ms by words.
- `load`: many small documents from 16 clients, until all are found by words and until all are found by meaning. Goal:
  by words >= 4 times as soon. `--revision REV` loads as many into another revision's service, too.
- `indexing`: some documents, alone and beside 8 clients that search without a pause. Goals beside the searches: >= 25 %
  of the chunks a second; each accepted document found by words within 5 s.
- `searches`: the searches beside 16 uploads of `bench.concurrency`. Goal: the median at most 1.2 times as long.
- `unchanged`: the unchanged folder of `bench.ingest`. Goal: >= 10,000 documents a second.

Run: `python -m bench.words_first [PART …] [--quick] [--revision REV]`; all parts unless named. About 45 minutes for
all, 10 with `--quick`, which keeps no results.
"""

import argparse
import asyncio
import multiprocessing
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, LiteralString

import httpx
import numpy as np
import psycopg

from bench import synthetic
from bench.compare import checkout
from bench.concurrency import READER, search_beside_uploads
from bench.flows import count_cpu_seconds, write_documents
from bench.ingest import check_again
from bench.report import report
from bench.running import Stack, run_stack, words
from bench.search import address
from carrel import AsyncCarrel
from carrel.errors import ServerError
from flows.operations.loading import upload
from flows.operations.options import UploadOptions
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.text.embedding.models import MINILM

UPLOADERS, SEARCHERS = 16, 8
PAGE_WORDS, INDEXED_WORDS = 400, 1200
# A load that isn't done by then has failed.
PATIENCE_SECONDS = 7200.0
# Chunks are counted so long beside searches.
COUNTED_SECONDS = 120.0
SAMPLE = 50
LOOK_SECONDS = 0.005

Row = dict[str, object]

_PENDING = "SELECT count(*) FROM space_documents WHERE indexed_version IS DISTINCT FROM version"
_WITHOUT_WORDS = "SELECT count(*) FROM space_documents WHERE words_version IS DISTINCT FROM version"
_PENDING_OF_DOCUMENT = f"{_PENDING} AND document_id = %s"
_OF_NAMES = "AND document_id IN (SELECT document_id FROM documents WHERE external_id LIKE %s)"
_PENDING_NAMED = f"{_PENDING} {_OF_NAMES}"
_VECTORS = "SELECT count(*) FROM vectors_384 JOIN documents USING (document_id) WHERE external_id LIKE %s"
_HAS_WORDS_FIRST = """
SELECT count(*) FROM information_schema.columns WHERE table_name = 'space_documents' AND column_name = 'words_version'
"""


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    chunks: int
    pages: int
    documents: int
    indexed: int
    checked: int
    words: int = 120  # of each of the documents


FULL = Amounts(chunks=100_000, pages=100, documents=20_000, indexed=60, checked=5000)
QUICK = Amounts(chunks=10_000, pages=60, documents=2000, indexed=30, checked=1000)


@dataclass(frozen=True)
class Target:
    """A running service: its address and key, its database, and questions that find something in its catalog."""

    stack: Stack
    key: str
    database: psycopg.Connection
    questions: Sequence[str] = ()

    @property
    def url(self) -> str:
        """Return the service's address."""
        return self.stack.settings.base_url

    def ask(self, statement: LiteralString, *values: object) -> int:
        """Return the number that a statement finds in the service's database."""
        [number] = self.database.execute(statement, values).fetchone() or [0]
        return int(number)

    def wait_until_idle(self) -> None:
        """Wait until everything that was uploaded is indexed."""
        while self.ask(_PENDING):
            time.sleep(0.2)


def new_mark() -> str:
    """Return a word that no other document has."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(14))


# The processes that load and search beside what is measured.


def _upload_without_pause(key: str, url: str, ends: Event) -> None:
    async def work(client: AsyncCarrel) -> None:
        while not ends.is_set():
            text = f"# Other {new_mark()}\n\n{words(PAGE_WORDS, seed=secrets.randbelow(10**6) + 1)}\n"
            await _send(client, text, f"other-{secrets.token_hex(8)}")

    async def load() -> None:
        async with AsyncCarrel(key, url) as client, asyncio.TaskGroup() as group:
            for _ in range(UPLOADERS):
                group.create_task(work(client))

    asyncio.run(load())


def _search_without_pause(key: str, url: str, ends: Event, questions: Sequence[str], answered: Any) -> None:
    async def work(http: httpx.AsyncClient, number: int) -> None:
        while not ends.is_set():
            body = {"searchQuery": questions[number % len(questions)], "userEmail": READER}
            (await http.post("/api/v0/search/searchDocumentCatalog", json=body)).raise_for_status()
            answered.value += 1
            number += SEARCHERS

    async def search() -> None:
        async with _http(key, url) as http, asyncio.TaskGroup() as group:
            for number in range(SEARCHERS):
                group.create_task(work(http, number))

    asyncio.run(search())


@contextmanager
def beside(work: Callable[..., None], target: Target, *given: object) -> Iterator[None]:
    """Let another process load or search during the block, and for some seconds before, in which it starts."""
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    process = context.Process(target=work, args=(target.key, target.url, ends, *given))
    process.start()
    try:
        time.sleep(4)
        if not process.is_alive():
            raise RuntimeError("What was to go on beside the measurement has failed.")
        yield
    finally:
        ends.set()
        process.join()


async def _send(client: AsyncCarrel, text: str, external_id: str) -> tuple[str, float]:
    """Upload a text, however often the service refuses it; return its id, and when the accepted upload began."""
    while True:
        began = time.perf_counter()
        try:
            sent = await client.catalog.upload_file(
                text.encode(), document_external_id=external_id, file_name=f"{external_id}.md"
            )
        except ServerError as error:
            if error.retry_after is None:
                raise
            await asyncio.sleep(error.retry_after)
        else:
            return str(sent.document_id), began


def _http(key: str, url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=600)


async def _finds(http: httpx.AsyncClient, question: str, document_id: str, *, mode: str) -> bool:
    options = {"mode": mode, "maxResults": 50}
    body = {"searchQuery": question, "searchOptions": options}
    answer = (await http.post("/api/v0/search/searchDocumentCatalog", json=body)).raise_for_status()
    return any(each["documentId"] == document_id for each in answer.json()["results"])


async def _until_found(http: httpx.AsyncClient, mark: str, document_id: str) -> None:
    while True:
        if await _finds(http, mark, document_id, mode="LEXICAL"):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _until_indexed(target: Target, document_id: str) -> None:
    while True:
        if not target.ask(_PENDING_OF_DOCUMENT, document_id):
            return
        await asyncio.sleep(LOOK_SECONDS)


# Pages


@dataclass
class Found:
    """Milliseconds from each upload's begin; `missed` are the pages with vectors that a search by meaning missed."""

    answered: list[float] = field(default_factory=list)
    words: list[float] = field(default_factory=list)
    meaning: list[float] = field(default_factory=list)
    missed: int = 0

    def rows(self, how: str, *, words_goal: str, meaning_goal: str = "") -> list[Row]:
        """Return a row for each percentile."""
        named = [("answered", self.answered, ""), ("by words", self.words, words_goal)]
        named += [("by meaning", self.meaning, meaning_goal)] if self.meaning else []
        return [
            {"what": f"page {how}: {name}, ms p{share}", "value": _percentile(each, share), "goal": goal * (share > 50)}
            for name, each, goal in named
            for share in (50, 95)
        ]


def _percentile(values: Sequence[float], share: float) -> float:
    return round(float(np.percentile(values, share)), 1)


async def send_pages(target: Target, pages: int, *, waits_for_meaning: bool) -> Found:
    """Upload pages one after the other, each when the one before is found, by meaning too if `waits_for_meaning`."""
    found = Found()
    async with AsyncCarrel(target.key, target.url) as client, _http(target.key, target.url) as http:
        for number in range(pages):
            mark = new_mark()
            text = f"# Page {mark}\n\n{words(PAGE_WORDS, seed=number + 7001)}\n"
            document_id, began = await _send(client, text, f"page-{mark}")
            found.answered.append((time.perf_counter() - began) * 1000)
            await _until_found(http, mark, document_id)
            found.words.append((time.perf_counter() - began) * 1000)
            if waits_for_meaning:
                await _until_indexed(target, document_id)
                found.missed += not await _finds(http, " ".join(text.split()[2:32]), document_id, mode="SEMANTIC")
                found.meaning.append((time.perf_counter() - began) * 1000)
    return found


def measure_pages(target: Target, amounts: Amounts) -> list[Row]:
    """Measure pages alone, and beside uploads."""
    asyncio.run(send_pages(target, 5, waits_for_meaning=True))
    alone = asyncio.run(send_pages(target, amounts.pages, waits_for_meaning=True))
    with beside(_upload_without_pause, target):
        loaded = asyncio.run(send_pages(target, amounts.pages, waits_for_meaning=False))
    return [
        *alone.rows("alone", words_goal="<= 300", meaning_goal="<= 1000"),
        {"what": "page alone: missed by meaning", "value": alone.missed, "goal": "0"},
        *loaded.rows(f"beside {UPLOADERS} uploads", words_goal="<= 300"),
    ]


# A load of many small documents


@dataclass(frozen=True)
class Load:
    """Seconds until all documents of a load were answered, found by words, and found by meaning."""

    answered: float
    words: float
    meaning: float
    processor: dict[str, float]
    missing: int


async def _send_all(target: Target, texts: dict[str, str]) -> dict[str, str]:
    """Upload each text by its mark; return the ids."""
    ids, marks = dict[str, str](), iter(texts)

    async def work(client: AsyncCarrel) -> None:
        for mark in marks:
            ids[mark], _ = await _send(client, texts[mark], f"small-{mark}")

    async with AsyncCarrel(target.key, target.url) as client, asyncio.TaskGroup() as group:
        for _ in range(UPLOADERS):
            group.create_task(work(client))
    return ids


async def _count_missing(target: Target, ids: dict[str, str], *, mode: str) -> int:
    """Count the documents of a sample that a search for their own word doesn't find."""
    sample = list(ids)[:: max(1, len(ids) // SAMPLE)]
    async with _http(target.key, target.url) as http:
        return sum([not await _finds(http, f"Small {mark}", ids[mark], mode=mode) for mark in sample])


def load(target: Target, amounts: Amounts) -> Load:
    """Upload small documents, and wait until all have words, and until all have vectors."""
    marks = [new_mark() for _ in range(amounts.documents)]
    texts = {mark: f"# Small {mark}\n\n{words(amounts.words, seed=at + 1)}\n" for at, mark in enumerate(marks)}
    halves = [_WITHOUT_WORDS if target.ask(_HAS_WORDS_FIRST) else _PENDING, _PENDING]
    before, began = target.stack.cpu_seconds(), time.perf_counter()
    ids = asyncio.run(_send_all(target, texts))
    seconds = [time.perf_counter() - began]
    missing = 0
    for pending, mode in zip(halves, ("LEXICAL", "HYBRID"), strict=True):
        while target.ask(pending):
            if time.perf_counter() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"The load was not over after {PATIENCE_SECONDS} s.")
            time.sleep(0.1)
        seconds.append(time.perf_counter() - began)
        missing += asyncio.run(_count_missing(target, ids, mode=mode))
    return Load(*seconds, processor=count_cpu_seconds(target.stack, before), missing=missing)


def measure_load(target: Target, amounts: Amounts) -> list[Row]:
    """Measure a load here."""
    took, named = load(target, amounts), f"load of {amounts.documents}"
    per_document = {name: round(each / amounts.documents * 1000, 1) for name, each in took.processor.items()}
    return [
        {"what": f"{named}: all answered, s", "value": round(took.answered, 1), "goal": ""},
        {"what": f"{named}: all found by words, s", "value": round(took.words, 1), "goal": ""},
        {"what": f"{named}: all found by meaning, s", "value": round(took.meaning, 1), "goal": ""},
        {"what": f"{named}: meaning / words", "value": round(took.meaning / took.words, 2), "goal": ">= 4"},
        {"what": f"{named}: not found, of {2 * SAMPLE}", "value": took.missing, "goal": "0"},
        *(
            {"what": f"{named}: processor ms a document, {name}", "value": per_document[name], "goal": ""}
            for name in ("client", "service", "database")
        ),
    ]


def measure_load_before(revision: str, rows: Sequence[Row], amounts: Amounts, folder: Path) -> list[Row]:
    """Load as many documents into another revision's service; its rows, and the comparison."""
    with checkout(revision) as code, run_target(folder, chunks=0, code=code) as target:
        took = load(target, amounts)
    named = f"load of {amounts.documents}, {revision}"
    here = next(float(str(row["value"])) for row in rows if "all found by words" in str(row["what"]))
    return [
        {"what": f"{named}: all found by words, s", "value": round(took.words, 1), "goal": ""},
        {"what": f"{named}: all found by meaning, s", "value": round(took.meaning, 1), "goal": ""},
        {"what": f"{named}: by words, there / here", "value": round(took.words / here, 2), "goal": ">= 4"},
    ]


# Indexing beside searches


@dataclass
class Indexed:
    """Chunks that had vectors within so many seconds, and the seconds until each document was found by words."""

    chunks: int = 0
    seconds: float = 0.0
    words: list[float] = field(default_factory=list)
    processor: dict[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Return the chunks a second."""
        return self.chunks / self.seconds


def index_some(target: Target, documents: int) -> Indexed:
    """Upload documents by four clients, and wait until all have vectors, or for the seconds that are counted."""
    run, found = new_mark(), Indexed()
    numbers = iter(range(documents))
    before, began = target.stack.cpu_seconds(), time.perf_counter()

    async def work(client: AsyncCarrel, http: httpx.AsyncClient) -> None:
        for number in numbers:
            mark = new_mark()
            text = f"# Long {mark}\n\n{words(INDEXED_WORDS, seed=number + 9001)}\n"
            document_id, sent = await _send(client, text, f"{run}-{number}")
            await _until_found(http, mark, document_id)
            found.words.append(time.perf_counter() - sent)

    async def send() -> None:
        clients = AsyncCarrel(target.key, target.url), _http(target.key, target.url)
        async with clients[0] as client, clients[1] as http, asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(work(client, http))

    asyncio.run(send())
    while target.ask(_PENDING_NAMED, f"{run}-%") and time.perf_counter() - began < COUNTED_SECONDS:
        time.sleep(0.1)
    found.seconds = time.perf_counter() - began
    found.chunks = target.ask(_VECTORS, f"{run}-%")
    found.processor = count_cpu_seconds(target.stack, before)
    return found


def measure_indexing(target: Target, amounts: Amounts) -> list[Row]:
    """Measure indexing alone, and beside clients that search."""
    answered = multiprocessing.get_context("spawn").Value("l", 0, lock=False)
    index_some(target, 2)
    alone = index_some(target, amounts.indexed)
    with beside(_search_without_pause, target, target.questions, answered):
        began, so_far = time.perf_counter(), answered.value
        time.sleep(10)
        searches_alone = (answered.value - so_far) / (time.perf_counter() - began)
        began, so_far = time.perf_counter(), answered.value
        loaded = index_some(target, amounts.indexed)
        searches = (answered.value - so_far) / (time.perf_counter() - began)
    named = f"indexing beside {SEARCHERS} searchers"
    return [
        {"what": "indexing alone, chunks/s", "value": round(alone.per_second, 2), "goal": ""},
        {"what": "indexing alone: by words, s at most", "value": round(max(alone.words), 2), "goal": ""},
        {"what": f"{named}, chunks/s", "value": round(loaded.per_second, 2), "goal": ""},
        {"what": f"{named}, of alone", "value": round(loaded.per_second / alone.per_second, 3), "goal": ">= 0.25"},
        {"what": f"{named}: by words, s median", "value": round(statistics.median(loaded.words), 2), "goal": ""},
        {"what": f"{named}: by words, s at most", "value": round(max(loaded.words), 2), "goal": "<= 5"},
        {"what": f"{SEARCHERS} searchers alone, searches/s", "value": round(searches_alone, 1), "goal": ""},
        {"what": f"{SEARCHERS} searchers beside indexing, searches/s", "value": round(searches, 1), "goal": ""},
    ]


# What other benchmarks have


def measure_searches(target: Target, amounts: Amounts) -> list[Row]:
    """Measure searches beside uploads, in two rounds."""
    del amounts
    alone, loaded = asyncio.run(search_beside_uploads(target.stack, list(target.questions)))
    target.wait_until_idle()
    again, loaded_again = asyncio.run(search_beside_uploads(target.stack, list(target.questions)))
    alone.add(again)
    loaded.add(loaded_again)
    ratio = round(loaded.percentile(50) / alone.percentile(50), 2)
    named = f"searches beside {UPLOADERS} uploads"
    return [
        {"what": "searches alone, ms p50", "value": round(alone.percentile(50), 1), "goal": ""},
        {"what": f"{named}, ms p50", "value": round(loaded.percentile(50), 1), "goal": ""},
        {"what": f"{named} / alone", "value": ratio, "goal": "<= 1.2"},
        {"what": f"{named}: failed", "value": loaded.failures.total(), "goal": "0"},
    ]


def measure_unchanged(target: Target, amounts: Amounts) -> list[Row]:
    """Measure how fast an unchanged folder is checked."""
    with tempfile.TemporaryDirectory(prefix="carrel-bench-unchanged-") as folder:
        root, settings = Path(folder) / "small", target.stack.settings
        write_documents(root, number=amounts.checked, length=8)
        asyncio.run(upload(str(root), options=UploadOptions(), settings=settings))
        checked, sent, seconds = asyncio.run(check_again(root, settings=settings))
    return [
        {"what": f"unchanged folder of {checked}, bytes sent", "value": sent, "goal": "0"},
        {"what": "unchanged folder, documents/s", "value": round(checked / seconds), "goal": ">= 10000"},
    ]


PARTS: dict[str, Callable[[Target, Amounts], list[Row]]] = {
    "pages": measure_pages,
    "indexing": measure_indexing,
    "searches": measure_searches,
    "unchanged": measure_unchanged,
    "load": measure_load,
}
WITHOUT_CATALOG = ("unchanged", "load")


@contextmanager
def run_target(folder: Path, *, chunks: int, code: Path | None = None) -> Iterator[Target]:
    """Run a service on a folder of its own, with so many chunks of the synthetic catalog."""
    key = f"svc_key_{secrets.token_hex(24)}"
    keys = {"CARREL_BOOTSTRAP_API_KEY": key, "CARREL_API_KEY": key}
    with ExitStack() as held:
        stack = held.enter_context(run_stack(folder, prefect=False, environment=keys, code=code))
        owner = address(EmbeddedPostgres(folder), SUPERUSER)
        database = held.enter_context(psycopg.connect(owner, autocommit=True))
        yield Target(stack, key, database, _fill(database, chunks) if chunks else ())


def _fill(database: psycopg.Connection, chunks: int) -> list[str]:
    organization_id, owner_id = database.execute(
        "SELECT organization_id, principal_id FROM principals WHERE kind = 'user'"
    ).fetchone()
    made = synthetic.make(database, organization_id=organization_id, owner_id=owner_id, chunks=chunks, model=MINILM)
    readable = np.flatnonzero(made.readable[READER.partition("@")[0]][made.of_document])
    picked = np.random.default_rng(5).choice(readable, 200)
    return [" ".join(made.texts[at].split()[20:26]) for at in picked]


def main() -> None:
    """Measure, print, and write bench/results/words-first.json when everything is measured in full."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless named")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to look into a part")
    parser.add_argument("--documents", type=int, help=f"of the load; {FULL.documents} unless given")
    parser.add_argument("--words", type=int, default=FULL.words, help="of each document of the load")
    parser.add_argument("--revision", help="load into this revision's service, too")
    given = parser.parse_args()
    amounts = QUICK if given.quick else FULL
    amounts = replace(amounts, documents=given.documents or amounts.documents, words=given.words)
    with ExitStack() as held:
        work = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="carrel-bench-words-first-")))
        work.chmod(0o711)
        rows: list[Row] = []
        for name in given.parts or PARTS:
            with run_target(work / name, chunks=0 if name in WITHOUT_CATALOG else amounts.chunks) as target:
                measured = PARTS[name](target, amounts)
            report(name, measured, keep=False)
            rows += measured
        if given.revision:
            rows += measure_load_before(given.revision, rows, amounts, work / "there")
    report("words-first", rows, keep=not (given.parts or given.quick))


if __name__ == "__main__":
    main()
