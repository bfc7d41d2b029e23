"""The flow that keeps who may read what, and says what changed since the last time."""

import json
import logging
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectException
from prefect.states import Completed

from flows.operations.snapshots.difference import Difference
from flows.operations.snapshots.taking import Taken, take_snapshot
from flows.running import current_run_id
from flows.settings import FlowSettings

SNAPSHOT, CHANGES = "carrel-snapshot", "carrel-access-changes"
_log = logging.getLogger(__name__)


@flow(name="permission-snapshot", persist_result=False)
async def permission_snapshot() -> State[dict[str, Any]]:
    """Write who may read what as Parquet, and what widened and narrowed since the last snapshot as artifacts.

    The service and an admin's key come from the environment of the process (flows.settings), which also says where
    snapshots are kept. A run that is killed leaves no half of one.
    """
    taken = await take_snapshot(FlowSettings())
    get_run_logger().info(taken.text())
    await _publish(taken, current_run_id())
    name = "CompletedWithProblems" if taken.problems else "Completed"
    return Completed(name=name, message=taken.text(), data=taken.as_json())


async def _publish(taken: Taken, run_id: UUID) -> None:
    """Publish the figures and the largest changes. A Prefect server that doesn't answer costs these, never the run."""
    try:
        async with get_client() as client:
            page = ArtifactCreate(key=SNAPSHOT, type="markdown", data=markdown(taken), flow_run_id=run_id)
            await client.create_artifact(page)
            if taken.difference and taken.difference.changes:
                rows = json.dumps(_rows(taken.difference))
                table = ArtifactCreate(key=CHANGES, type="table", data=rows, flow_run_id=run_id)
                await client.create_artifact(table)
    except (httpx.HTTPError, PrefectException) as exc:
        _log.warning("The snapshot's artifacts could not be published: %s", exc)


def markdown(taken: Taken) -> str:
    """Return what a snapshot came to as a page for people."""
    difference = taken.difference
    lines = [f"`{taken.folder}`", "", *(f"**{problem}**\n" for problem in taken.problems)]
    if difference is None:
        return "\n".join([*lines, "There is nothing to compare it with."])
    lines += [
        f"Since `{difference.since}`:",
        "",
        "| resources | | a person and a resource |",
        "|---|---|---|",
        f"| widened | {difference.widened:,} | {difference.gained:,} |",
        f"| narrowed | {difference.narrowed:,} | {difference.lost:,} |",
        f"| new | {difference.added:,} | |",
        f"| gone | {difference.removed:,} | |",
        f"| as they were | {difference.same:,} | |",
        "",
        f"{difference.joined:,} people joined the organization, {difference.left:,} left it.",
    ]
    if not difference.consistent:
        lines.append(
            "\nOne of the two is not of one moment, so some of this may have been different for a moment only."
        )
    return "\n".join(lines)


def _rows(difference: Difference) -> list[dict[str, Any]]:
    """Return the changes as lines of a table."""
    return [
        {
            "change": one.change,
            "resources": one.resources,
            "people": one.people,
            "who": _listed(one.who, one.people),
            "such as": _listed(one.examples, one.resources),
        }
        for one in difference.changes
    ]


def _listed(shown: list[str], total: int) -> str:
    more = f" and {total - len(shown):,} more" if total > len(shown) else ""
    return ", ".join(shown) + more
