"""Permission-filtered search: recall against the exact answer, and what the service adds to its SQL.

A narrow, a typical and a wide reader search a synthetic catalog over HTTP (in this process), each mode and reader on
its own; beside them the bare SQL of the legs (the statement that finds and scores candidates), and an exact join on a
table of grants.
Goals: recall@10 >= 0.99; service p50 <= 1.5 x the bare SQL, p95 <= 3 x p50. Run: `python -m bench.search [--scale]`.
"""

import argparse
import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import httpx
import numpy as np
import psycopg
from pydantic import SecretStr

from bench import synthetic
from bench.report import report
from service.domains.search import queries, snapshot
from service.domains.search.search_query import Scope, SearchQuery
from service.index.term_keys import NO_LOOKUP
from service.main import create_app
from service.operate.startup import open_runtime
from service.platform import logs
from service.platform.batches import Batch
from service.platform.database import SERVICE_ROLE
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.platform.settings import Settings
from service.text.embedding import Embedders
from service.text.embedding.models import EmbeddingModel

CHUNKS = 100_000
SCALED = 1_000_000
QUESTIONS = 30
READERS = ("narrow", "typical", "wide")


class VectorBook:
    """An embedder that knows the questions' vectors, so that only the search is measured."""

    def __init__(self) -> None:
        zeros = np.zeros(synthetic.DIMENSIONS, np.float32)
        self.model = EmbeddingModel(name="bench", dimensions=synthetic.DIMENSIONS, mean=zeros)
        self.vectors: dict[str, Any] = {}

    async def embed(self, texts: list[str], *, in_background: bool = False) -> Any:
        """Look the vectors up."""
        del in_background
        return np.stack([self.vectors[each] for each in texts])

    async def close(self) -> None:
        """Nothing is held."""


class NoExtractor:
    """Stands where the workers that read files would: nothing is uploaded here."""

    async def warm(self) -> None:
        """There is nothing to warm."""


def questions_for(made: synthetic.Organization, book: VectorBook, reader: str, random: Any) -> list[str]:
    """Questions near chunks the reader may read: some of a chunk's words, and its vector disturbed."""
    readable = np.flatnonzero(made.readable[reader][made.of_document])
    questions: list[str] = []
    for at in random.choice(readable, QUESTIONS):
        words = made.texts[at].split()
        question = " ".join([*random.choice(words[:30], 2), *random.choice(words[30:], 3)])
        vector = made.vectors[at].astype(np.float32) + 0.04 * random.standard_normal(synthetic.DIMENSIONS)
        book.vectors[question] = (vector / np.linalg.norm(vector)).astype(np.float32)
        questions.append(question)
    return questions


def exact_documents(made: synthetic.Organization, book: VectorBook, reader: str, question: str) -> list[str]:
    """The ten readable documents nearest in meaning, by brute force."""
    scores = _slice(made.vectors, book.vectors[question])
    best = np.full(len(made.document_ids), -2.0)
    np.maximum.at(best, made.of_document, scores)
    best[~made.readable[reader]] = -2
    return [str(made.document_ids[number]) for number in np.argsort(-best)[:10]]


def _slice(vectors: Any, vector: Any) -> Any:
    step = 50_000
    return np.concatenate([vectors[at : at + step].astype(np.float32) @ vector for at in range(0, len(vectors), step)])


