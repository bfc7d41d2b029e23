"""Times of schedules that were missed while nothing carried out runs: one run does the work of all of them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from flows.runs import MISSED, missed_times

ReadDue = Callable[[], Awaitable[list[FlowRun]]]


async def read_without_missed(client: PrefectClient, read: ReadDue) -> list[FlowRun]:
    """Return the runs that `read` finds. Of a schedule's due runs all but the latest are deleted; a tag counts them."""
    while True:
        found, latest, earlier = await read(), dict[object, FlowRun](), list[FlowRun]()
        for run in sorted(found, key=_due_at):
            is_due = _due_at(run) <= datetime.now(UTC) and not run.run_count
            if run.auto_scheduled and run.created_by and is_due:
                if before := latest.get(run.created_by.id):
                    earlier.append(before)
                    number = missed_times(before.tags) + missed_times(run.tags) + 1
                    run.tags = [*(tag for tag in run.tags if not tag.startswith(MISSED)), f"{MISSED}{number}"]
                latest[run.created_by.id] = run
        if not earlier:
            return found
        for run in latest.values():
            await client.update_flow_run(run.id, tags=run.tags)
        for run in earlier:
            with suppress(ObjectNotFound):
                await client.delete_flow_run(run.id)


def _due_at(run: FlowRun) -> datetime:
    return run.next_scheduled_start_time or datetime.max.replace(tzinfo=UTC)
