"""Ranking quality: nDCG@10 of every mode over a collection in BEIR's layout, through the real index and search.

Goal: SciFact at least 0.725 hybrid. Run: `python -m bench.quality --folder path/to/scifact` (a folder with
corpus.jsonl, queries.jsonl and qrels/test.tsv); `--limit` asks only so many questions. Embedding SciFact's 5,183
abstracts takes some minutes.
"""

import argparse
import asyncio
import csv
import json
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import psycopg
from pydantic import SecretStr

from bench.report import report
from bench.search import NoExtractor, address, every_chunk_scored
from carrel.evaluation import ndcg
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.search.ranking import rank
from service.domains.search.search_query import Scope, SearchQuery, prepare_query
from service.domains.search.snapshot import open_snapshot
from service.index.ingestion.sweeper import fold_all
from service.index.service import DocumentToIndex, ensure_catalog_space, write_index
from service.index.spaces.queries import Space
from service.operate.startup import open_runtime
from service.platform.identifiers import document_id_for, uuid7
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.platform.settings import Settings
from service.runtime import Runtime
from service.runtime.standbys.service import Source
from service.text.chunking import Chunk, chunk_blocks
from service.text.embedding import Embedder, open_embedders
from service.text.languages import tell_language
from service.text.reading import Block

FOLDER = os.environ.get("CARREL_BENCH_BEIR")
CUTOFF = 10
DOCUMENTS_AT_ONCE = 64


@dataclass
class Collection:
    """A collection of the BEIR benchmark: titles and texts by id, questions by id, and what is relevant to each."""

    documents: dict[str, tuple[str, str]]
    questions: dict[str, str]
    relevant: dict[str, dict[str, int]]

    @classmethod
    def read(cls, folder: Path) -> "Collection":
        """Read BEIR's layout; questions without judgements are left out."""
        relevant: dict[str, dict[str, int]] = defaultdict(dict)
        with (folder / "qrels" / "test.tsv").open() as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                relevant[row["query-id"]][row["corpus-id"]] = int(row["score"])
        documents = {each["_id"]: (each["title"], each["text"]) for each in _lines(folder / "corpus.jsonl")}
        questions = {each["_id"]: each["text"] for each in _lines(folder / "queries.jsonl") if each["_id"] in relevant}
        return cls(documents, questions, relevant)


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open() as lines:
        return [json.loads(line) for line in lines]


@dataclass
class Index:
    """The collection as a catalog of the service, and who searches it."""

    runtime: Runtime
    embedder: Embedder
    caller: Caller
    space: Space
    names: dict[UUID, str] = field(default_factory=dict)


async def build(runtime: Runtime, embedder: Embedder, collection: Collection, owner_url: str) -> Index:
    """Put the documents into a catalog that everybody may read, and index them."""
    with psycopg.connect(owner_url, autocommit=True) as owner:
        organization_id, user_id = cast(
            "tuple[UUID, UUID]",
            owner.execute("SELECT organization_id, principal_id FROM principals WHERE kind = 'user'").fetchone(),
        )
        caller = Caller(
            organization_id=organization_id, principal_id=user_id, principals=(organization_id, user_id), kind="user",
            email="", name="", is_admin=True, credential_id=uuid7(), may_act_for_users=False, page_key=b"",
        )  # fmt: skip
        async with runtime.database.transaction(organization_id) as connection:
            space = await ensure_catalog_space(connection, organization_id, model=embedder.model)
        index = Index(runtime, embedder, caller, space)
        index.names = {document_id_for(organization_id, name): name for name in collection.documents}
        register(owner, index, collection)
        names = list(index.names)
        for start in range(0, len(names), DOCUMENTS_AT_ONCE):
            await write(index, collection, names[start : start + DOCUMENTS_AT_ONCE])
            if start % (DOCUMENTS_AT_ONCE * 16) == 0:
                print(f"{start} of {len(names)} documents indexed")
        await fold_all(runtime.database)
        owner.execute("VACUUM ANALYZE")
    return index


def register(owner: psycopg.Connection[Any], index: Index, collection: Collection) -> None:
    """Write the rows a document has before it is indexed."""
    organization_id, user_id = index.caller.organization_id, index.caller.principal_id
    [access_class] = cast(
        "tuple[int]",
        owner.execute(
            "INSERT INTO access_classes (organization_id, digest) VALUES (%s, 'bench') RETURNING access_class",
            [organization_id],
        ).fetchone(),
    )
    owner.execute(
        "INSERT INTO class_readers (organization_id, principal_id, access_class, role) VALUES (%s, %s, %s, 'VIEWER')",
        [organization_id, organization_id, access_class],
    )
    with owner.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO documents (document_id, organization_id, external_id, name, owner_id, version)"
            " VALUES (%s, %s, %s, %s, %s, 1)",
            [(key, organization_id, name, collection.documents[name][0], user_id) for key, name in index.names.items()],
        )
        cursor.executemany(
            "INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)"
            " VALUES (%s, %s, 'UPLOADED_DOCUMENT', %s, %s)",
            [(key, organization_id, str(key), access_class) for key in index.names],
        )
        cursor.executemany(
            "INSERT INTO space_documents (document_id, space_id, organization_id, version) VALUES (%s, %s, %s, 1)",
            [(key, index.space.space_id, organization_id) for key in index.names],
        )


