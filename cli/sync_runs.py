"""A run of a sync, watched: its bar while it goes on, and its end in words or as JSON."""

import asyncio

from carrel.wire.docstore import DocstoreSync, DocstoreSyncStatus
from cli.exit_codes import ExitCode
from cli.screen import Bar, Screen
from flows.operations.options import SyncOptions
from flows.operations.syncing import SyncHooks, SyncOutcome, is_running, sync
from flows.operations.waiting import waiting_text
from flows.settings import FlowSettings

_SHOWN = 20


def follow(name: str, *, launching: bool, watching: bool, screen: Screen) -> ExitCode:
    """Launch a sync, or not, and watch it, or not; raises what flows.operations.syncing.sync does."""
    options = SyncOptions(launch=launching, wait_for_end=watching)
    told: set[str] = set()
    with screen.bar("asking for the sync") as bar:

        async def on_update(now: DocstoreSync) -> None:
            _tell(bar, now)
            if (waits := waiting_text(now)) and waits not in told:
                told.add(waits)
                screen.say(waits)

        work = sync(name, options=options, settings=FlowSettings(), hooks=SyncHooks(on_update=on_update))
        outcome = asyncio.run(work)
    return _end(outcome, watching=watching, screen=screen)


def _tell(bar: Bar, now: DocstoreSync) -> None:
    if now.status is DocstoreSyncStatus.PENDING:
        bar("waiting for the run to begin", done=0, total=None)
        return
    counts = now.counts
    brought = counts.created + counts.updated
    failed = f", {counts.failed:,} could not be taken" if counts.failed else ""
    bar(f"{counts.read:,} read, {brought:,} brought, {counts.deleted:,} removed{failed}", done=0, total=None)


def _end(outcome: SyncOutcome, *, watching: bool, screen: Screen) -> ExitCode:
    going_on = is_running(outcome.sync)
    code = ExitCode.PROBLEMS if watching and outcome.has_problems else ExitCode.DONE
    kind = "launched" if going_on else "problems" if outcome.has_problems else "completed"
    if screen.as_json:
        members = {"outcome": kind, "exitCode": code, **outcome.as_json()}
        screen.json({**members, "failures": list(outcome.failures)})
        return code
    if going_on:
        launched = "Launched" if outcome.launched else "A run is in progress already of"
        screen.line(f"{launched} {outcome.sync.config.sync_name}; `carrel sync watch` follows it.")
        return code
    for line in outcome.text().splitlines():
        screen.line(line)
    for row in outcome.failures[:_SHOWN]:
        screen.line(f"! {row['place']}  {row['code']}: {row['reason']}", style="red")
    return code
