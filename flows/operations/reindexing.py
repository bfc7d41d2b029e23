"""Indexing documents again: stale documents, a whole collection, or an index with another model; keeps no state."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from carrel import AsyncCarrel
from carrel.errors import APIError, BadRequestError, ConflictError, NotFoundError
from carrel.wire.collections import CollectionIndexStatus, DocumentInCollection
from carrel.wire.rebuilds import IndexRebuild, IndexRebuildStatus
from flows.errors import NameUnknownError, SourceBusyError, SourceError
from flows.operations.formatting import failure_row
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.names import Names
from flows.operations.options import CATALOG, ReindexOptions
from flows.operations.outages import OutagePolicy, growing_pauses, poll, read_first_page, walk_pages
from flows.operations.reporting import report_run
from flows.operations.sending import run_workers
from flows.settings import FlowSettings

SHOWN_FAILURES = 200
_BY_CALLERS = "caller_chunks"


@dataclass
class Reindexed:
    """Counts of the documents indexed again so far; `failures` are the first failed documents."""

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
        return self.failed > 0

    def text(self) -> str:
        left = f", {self.left[_BY_CALLERS]} skipped, whose chunks callers made" if self.left[_BY_CALLERS] else ""
        return (
            f"{self.documents} documents: {self.reindexed} re-indexed ({self.embedded} of {self.chunks} "
            f"chunks embedded), {self.documents - self.wanted} unchanged, {self.running} still being "
            f"indexed{left}; {self.failed} failed"
        )

    def as_json(self) -> dict[str, Any]:
        names = ("documents", "wanted", "reindexed", "running", "failed", "chunks", "embedded")
        return {name: getattr(self, name) for name in names} | {"leftToCallers": self.left[_BY_CALLERS]}


OnReindexed = Callable[[Reindexed], Awaitable[None]]


async def reindex_documents(
    collection: str, *, options: ReindexOptions, settings: FlowSettings, on_update: OnReindexed | None = None
) -> Reindexed:
    """Index a collection's stale documents again, or all; failed documents are in the result. Raises FlowErrors."""
    async with report_run(settings, flow="reindex", source=collection) as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        collection_id = await Names(client, outages=outages).id_of("collection", collection)
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
    on_update: OnReindexed | None
    done: Reindexed = field(default_factory=Reindexed)
    pending: list[DocumentInCollection] = field(default_factory=list[DocumentInCollection])

    async def run(self, workers: int) -> Reindexed:
        async with aclosing(self._select_wanted()) as queue:
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
        await self._report()
        return self.done

    async def _select_wanted(self) -> AsyncGenerator[DocumentInCollection]:
        """Yield the stale documents, or all by the options; count the documents."""
        listed = self.client.document_collections.list_documents_in_collection
        list_from = partial(listed, self.collection_id, page_size=1000)
        async for page in walk_pages(self.outages, lambda token: list_from(page_token=token)):
            for document in page.documents:
                self.done.documents += 1
                if document.stale or self.options.everything:
                    self.done.wanted += 1
                    yield document

    async def _send(self, document: DocumentInCollection) -> None:
        reindex = self.client.document_collections.reindex_document_in_collection
        send = partial(reindex, document_id=document.document_id, document_collection_id=self.collection_id)
        try:
            answer = await self.outages.call(send)
        except NotFoundError:
            self.done.wanted -= 1  # deleted since it was listed
            self.done.documents -= 1
        except ConflictError as exc:
            if exc.code == _BY_CALLERS and not document.stale:
                self.done.left[_BY_CALLERS] += 1
            else:
                self._note_failure(document, exc.code or "conflict", str(exc))
        except APIError as exc:
            self._note_failure(document, exc.code or "error", str(exc))
        else:
            if answer.status == CollectionIndexStatus.RUNNING:
                self.pending.append(document)
            else:
                self.done.reindexed += 1
                self.done.chunks += answer.chunk_count
                self.done.embedded += answer.embedded_chunk_count

    def _note_failure(self, document: DocumentInCollection, code: str, reason: str) -> None:
        self.done.failed += 1
        if len(self.done.failures) < SHOWN_FAILURES:
            name = document.document_external_id
            self.done.failures.append(failure_row(name, name, code, reason))

    async def _wait(self) -> None:
        pauses = growing_pauses(0.5, factor=1.5, longest=10.0)
        while self.pending:
            await asyncio.sleep(next(pauses))
            self.pending = [each for each in self.pending if await self._check_running(each)]
            await self._report()

    async def _check_running(self, document: DocumentInCollection) -> bool:
        """Return whether a document is still being indexed; else count its result, or leave it out if it is gone."""
        try:
            found = await self.outages.call(lambda: self.client.catalog.get_document(document.document_id))
            places = found.indexed_in
        except NotFoundError:
            places = []
        here = [each for each in places if str(each.document_collection_id) == self.collection_id]
        if not here:
            self.done.wanted -= 1  # deleted, or removed from the collection, since it was sent
            self.done.documents -= 1
            return False
        if here[0].status == "FAILED":
            self._note_failure(document, "indexing_failed", here[0].error or "The document could not be indexed.")
            return False
        if here[0].status == "RUNNING":
            return True
        self.done.reindexed += 1
        self.done.chunks += here[0].chunk_count
        return False

    async def _report(self) -> None:
        self.done.running = len(self.pending)
        if self.on_update is not None:
            await self.on_update(self.done)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild, or its state without waiting; None: the index already uses the model."""

    rebuild: IndexRebuild | None
    failures: Sequence[Mapping[str, str]] = ()

    @property
    def is_done(self) -> bool:
        return self.rebuild is None or self.rebuild.status is IndexRebuildStatus.COMPLETED

    @property
    def has_problems(self) -> bool:
        if self.rebuild is None:
            return False
        ended_early = self.rebuild.status in {IndexRebuildStatus.HELD, IndexRebuildStatus.CANCELLED}
        return bool(ended_early or self.rebuild.left_count)

    def text(self) -> str:
        return "The index already uses this model." if self.rebuild is None else rebuild_text(self.rebuild)

    def as_json(self) -> dict[str, Any]:
        return {} if self.rebuild is None else self.rebuild.model_dump(mode="json", exclude_none=True)


OnRebuild = Callable[[IndexRebuild], Awaitable[None]]


async def rebuild_index(
    collection: str, *, options: ReindexOptions, settings: FlowSettings, on_update: OnRebuild | None = None
) -> Rebuilt:
    """Rebuild a collection's or the CATALOG's index with `options.model`, or watch such a rebuild and retry errors.
    Raises SourceBusyError during another rebuild, SourceError for a refused model, and NameUnknownError."""
    async with report_run(settings, flow="reindex", source=collection) as report, open_client(settings) as client:
        outages, rebuilds = outage_policy_of(client, settings), client.document_collections.index_rebuilds
        names = Names(client, outages=outages)
        collection_id = None if collection == CATALOG else await names.id_of("collection", collection)
        start, model = partial(rebuilds.start_index_rebuild, collection_id), options.model or ""
        try:
            now = await outages.call(lambda: start(embeddings_model=model, force=options.force))
        except ConflictError as exc:
            if exc.code == "model_in_use":
                return Rebuilt(None)
            raise SourceBusyError(str(exc)) from exc
        except BadRequestError as exc:
            raise SourceError(str(exc)) from exc
        report.has_begun = True
        if options.wait_for_end:
            now = await poll(
                outages,
                lambda: rebuilds.get_index_rebuild(collection_id),
                is_done=lambda rebuild: rebuild.status is not IndexRebuildStatus.RUNNING,
                on_update=on_update,
                longest_pause=5.0,
                gone=NameUnknownError("The collection was deleted during the rebuild."),
            )
        failures: list[dict[str, str]] = []
        if now.failed_count:
            listed = rebuilds.list_index_rebuild_failures(collection_id, page_size=SHOWN_FAILURES)
            failures = [
                failure_row(failure.document_name, failure.document_external_id, "indexing_failed", failure.error)
                for failure in (await outages.call(lambda: read_first_page(listed))).failures
            ]
        done = Rebuilt(now, failures)
        report.take_problems(found=done.has_problems)
        return done


def rebuild_text(rebuild: IndexRebuild) -> str:
    models = f"from {rebuild.previous_embeddings_model} to {rebuild.embeddings_model}"
    if rebuild.status is IndexRebuildStatus.COMPLETED:
        left = f", without {rebuild.left_count} documents that failed" if rebuild.left_count else ""
        return f"The index was rebuilt {models}{left}."
    if rebuild.status is IndexRebuildStatus.CANCELLED:
        return f"The rebuild {models} was cancelled. The index did not change."
    counts = f"{rebuild.indexed_count or 0} of {rebuild.document_count or 0} documents are in the new index"
    failed = f", {rebuild.failed_count} failed" if rebuild.failed_count else ""
    held = rebuild.status is IndexRebuildStatus.HELD
    advice = "; searches use the old index until they succeed or are left out with force" if held else ""
    return f"{models[0].upper()}{models[1:]}: {counts}{failed}{advice}."