async def write(index: Index, collection: Collection, keys: Sequence[UUID]) -> None:
    """Chunk, embed and index some documents."""
    chunks: list[list[Chunk]] = []
    for key in keys:
        title, passage = collection.documents[index.names[key]]
        chunks.append(
            chunk_blocks([Block(kind="paragraph", text=passage)], title=title, tokenizer=index.embedder.tokenizer)
        )
    vectors = await index.embedder.embed([chunk.dense_text for each in chunks for chunk in each], in_background=True)
    offsets = np.cumsum([0, *(len(each) for each in chunks)])
    organization_id = index.caller.organization_id
    documents = [
        DocumentToIndex(
            document_id=key,
            version=1,
            title=collection.documents[index.names[key]][0],
            chunks=each,
            embeddings=vectors[offsets[number] : offsets[number + 1]],
            mean=index.embedder.model.mean,
            language=tell_language([chunk.text for chunk in each]),
        )
        for number, (key, each) in enumerate(zip(keys, chunks, strict=True))
    ]
    async with index.runtime.database.transaction(organization_id) as connection:
        written = await write_index(connection, organization_id, space=index.space, documents=documents)
        assert written == {*keys}


async def search(index: Index, question: str, vector: Any, mode: SearchMode) -> list[str]:
    """The ids of the best ten documents."""

    async def prepare(space: Space) -> list[SearchQuery]:
        model = index.embedder.model
        return [prepare_query(question, mode=mode, language=space.language, embedding=vector, model=model)]

    source = Source(index.runtime.database)
    async with open_snapshot(source, index.caller, index.space, prepare=prepare, read_only=True) as read:
        scope = Scope(caller=index.caller, space=read.space, by_chunk=False)
        ranking = await rank(read.connection, scope, read.search_query, at_least=CUTOFF)
    return [index.names[hit.document_id] for hit in ranking.hits[:CUTOFF]]


def mean_ndcg(collection: Collection, found: Sequence[list[str]]) -> float:
    """The mean nDCG@10 of what was found for each question, in their order."""
    scores = [
        ndcg(one, collection.relevant[key], cutoff=CUTOFF) for one, key in zip(found, collection.questions, strict=True)
    ]
    return round(float(np.mean(scores)), 4)


async def evaluate(index: Index, collection: Collection) -> list[dict[str, object]]:
    """A row for each way of searching: mean nDCG@10, and the share of the exact answer that was found."""
    asked = list(collection.questions.items())
    vectors = np.concatenate(
        [await index.embedder.embed([text for _, text in asked[at : at + 64]]) for at in range(0, len(asked), 64)]
    )
    rows: list[dict[str, object]] = []
    for mode in (SearchMode.HYBRID, SearchMode.LEXICAL, SearchMode.SEMANTIC):
        found = [await search(index, text, vectors[at], mode) for at, (_, text) in enumerate(asked)]
        with every_chunk_scored():
            exact = [await search(index, text, vectors[at], mode) for at, (_, text) in enumerate(asked)]
        shares = [len({*one} & {*other}) / max(len(other), 1) for one, other in zip(found, exact, strict=True)]
        rows.append(
            {
                "documents": len(collection.documents),
                "questions": len(asked),
                "search": mode,
                "nDCG@10": mean_ndcg(collection, found),
                "nDCG@10 of exact": mean_ndcg(collection, exact),
                "recall@10 of exact": round(float(np.mean(shares)), 4),
            }
        )
        print(rows[-1])
    return rows


async def main(folder: Path, limit: int | None) -> None:
    """Build the index on a throwaway PostgreSQL, ask every question, and report."""
    collection = Collection.read(folder)
    if limit is not None:
        collection.questions = dict(list(collection.questions.items())[:limit])
    data = Path(tempfile.mkdtemp(prefix="carrel-bench-quality-"))
    data.chmod(0o711)  # noqa: ASYNC240 - nothing else runs yet
    settings = Settings(
        data_dir=data,
        bootstrap_admin_email="admin@bench.example",
        bootstrap_api_key=SecretStr("svc_key_" + "bench" * 8),
    )
    try:
        embedders = await open_embedders(settings)
        parts = {"extractor": cast("Any", NoExtractor()), "embedders": embedders}
        async with open_runtime(settings, **parts) as runtime:
            began = time.perf_counter()
            server = EmbeddedPostgres(data)
            index = await build(runtime, embedders.default, collection, address(server, SUPERUSER))
            print(f"indexed in {time.perf_counter() - began:.0f} s")
            report("quality", await evaluate(index, collection))
        await embedders.close()
    finally:
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="a collection in BEIR's layout")
    parser.add_argument("--limit", type=int, help="ask only so many questions")
    arguments = parser.parse_args()
    if arguments.folder is None:
        print("bench.quality needs a collection in BEIR's layout: --folder, or CARREL_BENCH_BEIR. Left out.")
    else:
        asyncio.run(main(arguments.folder, arguments.limit))