class LegTimer:
    """Keeps the statement of the legs as the service sends it, with its values, to be timed alone."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, Any]] = []
        ask_candidates = queries.ask_candidates

        def keep(batch: Batch, scope: Scope, search_query: SearchQuery, *, at_least: int) -> Any:
            answer = ask_candidates(batch, scope, search_query, at_least=at_least)
            self.statements.append((batch.parts[-1].text, batch.parts[-1].values))
            return answer

        queries.ask_candidates = keep


async def ask(client: httpx.AsyncClient, question: str, reader: str, mode: str, **options: Any) -> list[str]:
    """Search as a reader, and return the ids found."""
    answer = await client.post(
        "/api/v0/search/searchDocumentCatalog",
        json={
            "searchQuery": question,
            "userEmail": f"{reader}@bench.example",
            "searchOptions": {"mode": mode, **options},
        },
    )
    answer.raise_for_status()
    return [result["documentId"] for result in answer.json()["results"]]


async def bare_milliseconds(connection: psycopg.AsyncConnection, statements: list[tuple[str, Any]]) -> float:
    """Run statements on a plain connection, and return the milliseconds."""
    began = time.perf_counter()
    for statement, parameters in statements:
        await (await connection.execute(statement, parameters)).fetchall()
    return (time.perf_counter() - began) * 1000


@contextmanager
def every_chunk_scored() -> Iterator[None]:
    """Score all that is readable, instead of what has the best codes or the rarest terms."""
    with (
        patch.multiple(queries, BEST_PAGES=10**9, BEST_DOCUMENTS=10**9),
        patch.object(snapshot, "choose_keys", lambda *_, **__: NO_LOOKUP),
    ):
        yield


EXACT_JOIN = """
SELECT document_id FROM vectors_384 WHERE document_id IN (
    SELECT document_id FROM bench_grants WHERE principal_id = ANY(ARRAY(
        SELECT group_id FROM group_members JOIN principals ON principal_id = member_id WHERE email = $1)))
ORDER BY embedding <#> (SELECT $2::halfvec) LIMIT 100
"""


@dataclass
class Setting:
    """Where a measurement happens: the service, a plain connection of its role, and one of the database's owner."""

    client: httpx.AsyncClient
    made: synthetic.Organization
    book: VectorBook
    timer: LegTimer
    plain: psycopg.AsyncConnection
    owner: psycopg.AsyncConnection


Measure = Callable[[Setting, str, str, list[str]], Awaitable[dict[str, Any]]]


async def measure_mode(setting: Setting, reader: str, mode: str, questions: list[str]) -> dict[str, Any]:
    """Time every question as a reader in one mode, and its legs' bare SQL; then see what was missed.

    Each has been asked once before: what is read first from the disk's cache would count for whichever comes first.
    """
    service: list[float] = []
    bare: list[float] = []
    found: list[list[str]] = []
    for question in questions:
        setting.timer.statements.clear()
        await ask(setting.client, question, reader, mode)
        legs = list(setting.timer.statements)
        began = time.perf_counter()
        found.append(await ask(setting.client, question, reader, mode))
        service.append((time.perf_counter() - began) * 1000)
        bare.append(await bare_milliseconds(setting.plain, legs))
    p50, p95 = np.percentile(service, [50, 95])
    return {
        "chunks": len(setting.made.texts),
        "reader": reader,
        "readable": f"{setting.made.readable[reader].mean():.1%}",
        "mode": mode,
        "recall@10": await recall(setting, reader, mode, questions=questions, found=found),
        "service p50 ms": round(float(p50), 1),
        "p95 ms": round(float(p95), 1),
        "p95/p50": round(float(p95 / p50), 2),
        "legs p50 ms": round(float(np.median(bare)), 1),
        "service/legs": round(float(p50 / np.median(bare)), 2),
        "exact join p50 ms": await exact_join(setting, reader, questions) if mode == "SEMANTIC" else "-",
    }


async def recall(setting: Setting, reader: str, mode: str, *, questions: list[str], found: list[list[str]]) -> float:
    """How much of the exact answer was found: that by brute force (SEMANTIC), or with every chunk scored."""
    shares: list[float] = []
    for question, results in zip(questions, found, strict=True):
        if mode == "SEMANTIC":
            exact = exact_documents(setting.made, setting.book, reader, question)
        else:
            with every_chunk_scored():
                exact = await ask(setting.client, question, reader, mode)
        shares.append(len({*results} & {*exact}) / max(len(exact), 1))
    return round(float(np.mean(shares)), 4)


