"""The flow that indexes a collection again: what is stale, everything, or with another embedding model."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from carrel.wire.rebuilds import IndexRebuild
from flows.operations.jobs import Stopwatch
from flows.operations.options import ReindexOptions
from flows.operations.rebuilding import Rebuilt, rebuild_index
from flows.operations.reindexing import Reindexed, reindex_documents
from flows.progress import Progress, publish_progress
from flows.running import current_run_id
from flows.runs import FAILURES, PLAN
from flows.settings import FlowSettings

_TOLD_EVERY = 2.0


@flow(name="reindex", persist_result=False)
async def reindex(source: str, options: ReindexOptions | None = None) -> State[dict[str, Any]]:
    """Index again the documents of the collection that `source` names, by its name or id (`catalog:` is the catalog).

    Only stale documents, unless the options say otherwise. With a model the whole index is built again beside the old
    one, which is searched until the new one replaces it. A run that was killed continues when it is run again.
    """
    chosen = options or ReindexOptions()
    async with publish_progress(current_run_id()) as progress:
        told = _ProgressPublisher(progress)
        await progress.publish(PLAN, kind="markdown", data=_plan(source, chosen))
        if chosen.model is None:
            done = await reindex_documents(source, options=chosen, settings=FlowSettings(), on_update=told.documents)
        else:
            done = await rebuild_index(source, options=chosen, settings=FlowSettings(), on_update=told.rebuild)
        return await _conclude(progress, done)


class _ProgressPublisher:
    """Publishes the progress of a reindexing run, every other second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._watch = Stopwatch()
        self._last = -_TOLD_EVERY

    async def documents(self, now: Reindexed) -> None:
        """Publish how many documents of a collection were indexed again."""
        sent = now.reindexed + now.failed + now.left.total()
        await self._tell(now.as_json(), documents=now.documents, sent=sent, wanted=now.wanted, failed=now.failed)

    async def rebuild(self, now: IndexRebuild) -> None:
        """Publish the progress of an index rebuild."""
        documents, indexed = now.document_count or 0, now.indexed_count or 0
        counts = {"documents": documents, "reindexed": indexed}
        await self._tell(counts, documents=documents, sent=indexed, wanted=documents, failed=now.failed_count or 0)

    async def _tell(self, counts: Mapping[str, Any], *, documents: int, sent: int, wanted: int, failed: int) -> None:
        seconds = self._watch.seconds
        if seconds - self._last < _TOLD_EVERY:
            return
        self._last = seconds
        row = {
            **counts,
            "documents": documents,
            "sent": sent,
            "quarantined": failed,
            "phase": "indexing",
            "progress": round(100 * sent / wanted, 1) if wanted else 0.0,
            "seconds": round(seconds, 1),
            "documentsPerSecond": round(sent / seconds, 4) if seconds else 0.0,
        }
        await self._progress.publish_counts(row)


def _plan(source: str, options: ReindexOptions) -> str:
    if options.model is not None:
        return f"Rebuilds the index of {source} with {options.model}; searches use the present one until that is done."
    return f"Indexes again {'every document' if options.everything else 'what is stale'} of {source}."


async def _conclude(progress: Progress, done: Reindexed | Rebuilt) -> State[dict[str, Any]]:
    failures: Sequence[Mapping[str, str]] = done.failures
    if failures:
        await progress.publish_table(FAILURES, failures)
    row = {**done.as_json(), "quarantined": len(failures), "phase": "done", "progress": 100.0}
    await progress.publish_counts(row)
    get_run_logger().info(done.text())
    name = "CompletedWithProblems" if done.has_problems else "Completed"
    return Completed(name=name, message=done.text(), data=done.as_json())
