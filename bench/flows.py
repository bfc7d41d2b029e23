"""What Prefect costs: a bulk upload as a flow, beside the same SDK loop without Prefect.

Both send the same number of small documents, several at a time, with the same client; each to a service of its own on
an empty data folder. Goal: the flow takes at most 1.15 times as long. Then the flow runs again over its unchanged
folder. Run: `python -m bench.flows [--documents 5000]`.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.report import report
from bench.running import Stack, run_stack, words
from carrel import AsyncCarrel
from flows.settings import FlowSettings


def write_documents(folder: Path, *, number: int, length: int) -> list[Path]:
    """Make so many Markdown files of about `length` words each."""
    paths = [folder / f"{index // 100:03}" / f"{index:06}.md" for index in range(number)]
    for index, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Document {index}\n\n{words(length, seed=index + 1)}\n")
    return paths


async def sdk_loop(paths: list[Path], root: Path, settings: FlowSettings) -> None:
    """Upload the files with nothing but the SDK, as many at a time as a flow does."""
    queue = iter(paths)

    async def work(client: AsyncCarrel, queue: Iterator[Path]) -> None:
        for path in queue:
            await client.catalog.upload_file(path, document_external_id=str(path.relative_to(root)))

    async with AsyncCarrel() as client, asyncio.TaskGroup() as group:
        for _ in range(settings.flows_concurrency):
            group.create_task(work(client, queue))


async def flow(root: Path) -> float:
    """Run the flow over the folder and return how many seconds it took."""
    from flows.bulk_upload import bulk_upload  # noqa: PLC0415 - Prefect reads its settings when imported

    began = time.perf_counter()
    await bulk_upload(str(root))
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and write bench/results/flows.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--words", type=int, default=20, help="words a document has")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="carrel-bench-flows-"))
    work.chmod(0o711)
    try:
        root = work / "documents"
        paths = write_documents(root, number=arguments.documents, length=arguments.words)
        with run_stack(work / "sdk", prefect=False) as stack:
            began, used = time.perf_counter(), stack.cpu_seconds()
            asyncio.run(sdk_loop(paths, root, stack.settings))
            bare, bare_cpu = time.perf_counter() - began, count_cpu_seconds(stack, used)
        with run_stack(work / "flow", prefect=True) as stack:
            orchestrated, again, flow_cpu = asyncio.run(both(root, stack))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    number = arguments.documents
    report(
        "flows",
        [
            {"what": f"SDK loop, {number} documents, seconds", "value": round(bare, 2), "goal": ""},
            {"what": "Prefect flow, seconds", "value": round(orchestrated, 2), "goal": ""},
            {"what": "flow / SDK loop", "value": round(orchestrated / bare, 3), "goal": "<= 1.15"},
            {"what": "processor seconds of all, flow / loop", "value": _ratio(flow_cpu, bare_cpu), "goal": ""},
            *_each("loop", bare_cpu, number),
            *_each("flow", flow_cpu, number),
            {"what": "flow again, unchanged, documents/s", "value": round(number / again), "goal": ""},
        ],
    )


async def both(root: Path, stack: Stack) -> tuple[float, float, dict[str, float]]:
    """Run the flow twice; return the seconds of each, and the processor seconds of the first."""
    used = stack.cpu_seconds()
    first = await flow(root)
    effort = count_cpu_seconds(stack, used)
    return first, await flow(root), effort


def count_cpu_seconds(stack: Stack, before: dict[str, float]) -> dict[str, float]:
    """Return the processor seconds that each process has used since `before` (Stack.cpu_seconds)."""
    return {name: seconds - before[name] for name, seconds in stack.cpu_seconds().items()}


def _ratio(flow_cpu: dict[str, float], bare_cpu: dict[str, float]) -> float:
    return round(sum(flow_cpu.values()) / sum(bare_cpu.values()), 3)


def _each(how: str, effort: dict[str, float], number: int) -> list[dict[str, object]]:
    return [
        {"what": f"processor ms a document, {name}: {how}", "value": round(seconds / number * 1000, 2), "goal": ""}
        for name, seconds in effort.items()
    ]


if __name__ == "__main__":
    main()
