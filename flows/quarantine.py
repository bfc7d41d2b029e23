"""The flows that look after what could not be loaded, for people who can't reach the machine that has the ledgers."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.operations.quarantine import ignore, retry
from flows.operations.quarantine_overview import item_row, overview
from flows.progress import Progress, publish_progress
from flows.quarantined import GONE, ITEMS, SOURCES
from flows.running import conclude, current_run_id, hooks_of
from flows.settings import FlowSettings


@flow(name="quarantine", persist_result=False)
async def quarantine(
    action: Literal["list", "ignore", "restore"] = "list", source: str = "", names: list[str] | None = None
) -> State[dict[str, Any]]:
    """Publish what is in quarantine, of every source, as artifacts; `ignore` items before that, or `restore` them.

    An item that is ignored counts no more until it changes. `source` is a ledger's name, a path or a URL, and `names`
    are external ids, or places of what has none.
    """
    settings = FlowSettings()
    unknown: Sequence[str] = ()
    if action != "list":
        undo = action == "restore"
        unknown = await asyncio.to_thread(ignore, source, names or [], settings=settings, undo=undo)
    async with publish_progress(current_run_id()) as progress:
        listed = await _publish(progress, settings)
    gone = f" {GONE}{', '.join(unknown)}." if unknown else ""
    return Completed(message=f"{listed} in quarantine.{gone}", data={"items": listed, "unknown": list(unknown)})


@flow(name="quarantine-retry", persist_result=False)
async def quarantine_retry(source: str, loaded_from: str = "") -> State[dict[str, Any]]:
    """Send what of a source is in quarantine again, and nothing else, as its last run was told to.

    `source` is a ledger's name, a path or a URL; `loaded_from` tells people where that is, of a ledger's name.
    """
    del loaded_from
    settings = FlowSettings()
    async with publish_progress(current_run_id()) as progress:
        hooks = hooks_of(progress, source=source, settings=settings)
        outcome = await retry(source, settings=settings, hooks=hooks)
        await _publish(progress, settings)
        return await conclude(progress, outcome)


async def _publish(progress: Progress, settings: FlowSettings) -> int:
    """Publish the quarantine as it is now; the sources last, since whoever finds them looks for the items."""
    sources = await asyncio.to_thread(overview, settings=settings)
    await progress.publish_table(ITEMS, [item_row(item) for source in sources for item in source.shown])
    await progress.publish_table(SOURCES, [source.as_json() for source in sources])
    number = sum(source.items for source in sources)
    get_run_logger().info("%s in quarantine, of %s sources", number, len(sources))
    return number
