"""Indexing again, watched: its bar while it goes on, and its end in words or as JSON."""

import asyncio
from collections.abc import Mapping, Sequence

from carrel.errors import ConflictError
from carrel.wire.rebuilds import IndexRebuild
from cli.exit_codes import ExitCode
from cli.outcome import client_of, usage
from cli.screen import Bar, Screen
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.options import ReindexOptions
from flows.operations.rebuilding import Rebuilt, index_id, rebuild_index, rebuild_text
from flows.operations.reindexing import Reindexed, reindex_documents
from flows.settings import FlowSettings

_SHOWN = 20


def run_reindex(collection: str, options: ReindexOptions, *, screen: Screen) -> ExitCode:
    """Index a collection again, or its index anew; raises what flows.operations.reindexing and .rebuilding do."""
    return asyncio.run(_follow(collection, options, screen=screen))


async def _follow(collection: str, options: ReindexOptions, *, screen: Screen) -> ExitCode:
    with screen.bar("asking the service") as bar:
        if options.model is None:
            told = _of_documents(bar)
            done: Reindexed | Rebuilt = await reindex_documents(
                collection, options=options, settings=FlowSettings(), on_update=told
            )
            kind = "completed"
        else:
            done = await rebuild_index(collection, options=options, settings=FlowSettings(), on_update=_of_rebuild(bar))
            kind = "completed" if done.is_done else "started" if not options.wait_for_end else "held"
    return _end(done, "problems" if done.has_problems else kind, done.failures, screen=screen)


def _of_documents(bar: Bar):  # noqa: ANN202 - what reindex_documents takes
    async def tell(now: Reindexed) -> None:
        done = now.reindexed + now.failed + now.left.total()
        bar(f"indexed {done:,} of {now.wanted:,}", done=done, total=now.wanted or None)

    return tell


def _of_rebuild(bar: Bar):  # noqa: ANN202 - what rebuild_index takes
    async def tell(now: IndexRebuild) -> None:
        failed = f", {now.failed_count:,} fail" if now.failed_count else ""
        done, total = now.indexed_count or 0, now.document_count
        bar(f"{done:,} of {total or 0:,} in the new index{failed}", done=done, total=total or None)

    return tell


def _end(done: Reindexed | Rebuilt, outcome: str, failures: Sequence[Mapping[str, str]], *, screen: Screen) -> ExitCode:
    code = ExitCode.PROBLEMS if done.has_problems else ExitCode.DONE
    if screen.as_json:
        screen.json({"outcome": outcome, "exitCode": code, **done.as_json(), "failures": list(failures)})
        return code
    screen.line(done.text())
    for row in failures[:_SHOWN]:
        screen.line(f"! {row['document']}  {row['code']}: {row['reason']}", style="red")
    return code


def cancel_rebuild(collection: str, *, screen: Screen) -> ExitCode:
    """Give up the rebuild of a collection's index, or the catalog's."""
    collection_id = asyncio.run(_id_of(collection))
    with client_of(screen) as client:
        try:
            rebuild = client.document_collections.index_rebuilds.cancel_index_rebuild(collection_id)
        except ConflictError as exc:
            raise usage(screen, str(exc)) from exc
    if screen.as_json:
        members = rebuild.model_dump(mode="json", exclude_none=True)
        screen.json({"outcome": "cancelled", "exitCode": ExitCode.DONE, **members})
    else:
        screen.line(rebuild_text(rebuild))
    return ExitCode.DONE


async def _id_of(collection: str) -> str | None:
    settings = FlowSettings()
    async with open_client(settings) as client:
        return await index_id(collection, client, outages=outage_policy_of(client, settings))
