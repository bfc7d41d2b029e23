"""How near the embedder comes to bare onnxruntime on the same texts and cores: `python -m bench.embedding`.

Both embed the same made-up texts, of lengths as chunks and queries have them, in turns, and the ratio of each turn is
what counts: machines are shared and noisy. Both precisions take part in each turn, so that they can be compared, too;
`cosine` is the mean of their vectors to those of fp32. Bare onnxruntime gets its texts tokenized, sorted by length and
batched beforehand, and runs them on as many threads; the embedder gets strings, one call a document of twelve chunks.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.report import report
from service.text.embedding.batching import BatchLimits
from service.text.embedding.local import Engine, LocalEmbedder, Session
from service.text.embedding.models import WordPieces
from service.text.embedding.prepared import Precision, prepare
from service.text.embedding.weights import locate

DOCUMENT = 12
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
WORDS = "harbour ferry crew passenger ticket winter schedule engine safety report island captain cargo weather".split()  # noqa: SIM905


def make_texts(count: int) -> list[str]:
    """Make texts up: most of about 150 words, some short."""
    seed = random.Random(0)  # noqa: S311 - nothing secret
    return [" ".join(seed.choices(WORDS, k=min(240, max(4, int(seed.gauss(150, 60)))))) for _ in range(count)]


def batches(ids: list[NDArray[np.int64]], limits: BatchLimits) -> list[list[NDArray[np.int64]]]:
    """Sort by length and cut into batches, as the embedder would if it knew everything beforehand."""
    made: list[list[NDArray[np.int64]]] = [[]]
    for text in sorted(ids, key=len, reverse=True):
        longest = len(made[-1][0]) if made[-1] else len(text)
        if len(made[-1]) >= max(1, min(limits.texts, limits.tokens // longest)):
            made.append([])
        made[-1].append(text)
    return made


def bare(session: Session, made: list[list[NDArray[np.int64]]], threads: int) -> float:
    """Run the batches on so many threads; returns the seconds it takes."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(session.run, made))
    return time.perf_counter() - started


async def ours(embedder: LocalEmbedder, texts: list[str]) -> float:
    """Embed document by document, all at once; returns the seconds it takes."""
    started = time.perf_counter()
    documents = [texts[start : start + DOCUMENT] for start in range(0, len(texts), DOCUMENT)]
    await asyncio.gather(*(embedder.embed(document) for document in documents))
    return time.perf_counter() - started


async def compare(folder: Path, *, threads: int, count: int, turns: int) -> list[dict[str, object]]:
    """Measure both precisions in turns; a row each, with texts a second (the best turn) and the ratios' medians."""
    files, texts = locate(), make_texts(count)
    ids = WordPieces(files.tokenizer).token_ids(texts)
    sessions = {precision: Session(prepare(folder, precision, files=files)) for precision in PRECISIONS}
    made = {
        precision: batches(ids, BatchLimits(texts=1) if precision == "int8" else BatchLimits())
        for precision in PRECISIONS
    }
    embedders = {
        precision: await LocalEmbedder.open(
            folder, precision=precision, arithmetic=Engine.open(folder, precision=precision, threads=threads)
        )
        for precision in PRECISIONS
    }
    vectors = {precision: await embedder.embed(texts) for precision, embedder in embedders.items()}
    seconds: dict[Precision, list[tuple[float, float]]] = {precision: [] for precision in PRECISIONS}
    for _ in range(turns):
        for precision in PRECISIONS:
            alone = bare(sessions[precision], made[precision], threads)
            seconds[precision].append((alone, await ours(embedders[precision], texts)))
    for embedder in embedders.values():
        await embedder.close()
    return [
        {
            "precision": precision,
            "threads": threads,
            "bare_texts_per_second": round(count / min(pair[0] for pair in pairs), 1),
            "ours_texts_per_second": round(count / min(pair[1] for pair in pairs), 1),
            "ratio": round(statistics.median(pair[0] / pair[1] for pair in pairs), 3),
            "of_fp32": round(
                statistics.median(exact[1] / pair[1] for exact, pair in zip(seconds["fp32"], pairs, strict=True)), 2
            ),
            "cosine": round(float((vectors[precision] * vectors["fp32"]).sum(axis=1).mean()), 4),
        }
        for precision, pairs in seconds.items()
    ]


async def query_waits(folder: Path, *, threads: int) -> dict[str, object]:
    """Measure a query alone and while a long document is embedded, in milliseconds (medians)."""
    engine = Engine.open(folder, precision="int8", threads=threads)
    embedder = await LocalEmbedder.open(folder, precision="int8", arithmetic=engine)

    async def milliseconds() -> float:
        started = time.perf_counter()
        await embedder.embed(["when does the first ferry leave in winter"])
        return 1000 * (time.perf_counter() - started)

    alone = [await milliseconds() for _ in range(30)]
    document = asyncio.create_task(embedder.embed(make_texts(2000)))
    await asyncio.sleep(1)
    beside: list[float] = []
    for _ in range(30):
        beside.append(await milliseconds())
        await asyncio.sleep(0.02)
    document.cancel()
    await asyncio.gather(document, return_exceptions=True)
    await embedder.close()
    return {
        "query_alone_ms": round(statistics.median(alone), 1),
        "beside_document_ms": round(statistics.median(beside), 1),
    }


async def main() -> None:
    """Report each precision on one core and on all, then how long a query waits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=240)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for threads in sorted({1, cores})
            for row in await compare(Path(folder), threads=threads, count=options.texts, turns=options.turns)
        ]
        report("embedding", rows)
        report("embedding-wait", [await query_waits(Path(folder), threads=cores)])


if __name__ == "__main__":
    asyncio.run(main())