async def exact_join(setting: Setting, reader: str, questions: list[str]) -> float:
    """The median milliseconds of the exact ten nearest through a join with a table of grants."""
    took: list[float] = []
    for question in questions[:10]:
        vector = "[" + ",".join(map(str, setting.book.vectors[question].tolist())) + "]"
        statement = (EXACT_JOIN, [f"{reader}@bench.example", vector])
        took.append(await bare_milliseconds(setting.owner, [statement]))
    return round(float(np.median(took)), 1)


async def measure(setting: Setting, one: Measure = measure_mode) -> list[dict[str, Any]]:
    """Measure every reader and mode; a row each."""
    random = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for reader in READERS:
        questions = questions_for(setting.made, setting.book, reader, random)
        for mode in ("HYBRID", "SEMANTIC", "LEXICAL"):
            rows.append(await one(setting, reader, mode, questions))
            print(rows[-1])
    return rows


def address(server: EmbeddedPostgres, user: str) -> str:
    """The database's address for the plain driver."""
    return server.url(user=user).set(drivername="postgresql").render_as_string(hide_password=False)


async def main(chunks: int) -> None:
    """Measure, and report; rows of a size that isn't one of these two are not committed."""
    async with open_service(chunks) as setting:
        rows = await measure(setting)
    report({CHUNKS: "search", SCALED: "search-scale"}.get(chunks, f"search-{chunks}.local"), rows)


@asynccontextmanager
async def open_service(chunks: int) -> AsyncGenerator[Setting]:
    """Make the organization on a throwaway PostgreSQL, and a service on it."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-bench-search-"))
    folder.chmod(0o711)  # noqa: ASYNC240 - nothing else runs yet
    api_key = f"svc_key_{secrets.token_hex(24)}"
    settings = Settings(
        data_dir=folder,
        bootstrap_admin_email="admin@bench.example",
        bootstrap_api_key=SecretStr(api_key),
        log_level="ERROR",
    )
    logs.configure(settings.log_level)  # `python -m service` does this; else every request is a line beside the rows
    book = VectorBook()
    parts = {"extractor": cast("Any", NoExtractor()), "embedders": Embedders(cast("Any", book))}
    try:
        async with open_runtime(settings, **parts) as runtime:
            server = EmbeddedPostgres(folder)
            made = fill(address(server, SUPERUSER), chunks)
            transport = httpx.ASGITransport(create_app(runtime))
            headers = {"Authorization": f"Bearer {api_key}"}
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers, timeout=300) as client,
                await psycopg.AsyncConnection.connect(
                    address(server, SERVICE_ROLE), autocommit=True, cursor_factory=psycopg.AsyncRawCursor
                ) as plain,
                await psycopg.AsyncConnection.connect(
                    address(server, SUPERUSER), autocommit=True, cursor_factory=psycopg.AsyncRawCursor
                ) as owner,
            ):
                entered = "SELECT set_config('carrel.organization_id', $1, false)"
                await plain.execute(entered, [str(made.organization_id)])
                yield Setting(client, made, book, LegTimer(), plain, owner)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(owner_url: str, chunks: int) -> synthetic.Organization:
    """Make the organization, and the table of grants of the exact join."""
    began = time.perf_counter()
    with psycopg.connect(owner_url, autocommit=True) as connection:
        organization_id, owner_id = connection.execute(
            "SELECT organization_id, principal_id FROM principals WHERE kind = 'user'"
        ).fetchone()
        made = synthetic.make(connection, organization_id=organization_id, owner_id=owner_id, chunks=chunks)
        connection.execute("CREATE TABLE bench_grants (principal_id uuid, document_id uuid)")
        connection.execute(
            "INSERT INTO bench_grants SELECT principal_id, object_id FROM resources JOIN class_readers"
            " USING (access_class)"
        )
        connection.execute("CREATE INDEX ON bench_grants (principal_id, document_id)")
        connection.execute("VACUUM ANALYZE bench_grants")
    print(f"made {chunks} chunks in {time.perf_counter() - began:.0f} s")
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", action="store_true", help="a million chunks")
    parser.add_argument("--chunks", type=int, help="so many chunks")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.chunks or (SCALED if arguments.scale else CHUNKS)))
