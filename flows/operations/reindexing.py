"""Indexing a collection's documents again: those whose contents have changed since, or all of them.

Nothing is kept between runs: what an earlier run has done isn't stale any more, and what is as it was costs no
embedding. To change the embedding model is another thing (flows.operations.rebuilding).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from carrel import AsyncCarrel
from carrel.errors import APIError, ConflictError, NotFoundError
from carrel.wire.collections import CollectionIndexStatus, DocumentInCollection, ListDocumentsInCollectionResponse
from flows.operations.apply import run_workers
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.names import names_of
from flows.operations.options import ReindexOptions
from flows.operations.outages import OutagePolicy
from flows.operations.run_reports import report_run
from flows.settings import FlowSettings

SHOWN_FAILURES = 200
_FIRST_PAUSE, _LONGEST_PAUSE, _SLOWER = 0.5, 10.0, 1.5
_BY_CALLERS = "caller_chunks"


@dataclass
class Reindexed:
    """Counts of the documents indexed again so far; `failures` are the first that could not be."""

    documents: int = 0
    wanted: int = 0
    reindexed: int = 0
    running: int = 0
    failed: int = 0
    chunks: int = 0
    embedded: int = 0
    left: Counter[str] = field(default_factory=Counter[str])
    failures: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @property
    def has_problems(self) -> bool:
        """Whether some documents could not be indexed again."""
        return self.failed > 0

    def text(self) -> str:
        """Return the counts in one line, for people."""
        left = f", {self.left[_BY_CALLERS]} left, whose chunks callers made" if self.left[_BY_CALLERS] else ""
        return (
            f"{self.documents} documents: {self.reindexed} indexed again ({self.embedded} of {self.chunks} chunks"
            f" embedded), {self.documents - self.wanted} as they were, {self.running} still being indexed{left};"
            f" {self.failed} failed"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON members."""
        return {
            "documents": self.documents,
            "wanted": self.wanted,
            "reindexed": self.reindexed,
            "running": self.running,
            "failed": self.failed,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "leftToCallers": self.left[_BY_CALLERS],
        }


OnUpdate = Callable[[Reindexed], Awaitable[None]]


async def reindex_documents(
    collection: str, *, options: ReindexOptions, settings: FlowSettings, on_update: OnUpdate | None = None
) -> Reindexed:
    """Index again the stale documents of a collection (its name or id), or all, that the caller may READ.

    A document that can't be indexed is a row of `failures`, and doesn't stop the others. Raises NameUnknownError,
    RefusedError, ServiceDownError.
    """
    async with report_run(settings, flow="reindex", source=collection) as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        collection_id = await names_of(client, outages=outages).id_of("collection", collection)
        report.has_begun = True
        work = _Reindexing(client, outages, collection_id, options, on_update)
        done = await work.run(settings.flows_concurrency)
        report.take_problems(found=done.has_problems)
        return done


@dataclass
class _Reindexing:
    client: AsyncCarrel
    outages: OutagePolicy
    collection_id: str
    options: ReindexOptions
    on_update: OnUpdate | None
    done: Reindexed = field(default_factory=Reindexed)
    pending: list[DocumentInCollection] = field(default_factory=list[DocumentInCollection])

    async def run(self, workers: int) -> Reindexed:
        """List the collection once while `workers` send its documents."""
        async with aclosing(self._select_stale()) as queue:
            turn = asyncio.Lock()

            async def work() -> None:
                while True:
                    async with turn:
                        document = await anext(queue, None)
                    if document is None:
                        return
                    await self._send(document)
                    await self._report()

            await run_workers(work, number=workers)
        if self.options.wait_for_end:
            await self._wait()
        self.done.running = len(self.pending)
        await self._report()
        return self.done

    async def _select_stale(self) -> AsyncGenerator[DocumentInCollection]:
        """Yield the documents to index again; a page that failed during an outage is fetched again."""
        token: str | None = None
        while True:
            page = await self.outages.call(lambda: self._page(token))  # noqa: B023 - called before the next round
            for document in page.documents:
                self.done.documents += 1
                if document.stale or self.options.everything:
                    self.done.wanted += 1
                    yield document
            token = page.next_page_token
            if token is None:
                return

    async def _page(self, token: str | None) -> ListDocumentsInCollectionResponse:
        listed = self.client.document_collections.list_documents_in_collection(
            self.collection_id, page_size=1000, page_token=token
        )
        return await anext(listed.pages())

    async def _send(self, document: DocumentInCollection) -> None:
        collections = self.client.document_collections
        try:
            answer = await self.outages.call(
                lambda: collections.reindex_document_in_collection(
                    document_id=document.document_id, document_collection_id=self.collection_id
                )
            )
        except NotFoundError:
            self.done.wanted -= 1  # gone since it was listed
            self.done.documents -= 1
        except ConflictError as exc:
            if exc.code == _BY_CALLERS and not document.stale:
                self.done.left[_BY_CALLERS] += 1
            else:
                self._note_failure(document, exc.code or "conflict", str(exc))
        except APIError as exc:
            self._note_failure(document, exc.code or "error", str(exc))
        else:
            self._count(document, answer.status, answer.chunk_count, answer.embedded_chunk_count)

    def _count(self, document: DocumentInCollection, status: str, chunks: int, embedded: int) -> None:
        if status == CollectionIndexStatus.RUNNING:
            self.pending.append(document)
            self.done.running = len(self.pending)
            return
        self.done.reindexed += 1
        self.done.chunks += chunks
        self.done.embedded += embedded

    def _note_failure(self, document: DocumentInCollection, code: str, reason: str) -> None:
        self.done.failed += 1
        if len(self.done.failures) < SHOWN_FAILURES:
            name = document.document_external_id
            self.done.failures.append({"place": name, "document": name, "code": code, "reason": reason})

    async def _wait(self) -> None:
        """Wait for documents that take long until they are indexed, or have failed."""
        pause = _FIRST_PAUSE
        while self.pending:
            await asyncio.sleep(pause)
            pause = min(pause * _SLOWER, _LONGEST_PAUSE)
            self.pending = [each for each in self.pending if await self._still_runs(each)]
            self.done.running = len(self.pending)
            await self._report()

    async def _still_runs(self, document: DocumentInCollection) -> bool:
        try:
            found = await self.outages.call(lambda: self.client.catalog.get_document(document.document_id))
        except NotFoundError:
            return False
        here = [each for each in found.indexed_in if str(each.document_collection_id) == self.collection_id]
        if not here:
            return False
        if here[0].status == "FAILED":
            self._note_failure(document, "indexing_failed", here[0].error or "It could not be indexed.")
            return False
        if here[0].status == "RUNNING":
            return True
        self.done.reindexed += 1
        self.done.chunks += here[0].chunk_count
        return False

    async def _report(self) -> None:
        if self.on_update is not None:
            await self.on_update(self.done)
