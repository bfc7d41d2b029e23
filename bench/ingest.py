"""How close ingestion comes to the embedding runtime alone, and how fast an unchanged folder is checked.

First the files' chunks are embedded by the local model in this process, with nothing around it. Then a Prefect flow
uploads the same files over HTTP to a service of its own: uploaded, extracted, chunked, embedded, indexed, searchable.
Goal: at least 0.90 of the chunks a second. Then the same folder again: nothing is sent, and at least 5,000 documents
a second are checked. Run: `python -m bench.ingest [--folder DIR | --documents 60]`.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from bench.flows import flow, write_documents
from bench.report import report
from bench.running import running_stack
from flows.operations.bulk import upload
from flows.operations.documents import Defaults, SourceDocument
from flows.operations.options import UploadOptions
from flows.operations.sources import read_source
from flows.settings import FlowSettings
from service.chunking import chunk_blocks
from service.embedding.local import LocalEmbedder
from service.errors import ServiceError
from service.extraction import Extractor


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


async def bare_embedding(paths: list[tuple[Path, str]], model_folder: Path) -> tuple[int, float]:
    """Embed every chunk with the model alone; return how many chunks there were and the seconds it took."""
    embedder = await LocalEmbedder.open(model_folder)
    try:
        texts = await chunk_texts(paths, embedder)
        await embedder.embed(texts[0][:1])
        queue = iter(texts)
        began = time.perf_counter()

        async def work() -> None:
            for chunks in queue:
                await embedder.embed(chunks)

        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(work())
        return sum(map(len, texts)), time.perf_counter() - began
    finally:
        await embedder.close()


async def check_again(root: Path, *, settings: FlowSettings) -> tuple[int, int, float]:
    """Go over the unchanged folder; return documents, bytes sent, and the seconds it took."""
    outcome = await upload(str(root), options=UploadOptions(), settings=settings)
    return outcome.summary.documents, outcome.summary.sent_bytes, outcome.seconds


def main() -> None:
    """Measure, print, and write bench/results/ingest.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="files to use instead of made ones")
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--words", type=int, default=600, help="words a made document has")
    parser.add_argument("--checked", type=int, default=2000, help="small documents for the second measurement")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="carrel-bench-ingest-"))
    work.chmod(0o711)
    try:
        root = arguments.folder or work / "documents"
        if arguments.folder is None:
            write_documents(root, number=arguments.documents, length=arguments.words)
        found = [item for item in read_source(str(root), defaults=Defaults()) if isinstance(item, SourceDocument)]
        chunks, bare = asyncio.run(bare_embedding([(item.path, item.file_name) for item in found], work / "model"))
        small = work / "small"
        write_documents(small, number=arguments.checked, length=8)
        with running_stack(work / "service", prefect=True) as stack:
            through = asyncio.run(flow(root))
            asyncio.run(upload(str(small), options=UploadOptions(), settings=stack.settings))
            checked, sent, again = asyncio.run(check_again(small, settings=stack.settings))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report(
        "ingest",
        [
            {"what": "documents", "value": len(found), "goal": ""},
            {"what": "chunks", "value": chunks, "goal": ""},
            {"what": "bare embedding, chunks/s", "value": round(chunks / bare, 1), "goal": ""},
            {"what": "flow and HTTP, chunks/s", "value": round(chunks / through, 1), "goal": ""},
            {"what": "flow and HTTP / bare", "value": round(bare / through, 3), "goal": ">= 0.90"},
            {"what": f"unchanged folder of {checked}, bytes sent", "value": sent, "goal": "0"},
            {"what": "unchanged folder, documents/s", "value": round(checked / again), "goal": ">= 5000"},
        ],
    )


if __name__ == "__main__":
    main()
