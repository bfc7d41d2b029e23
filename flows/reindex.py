"""The flow for indexing a collection again: stale documents, all, or with another embedding model."""

import time
from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from carrel.wire.rebuilds import IndexRebuild
from flows.operations.options import ReindexOptions
from flows.operations.reindexing import Rebuilt, Reindexed, rebuild_index, reindex_documents
from flows.running import complete, publish_progress, skip_while_busy
from flows.runs import FAILURES, PLAN
from flows.settings import FlowSettings

_TOLD_EVERY = 2.0


@flow(name="reindex", persist_result=False)
@skip_while_busy
async def reindex(source: str, options: ReindexOptions | None = None) -> State[dict[str, Any]]:
    """Index the collection `source` again, a name or id (`catalog:` is the catalog): stale documents, unless options
    say otherwise. A model rebuilds the index; searches use the old until then. A killed run continues when repeated."""
    chosen = options or ReindexOptions()
    async with publish_progress() as progress:
        last = 0.0

        async def publish(counts: Mapping[str, Any], *, sent: int, wanted: int, failed: int) -> None:
            nonlocal last
            if last and time.monotonic() - last < _TOLD_EVERY:
                return
            last = time.monotonic()
            share = round(100 * sent / wanted, 1) if wanted else 0.0
            row = {**counts, "sent": sent, "quarantined": failed}
            await progress.publish_average(row, phase="indexing", progress=share, done=sent)

        async def publish_documents(now: Reindexed) -> None:
            sent = now.reindexed + now.failed + now.left.total()
            await publish(now.as_json(), sent=sent, wanted=now.wanted, failed=now.failed)

        async def publish_rebuild(now: IndexRebuild) -> None:
            documents, indexed = now.document_count or 0, now.indexed_count or 0
            counts = {"documents": documents, "reindexed": indexed}
            await publish(counts, sent=indexed, wanted=documents, failed=now.failed_count or 0)

        await progress.publish(PLAN, kind="markdown", data=_plan(source, chosen))
        if chosen.model is None:
            done: Reindexed | Rebuilt = await reindex_documents(
                source, options=chosen, settings=FlowSettings(), on_update=publish_documents
            )
        else:
            done = await rebuild_index(source, options=chosen, settings=FlowSettings(), on_update=publish_rebuild)
        if done.failures:
            await progress.publish_table(FAILURES, done.failures)
        row = {**done.as_json(), "quarantined": len(done.failures), "phase": "done", "progress": 100.0}
        await progress.publish_counts(row)
    return complete(done.text(), done.as_json(), name="CompletedWithProblems" if done.has_problems else "Completed")


def _plan(source: str, options: ReindexOptions) -> str:
    if options.model is not None:
        return f"Rebuilds the index of {source} with {options.model}. Searches use the current index until then."
    return f"Re-indexes {'every document' if options.everything else 'stale documents'} of {source}."
