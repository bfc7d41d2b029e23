"""The flow for permission snapshots: who may read what, and the changes since the last snapshot."""

from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.snapshots.files import Difference
from flows.running import complete, publish_progress
from flows.runs import CHANGES
from flows.settings import FlowSettings

if TYPE_CHECKING:
    from flows.operations.snapshots.taking import Taken

SNAPSHOT = "carrel-snapshot"


@flow(name="permission-snapshot", persist_result=False)
async def permission_snapshot() -> State[dict[str, Any]]:
    """Write who may read what as Parquet, and publish the changes since the last snapshot as artifacts. The service, an
    admin's key and the folder come from the environment (flows.settings). A killed run leaves no partial snapshot."""
    # Imported here, because it loads pyarrow, whose threads forbid forking, and which other flows don't need.
    from flows.operations.snapshots.taking import take_snapshot  # noqa: PLC0415

    async with publish_progress() as progress:
        taken = await take_snapshot(FlowSettings())
        await progress.publish(SNAPSHOT, kind="markdown", data=markdown(taken))
        if taken.difference and taken.difference.changes:
            await progress.publish_table(CHANGES, _rows(taken.difference))
    return complete(taken.text(), taken.as_json(), name="CompletedWithProblems" if taken.problems else "Completed")


def markdown(taken: "Taken") -> str:
    difference = taken.difference
    lines = [f"`{taken.folder}`", "", *(f"**{problem}**\n" for problem in taken.problems)]
    if difference is None:
        return "\n".join([*lines, "There is no earlier snapshot to compare with."])
    lines += [
        f"Since `{difference.since}`:",
        "",
        "| resources | | person and resource |",
        "|---|---|---|",
        f"| widened | {difference.widened:,} | {difference.gained:,} |",
        f"| narrowed | {difference.narrowed:,} | {difference.lost:,} |",
        f"| new | {difference.added:,} | |",
        f"| gone | {difference.removed:,} | |",
        f"| unchanged | {difference.same:,} | |",
        "",
        f"{difference.joined:,} people joined the organization, {difference.left:,} left.",
    ]
    if not difference.consistent:
        lines += ["", "One of the snapshots mixes several moments, so some changes may have lasted only a moment."]
    return "\n".join(lines)


def _rows(difference: Difference) -> list[dict[str, Any]]:
    return [
        change.model_dump(include={"change", "resources", "people"})
        | {"who": _list(change.who, change.people), "such as": _list(change.examples, change.resources)}
        for change in difference.changes
    ]


def _list(shown: list[str], total: int) -> str:
    more = f" and {total - len(shown):,} more" if total > len(shown) else ""
    return ", ".join(shown) + more
