"""Building an index again with another embedding model: start it, watch it to its end, and report its progress.

The service does the work, on any replica; nothing is kept here, and a watcher that dies costs the rebuild nothing:
run again, it watches the same rebuild.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carrel import AsyncCarrel
from carrel.errors import BadRequestError, ConflictError, NotFoundError
from carrel.wire.rebuilds import IndexRebuild, IndexRebuildStatus
from flows.errors import NameUnknownError, SourceBusyError, SourceError
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.names import names_of
from flows.operations.options import CATALOG, ReindexOptions
from flows.operations.outages import OutagePolicy
from flows.operations.reindexing import SHOWN_FAILURES
from flows.operations.run_reports import report_run
from flows.settings import FlowSettings

_FIRST_PAUSE, _LONGEST_PAUSE, _SLOWER = 0.2, 5.0, 1.3

OnUpdate = Callable[[IndexRebuild], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild, or its state if nobody waited; None: the index has this model already."""

    rebuild: IndexRebuild | None
    failures: Sequence[Mapping[str, str]] = ()

    @property
    def is_done(self) -> bool:
        """Whether the index has the requested model."""
        return self.rebuild is None or self.rebuild.status is IndexRebuildStatus.COMPLETED

    @property
    def has_problems(self) -> bool:
        """Whether documents keep the new index back or were left out of it, or the rebuild was cancelled."""
        if self.rebuild is None:
            return False
        return bool(
            self.rebuild.status in {IndexRebuildStatus.HELD, IndexRebuildStatus.CANCELLED} or self.rebuild.left_count
        )

    def text(self) -> str:
        """Return the result in a text for people."""
        return "The index is made with this model already." if self.rebuild is None else rebuild_text(self.rebuild)

    def as_json(self) -> dict[str, Any]:
        """Return the rebuild as JSON members; none when there was nothing to do."""
        return {} if self.rebuild is None else self.rebuild.model_dump(mode="json", exclude_none=True)


async def rebuild_index(
    collection: str, *, options: ReindexOptions, settings: FlowSettings, on_update: OnUpdate | None = None
) -> Rebuilt:
    """Build the index of a collection (its name or id), or of the catalog (CATALOG), again with `options.model`.

    A running rebuild with this model is watched, and its failed documents are tried again. Raises NameUnknownError,
    SourceBusyError while it is rebuilt with another model, SourceError for an unknown model, RefusedError,
    ServiceDownError.
    """
    async with report_run(settings, flow="reindex", source=collection) as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        collection_id = await index_id(collection, client, outages=outages)
        try:
            now = await outages.call(lambda: _start(client, collection_id, options))
        except ConflictError as exc:
            if exc.code == "model_in_use":
                return Rebuilt(None)
            raise SourceBusyError(str(exc)) from exc
        except BadRequestError as exc:
            raise SourceError(str(exc)) from exc
        report.has_begun = True
        if options.wait_for_end:
            now = await _watch(client, collection_id, now, outages=outages, on_update=on_update)
        failures = await outages.call(lambda: failure_rows(client, collection_id)) if now.failed_count else []
        done = Rebuilt(now, failures)
        report.take_problems(found=done.has_problems)
        return done


async def index_id(collection: str, client: AsyncCarrel, *, outages: OutagePolicy) -> str | None:
    """Return the id of the collection of this name or id; None for the catalog."""
    if collection == CATALOG:
        return None
    return await names_of(client, outages=outages).id_of("collection", collection)


async def _start(client: AsyncCarrel, collection_id: str | None, options: ReindexOptions) -> IndexRebuild:
    rebuilds = client.document_collections.index_rebuilds
    return await rebuilds.start_index_rebuild(collection_id, embeddings_model=options.model or "", force=options.force)


async def _watch(
    client: AsyncCarrel,
    collection_id: str | None,
    now: IndexRebuild,
    *,
    outages: OutagePolicy,
    on_update: OnUpdate | None,
) -> IndexRebuild:
    """Poll a rebuild until it has ended, or only documents that fail again and again are left."""
    rebuilds, pause = client.document_collections.index_rebuilds, _FIRST_PAUSE
    while True:
        if on_update is not None:
            await on_update(now)
        if now.status is not IndexRebuildStatus.RUNNING:
            return now
        await asyncio.sleep(pause)
        pause = min(pause * _SLOWER, _LONGEST_PAUSE)
        try:
            now = await outages.call(lambda: rebuilds.get_index_rebuild(collection_id))
        except NotFoundError as exc:
            raise NameUnknownError("The collection was deleted while its index was rebuilt.") from exc


async def failure_rows(
    client: AsyncCarrel, collection_id: str | None, *, limit: int = SHOWN_FAILURES
) -> list[dict[str, str]]:
    """Return the first documents that a rebuild could not index, as rows like the quarantine's."""
    rows: list[dict[str, str]] = []
    listed = client.document_collections.index_rebuilds.list_index_rebuild_failures(collection_id, page_size=limit)
    async for one in listed:
        rows.append(
            {
                "place": one.document_name,
                "document": one.document_external_id,
                "code": "indexing_failed",
                "reason": one.error,
            }
        )
        if len(rows) == limit:
            break
    return rows


def rebuild_text(rebuild: IndexRebuild) -> str:
    """Return the progress of a rebuild in one line."""
    models = f"from {rebuild.previous_embeddings_model} to {rebuild.embeddings_model}"
    if rebuild.status is IndexRebuildStatus.COMPLETED:
        left = f", without {rebuild.left_count} documents that fail" if rebuild.left_count else ""
        return f"The index went {models}{left}."
    if rebuild.status is IndexRebuildStatus.CANCELLED:
        return f"The rebuild {models} was cancelled; the index is as it was."
    counts = f"{rebuild.indexed_count or 0} of {rebuild.document_count or 0} documents are in the new index"
    failed = f", {rebuild.failed_count} fail" if rebuild.failed_count else ""
    held = rebuild.status is IndexRebuildStatus.HELD
    advice = "; until they succeed, or are left out by force, the old one is searched" if held else ""
    return f"{models[0].upper()}{models[1:]}: {counts}{failed}{advice}."
