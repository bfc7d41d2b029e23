"""What the SDK costs above bare httpx: CPU of this process for the same calls, as ratios within one run.

A server in another process gives canned answers. Bare httpx does what a careful caller would without the SDK: one
client, `post(json=…)` or `post(files=…)`, `.json()`. Goal: at most 1.2. Run: `python -m bench.client`.
"""

import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from bench.report import report
from carrel import AsyncCarrel, Carrel

ROUNDS = 15
GOAL = 1.2
KEY = "svc_key_of_the_benchmark_0123456789abcdef"
ID = "0190c1c0-0000-7000-8000-000000000001"
AT = "2026-01-31T09:30:00.123456Z"

DOCUMENT = {
    "documentId": ID,
    "documentName": "Travel",
    "documentExternalId": "travel",
    "resource": {"resourceId": ID, "resourceType": "UPLOADED_DOCUMENT"},
    "owner": {"type": "user", "email": "ada@example.com", "id": ID, "name": "Ada"},
    "documentVersion": 2,
    "fileName": "travel.md",
    "fileSize": 12,
    "mediaType": "text/markdown",
    "customMetadata": {"team": "ops", "year": "2026"},
    "createdAt": AT,
    "updatedAt": AT,
}
RESULT = {
    "documentId": ID,
    "documentName": "Travel",
    "documentExternalId": "travel",
    "resource": {"resourceId": ID, "resourceType": "UPLOADED_DOCUMENT"},
    "score": 0.9,
    "snippet": {"text": "Book the night train to Vienna. " * 8, "matches": [{"start": 9, "end": 14}]},
    "customMetadata": {"team": "ops"},
    "updatedAt": AT,
}
ANSWERS: dict[str, object] = {
    "catalog/getDocument": {**DOCUMENT, "versions": [], "indexedIn": []},
    "catalog/listDocuments": {"documents": [DOCUMENT] * 100},
    "catalog/uploadFile": {"documentId": ID, "documentVersion": 1, "status": "CREATED", "indexing": "DONE"},
    "search/searchDocumentCatalog": {"searchId": ID, "results": [RESULT] * 10},
}


def serve(ready: Connection) -> None:
    """Answer every request by its path, as cheaply as can be; tell the port through `ready`."""
    answers = {path: _prepare_answer(answer) for path, answer in ANSWERS.items()}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(line for line in head.split("\r\n") if line.lower().startswith("content-length"))
                await reader.readexactly(int(length.partition(":")[2]))
                writer.write(answers[head.split(" ", 2)[1].removeprefix("/api/v0/")])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _prepare_answer(answer: object) -> bytes:
    body = json.dumps(answer, separators=(",", ":")).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass(frozen=True)
class Case:
    """The same call through the SDK and through bare httpx; both return something, or an awaitable of it."""

    what: str
    calls: int
    through_sdk: Callable[[Any], Any]
    bare: Callable[[Any], Any]


def cases(file: Path) -> list[Case]:
    """Return the calls that are compared: of each, as many as take a noticeable time."""
    search = {"searchQuery": "night train", "searchOptions": {"maxResults": 10}}
    listing = {"pageSize": 100}
    parts = {"documentExternalId": "travel", "customMetadata": '{"team": "ops"}'}

    def upload(http: Any) -> Any:
        return http.post("catalog/uploadFile", data=parts, files={"file": (file.name, file.read_bytes())})

    return [
        Case(
            "get a document",
            300,
            lambda client: client.catalog.get_document(ID),
            lambda http: http.post("catalog/getDocument", json={"documentId": ID}),
        ),
        Case(
            "search, 10 results",
            300,
            lambda client: client.search.search_document_catalog("night train"),
            lambda http: http.post("search/searchDocumentCatalog", json=search),
        ),
        Case(
            "a page of 100 documents",
            100,
            lambda client: client.catalog.with_raw_response.list_documents(),
            lambda http: http.post("catalog/listDocuments", json=listing),
        ),
        Case(
            f"upload {file.stat().st_size // 1024} KiB",
            150,
            lambda client: client.catalog.upload_file(
                file, document_external_id="travel", custom_metadata={"team": "ops"}
            ),
            upload,
        ),
    ]


def cpu_seconds(work: Callable[[], Any], calls: int) -> float:
    """Return the CPU seconds this process takes for so many calls."""
    began = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - began


async def cpu_seconds_async(work: Callable[[], Awaitable[Any]], calls: int) -> float:
    """Return the CPU seconds this process takes for so many awaited calls."""
    began = time.process_time()
    for _ in range(calls):
        await work()
    return time.process_time() - began


def compare(case: Case, base_url: str) -> list[tuple[float, float]]:
    """Return (SDK, bare) CPU seconds of each round, blocking."""
    headers = {"Authorization": f"Bearer {KEY}"}
    with Carrel(KEY, base_url) as client, httpx.Client(base_url=f"{base_url}/api/v0/", headers=headers) as http:
        case.through_sdk(client), case.bare(http)
        return [
            (
                cpu_seconds(lambda: case.through_sdk(client), case.calls),
                cpu_seconds(lambda: case.bare(http).json(), case.calls),
            )
            for _ in range(ROUNDS)
        ]


async def compare_async(case: Case, base_url: str) -> list[tuple[float, float]]:
    """Return (SDK, bare) CPU seconds of each round, awaited."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        AsyncCarrel(KEY, base_url) as client,
        httpx.AsyncClient(base_url=f"{base_url}/api/v0/", headers=headers) as http,
    ):

        async def bare() -> Any:
            return (await case.bare(http)).json()

        await case.through_sdk(client), await bare()
        return [
            (
                await cpu_seconds_async(lambda: case.through_sdk(client), case.calls),
                await cpu_seconds_async(bare, case.calls),
            )
            for _ in range(ROUNDS)
        ]


def row(what: str, mode: str, *, case: Case, rounds: list[tuple[float, float]]) -> dict[str, object]:
    """Return a line of the table: microseconds a call, and the median ratio."""
    sdk, bare = (statistics.median(column) / case.calls * 1e6 for column in zip(*rounds, strict=True))
    ratio = statistics.median(ours / theirs for ours, theirs in rounds)
    return {
        "what": what,
        "mode": mode,
        "SDK µs": round(sdk),
        "httpx µs": round(bare),
        "ratio": round(ratio, 2),
        "goal": f"<= {GOAL}",
    }


def main() -> None:
    """Measure, print, and write bench/results/client.json."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    base_url = f"http://127.0.0.1:{here.recv()}"
    rows: list[dict[str, object]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="carrel-bench-client-") as folder:
            file = Path(folder) / "travel.md"
            file.write_bytes(b"Book the night train. " * 3000)
            for case in cases(file):
                rows.append(row(case.what, "sync", case=case, rounds=compare(case, base_url)))
                rows.append(row(case.what, "async", case=case, rounds=asyncio.run(compare_async(case, base_url))))
    finally:
        server.terminate()
        server.join()
    report("client", rows)


if __name__ == "__main__":
    main()
