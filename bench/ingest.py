"""How close ingestion comes to the embedding runtime alone, and how fast an unchanged folder is checked.

First the files' chunks are embedded by the local model in this process, with nothing around it: by the same batches on
the same threads as in the service, as many documents at a time. Then a Prefect flow uploads the same files over HTTP to
a service of its own; it ends when all of them are searchable. One document has gone before, since the first flow of a
process imports Prefect, as the model has been loaded before it is measured. Then the model alone once more, because
other work on a shared machine comes and goes. Goal: at least 0.90 of the chunks a second. The same in processor time,
which other work disturbs less: the model's alone, by everything's (client, service, PostgreSQL, Prefect).

Then a folder of small documents twice: nothing is sent the second time, and at least 10,000 a second are checked.
Run: `python -m bench.ingest [--folder DIR | --documents 200]`.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.flows import count_cpu_seconds, flow, write_documents
from bench.report import report
from bench.running import Stack, run_stack
from flows.operations.loading import upload
from flows.operations.options import UploadOptions
from flows.operations.sources.documents import Defaults, SourceDocument
from flows.operations.sources.reading import read_source
from flows.settings import FlowSettings
from service.platform.errors import ServiceError
from service.text.chunking import chunk_blocks
from service.text.embedding.local import LocalEmbedder
from service.text.reading import Extractor


async def chunk_texts(paths: list[tuple[Path, str]], embedder: LocalEmbedder) -> list[list[str]]:
    """Return the texts that are embedded of each file, as the service makes them; unreadable files have none."""
    extractor = Extractor(workers=2, seconds=60, memory_bytes=2**30)
    texts: list[list[str]] = []
    try:
        for path, name in paths:
            try:
                extraction = await extractor.extract(path, file_name=name)
            except ServiceError:
                continue
            chunks = chunk_blocks(extraction.blocks, title=name, tokenizer=embedder.tokenizer)
            texts.append([chunk.dense_text for chunk in chunks])
    finally:
        extractor.close()
    return texts


@dataclass(frozen=True)
class Effort:
    """What embedding took: seconds by the clock, and of processors."""

    seconds: float
    processor: float


async def texts_of(paths: list[tuple[Path, str]], model_folder: Path) -> list[list[str]]:
    """Return the texts of each file that is readable."""
    embedder = await LocalEmbedder.open(model_folder, precision="int8")
    try:
        return await chunk_texts(paths, embedder)
    finally:
        await embedder.close()


async def bare_embedding(texts: list[list[str]], model_folder: Path) -> Effort:
    """Embed every chunk with the model alone, as many documents at a time as a flow sends."""
    embedder = await LocalEmbedder.open(model_folder, precision="int8")
    try:
        await asyncio.gather(*(embedder.embed(chunks[:1]) for chunks in texts[:4]))
        queue = iter(texts)
        began, used = time.perf_counter(), time.process_time()

        async def work() -> None:
            for chunks in queue:
                await embedder.embed(chunks)

        async with asyncio.TaskGroup() as group:
            for _ in range(FlowSettings().flows_concurrency):
                group.create_task(work())
        return Effort(time.perf_counter() - began, time.process_time() - used)
    finally:
        await embedder.close()


async def through_flow(root: Path, stack: Stack) -> tuple[float, dict[str, float]]:
    """Upload the folder by the flow; return the seconds it took, and the processor seconds of each process."""
    used = stack.cpu_seconds()
    seconds = await flow(root)
    return seconds, count_cpu_seconds(stack, used)


async def check_again(root: Path, *, settings: FlowSettings) -> tuple[int, int, float]:
    """Go over the unchanged folder; return documents, bytes sent, and the seconds it took."""
    outcome = await upload(str(root), options=UploadOptions(), settings=settings)
    return outcome.summary.documents, outcome.summary.sent_bytes, outcome.seconds


def main() -> None:
    """Measure, print, and write bench/results/ingest.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="files to use instead of made ones")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--words", type=int, default=600, help="words a made document has")
    parser.add_argument("--checked", type=int, default=5000, help="small documents for the second measurement")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="carrel-bench-ingest-"))
    work.chmod(0o711)
    try:
        root = arguments.folder or work / "documents"
        if arguments.folder is None:
            write_documents(root, number=arguments.documents, length=arguments.words)
        found = [item for item in read_source(str(root), defaults=Defaults()) if isinstance(item, SourceDocument)]
        texts = asyncio.run(texts_of([(Path(item.path), item.file_name) for item in found], work / "model"))
        before = asyncio.run(bare_embedding(texts, work / "model"))
        small = work / "small"
        write_documents(small, number=arguments.checked, length=8)
        one = work / "one"
        write_documents(one, number=1, length=8)
        with run_stack(work / "service", prefect=True) as stack:
            asyncio.run(flow(one))
            through, used = asyncio.run(through_flow(root, stack))
            asyncio.run(upload(str(small), options=UploadOptions(), settings=stack.settings))
            checked, sent, again = asyncio.run(check_again(small, settings=stack.settings))
        after = asyncio.run(bare_embedding(texts, work / "model"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    chunks, bare = sum(map(len, texts)), (before.seconds + after.seconds) / 2
    bare_used = (before.processor + after.processor) / 2
    all_used = sum(used.values())
    report(
        "ingest",
        [
            {"what": "documents", "value": len(found), "goal": ""},
            {"what": "chunks", "value": chunks, "goal": ""},
            {"what": "bare embedding, chunks/s", "value": round(chunks / bare, 1), "goal": ""},
            {"what": "flow and HTTP, chunks/s", "value": round(chunks / through, 1), "goal": ""},
            {"what": "flow and HTTP / bare", "value": round(bare / through, 3), "goal": ">= 0.90"},
            {"what": "processor time, bare / flow and HTTP", "value": round(bare_used / all_used, 3), "goal": ""},
            *(
                {"what": f"processor ms a chunk, {name}", "value": round(seconds / chunks * 1000, 2), "goal": ""}
                for name, seconds in {"bare embedding": bare_used, **used}.items()
            ),
            {"what": f"unchanged folder of {checked}, bytes sent", "value": sent, "goal": "0"},
            {"what": "unchanged folder, documents/s", "value": round(checked / again), "goal": ">= 10000"},
        ],
    )


if __name__ == "__main__":
    main()
