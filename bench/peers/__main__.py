"""Carrel beside its peers, on the same texts and vectors: `make bench-peers` makes their environment and runs this.

Loading: a folder of one-abstract files goes through Carrel's flow (extraction, HTTP, permissions, words); the peers are
handed its chunks in memory. Goal: at least twice the texts a second of the best of them.
Searching: 100,000 vectors below a filter of who may read; a whole HTTP request of Carrel's against a call within the
peer's own process. Goal: faster than every peer for every reader, with recall@10 >= 0.99.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.flows import flow, write_documents
from bench.ingest import texts_of
from bench.peers import loading, searching
from bench.report import report
from bench.running import run_stack
from bench.search import CHUNKS, Setting, ask, exact_documents, open_service, questions_for
from flows.operations.sources.documents import Defaults, SourceDocument
from flows.operations.sources.reading import read_source
from service.text.embedding.weights import locate

PYTHON = Path(".peers/bin/python")
HERE = Path(__file__).parent
WORDS = 180
"""Of a document: about two chunks, as an abstract has."""


def run_peer(script: str, *arguments: str) -> Any:
    """Run a script in the peers' environment, and return what it printed."""
    command = [str(PYTHON), str(HERE / script), *arguments]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare_loading(number: int) -> list[dict[str, Any]]:
    """Load the same texts by Carrel and by each peer; a row each."""
    work = Path(tempfile.mkdtemp(prefix="carrel-bench-peers-"))
    work.chmod(0o711)
    try:
        write_documents(work / "documents", number=number, length=WORDS)
        found = read_source(str(work / "documents"), defaults=Defaults())
        paths = [(Path(item.path), item.file_name) for item in found if isinstance(item, SourceDocument)]
        texts = [text for each in asyncio.run(texts_of(paths, work / "model")) for text in each]
        (work / "texts.json").write_text(json.dumps(texts))
        with run_stack(work / "data", prefect=True):
            write_documents(work / "first", number=1, length=WORDS)
            asyncio.run(flow(work / "first"))
            rates = {"Carrel": len(texts) / asyncio.run(flow(work / "documents"))}
        for peer in loading.PEERS:
            told = run_peer("loading.py", peer, str(work / "texts.json"), str(locate().weights.parent))
            rates[peer] = len(texts) / told["seconds"]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    best = max(rate for name, rate in rates.items() if name != "Carrel")
    return [
        {"who": name, "texts": len(texts), "texts/s": round(rate, 1), "of the best peer's": round(rate / best, 2)}
        for name, rate in rates.items()
    ]


async def compare_searching(chunks: int) -> list[dict[str, Any]]:
    """Search the same vectors by Carrel and by each peer; a row each."""
    random = np.random.default_rng(5)
    async with open_service(chunks) as setting:
        questions = {reader: questions_for(setting.made, setting.book, reader, random) for reader in searching.READERS}
        rows = [await _search_here(setting, mode, questions) for mode in ("SEMANTIC", "HYBRID")]
        exact = {
            reader: [exact_documents(setting.made, setting.book, reader, question) for question in asked]
            for reader, asked in questions.items()
        }
        data = await _data_for_peers(setting, questions)
        keys = [str(key) for key in setting.made.document_ids]
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, **data)
        file.flush()
        for peer in searching.PEERS:
            told = run_peer("searching.py", peer, file.name)
            row: dict[str, Any] = {"who": peer}
            for reader, seen in told.items():
                found = [[keys[number] for number in each] for each in seen["documents"]]
                row |= _columns(reader, seen["milliseconds"], found, exact[reader])
            rows.append(row)
    return rows


async def _search_here(setting: Setting, mode: str, questions: dict[str, list[str]]) -> dict[str, Any]:
    row: dict[str, Any] = {"who": f"Carrel, {mode}"}
    for reader, asked in questions.items():
        await ask(setting.client, asked[0], reader, mode)
        took, found = [], []
        for question in asked:
            began = time.perf_counter()
            found.append(await ask(setting.client, question, reader, mode))
            took.append((time.perf_counter() - began) * 1000)
        exact = [exact_documents(setting.made, setting.book, reader, question) for question in asked]
        row |= _columns(reader, took, found, exact if mode == "SEMANTIC" else None)
    return row


def _columns(reader: str, took: list[float], found: list[list[str]], exact: list[list[str]] | None) -> dict[str, Any]:
    recall: object = "-"
    if exact is not None:
        shares = (len({*one} & {*other}) / len(other) for one, other in zip(found, exact, strict=True))
        recall = round(float(np.mean([*shares])), 3)
    return {f"{reader} p50 ms": round(float(np.median(took)), 1), f"{reader} recall": recall}


async def _data_for_peers(setting: Setting, questions: dict[str, list[str]]) -> dict[str, Any]:
    """Return the vectors, whose they are, and what each reader may read and asks."""
    made = setting.made
    rows = await (await setting.owner.execute("SELECT object_id, access_class FROM resources")).fetchall()
    class_of = dict(rows)
    of_document = np.array([class_of[key] for key in made.document_ids])
    data: dict[str, Any] = {
        "vectors": made.vectors,
        "document": made.of_document,
        "access_class": of_document[made.of_document],
    }
    for reader, asked in questions.items():
        data[f"{reader}_classes"] = np.unique(of_document[made.readable[reader]])
        data[f"{reader}_questions"] = np.stack([setting.book.vectors[question] for question in asked])
    return data


def main() -> None:
    """Measure, print, and write bench/results/peers-loading.json and bench/results/peers-searching.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    arguments = parser.parse_args()
    report("peers-loading", compare_loading(arguments.documents))
    report("peers-searching", asyncio.run(compare_searching(arguments.chunks)))


if __name__ == "__main__":
    main()
