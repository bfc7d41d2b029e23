"""Runs over a source, started here and watched: their bar while they go on, and their end in words or as JSON."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from carrel.wire.formats import count_reasons
from cli.exit_codes import ExitCode
from cli.screen import Screen
from cli.watching import interruption, watch_run
from flows.errors import ServiceDownError
from flows.operations.bulk import upload, upload_ledger
from flows.operations.collecting import add_to_collection, collection_ledger
from flows.operations.deletions import TO_DELETE, deletions
from flows.operations.jobs import cancel_on_sigterm, open_client, outage_policy_of
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.states import State
from flows.operations.names import names_of
from flows.operations.notes import notes_of
from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.plan import Plan
from flows.operations.quarantine import failure_codes, failure_rows, retry, write_quarantine
from flows.operations.scan import Scanned
from flows.operations.summary import Summary, summarize
from flows.settings import FlowSettings, prefect_environment

T = TypeVar("T")
_SHOWN = 20


def run_upload(source: str, options: UploadOptions, *, screen: Screen, direct: bool) -> ExitCode:
    """Upload a source, as a Prefect flow or `direct`; raises what flows.operations.bulk.upload does."""
    settings = FlowSettings()

    def work() -> Awaitable[object]:
        if direct:
            return _until_sigterm(upload(source, options=options, settings=settings))
        _prepare_prefect(settings)
        from flows.bulk_upload import bulk_upload  # noqa: PLC0415 - Prefect reads its settings when imported

        return _as_flow(lambda: bulk_upload(source, options))

    with upload_ledger(source, settings=settings) as ledger:
        _run_to_end(work, ledger=ledger, screen=screen)
        return _end(ledger, screen=screen)


def run_plan(source: str, options: UploadOptions, *, screen: Screen) -> ExitCode:
    """Show what `run_upload` would do."""
    settings = FlowSettings()
    outcome = asyncio.run(upload(source, options=options, settings=settings, dry_run=True))
    code = _code(outcome.summary)
    with upload_ledger(source, settings=settings) as ledger:
        ledger.join_latest()
        if screen.as_json:
            members = {"outcome": "planned", "exitCode": code, "plan": outcome.plan.text(), **outcome.summary.as_json()}
            members |= {"unread": dict(outcome.plan.unread)}
            members |= _remarks_of(ledger)
            names = list(deletions(ledger, states=TO_DELETE))
            left_out = outcome.scanned.left_out_as_json()
            screen.json({**members, "leftOut": left_out, "deletions": names, "failures": failure_rows(ledger)})
        else:
            show_plan(outcome.plan, outcome.scanned, ledger, screen=screen)
    return code


def run_collection_add(source: str, options: CollectionOptions, *, screen: Screen, direct: bool) -> ExitCode:
    """Add documents of the catalog to a collection, named by name or id."""
    settings = FlowSettings()
    collection = asyncio.run(_collection_id(options.collection, settings=settings))
    options = options.model_copy(update={"collection": collection})

    def work() -> Awaitable[object]:
        if direct:
            return _until_sigterm(add_to_collection(source, options=options, settings=settings))
        _prepare_prefect(settings)
        from flows.collection_add import collection_add  # noqa: PLC0415 - as above

        return _as_flow(lambda: collection_add(source, options))

    with collection_ledger(source, collection, settings=settings) as ledger:
        _run_to_end(work, ledger=ledger, screen=screen)
        return _end(ledger, screen=screen, hint=_hint(ledger))


def _run_to_end(work: Callable[[], Awaitable[object]], *, ledger: Ledger, screen: Screen) -> None:
    try:
        asyncio.run(watch_run(work, ledger=ledger.address, screen=screen))
    except BaseException as exc:
        if not _is_interruption(exc):
            raise
        raise KeyboardInterrupt(interruption(ledger)) from exc


async def _until_sigterm(run: Awaitable[T]) -> T:
    with cancel_on_sigterm():
        return await run


def _is_interruption(error: BaseException) -> bool:
    """Return whether Ctrl-C or SIGTERM has ended a run; before it begins, Prefect raises an exception of its own."""
    return isinstance(error, KeyboardInterrupt | asyncio.CancelledError) or type(error).__name__ == "TerminationSignal"


def _hint(ledger: Ledger) -> str:
    """Say what to look at when nothing of a source is in the catalog; else nothing."""
    ledger.join_latest()
    summary = summarize(ledger)
    unknown = failure_codes(ledger)["not_in_catalog"]
    if not unknown or unknown != summary.documents:
        return ""
    return (
        "Nothing of this source is in the catalog that this key may read. External ids are paths below SOURCE: name the"
        " folder that was uploaded, a manifest with the column externalId, or choose with catalog://GLOB."
    )


def run_retry(source: str, names: Sequence[str], *, screen: Screen) -> ExitCode:
    """Send what of a source is in quarantine again, or what has one of these names."""
    with screen.bar("sending what is in quarantine again"):
        outcome = asyncio.run(retry(source, names=names, settings=FlowSettings()))
    with Ledger(outcome.ledger) as ledger:
        return _end(ledger, screen=screen)


async def _collection_id(name: str, *, settings: FlowSettings) -> str:
    async with open_client(settings) as client:
        return await names_of(client, outages=outage_policy_of(client, settings)).id_of("collection", name)


def _prepare_prefect(settings: FlowSettings) -> None:
    """What goes wrong is said by us, once; Prefect's own log stays with the run on its server."""
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL"}
    for name, value in {**prefect_environment(settings), **quiet}.items():
        os.environ.setdefault(name, value)
    # Where Prefect's server is away, this one counts what it has not been told yet; its name is its whole name.
    logging.getLogger("EventsWorker").setLevel(logging.CRITICAL)


async def _as_flow(flow: Callable[[], Awaitable[T]]) -> T:
    """Run a flow; where Prefect isn't there, nothing is begun: without this it would be a failure without words."""
    from prefect.client.orchestration import get_client  # noqa: PLC0415 - as above

    async with get_client() as client:
        if (error := await client.api_healthcheck()) is not None:
            msg = f"Prefect does not answer at {client.api_url}. Start it (`python -m flows.server`), or say --direct."
            raise ServiceDownError(msg) from error
    return await flow()


def _end(ledger: Ledger, *, screen: Screen, hint: str = "") -> ExitCode:
    ledger.join_latest()
    summary = summarize(ledger)
    code = _code(summary)
    if screen.as_json:
        outcome = "quarantine" if summary.quarantined else "held_back" if summary.held_back else "completed"
        files = {"quarantineFile": str(quarantine_file(ledger))} if summary.quarantined else {}
        members: dict[str, Any] = {"outcome": outcome, "exitCode": code, **summary.as_json(), **files}
        names = list(deletions(ledger, states=(State.DELETED,)))
        members |= {"hint": hint} if hint else {}
        members |= _remarks_of(ledger)
        members |= {"partlyRead": ledger.partly_read()} if summary.partly_read else {}
        left_out = notes_of(ledger.address.name).scanned.left_out_as_json()
        screen.json({**members, "leftOut": left_out, "deletions": names, "failures": failure_rows(ledger)})
    else:
        show_end(summary, ledger, screen=screen)
        if hint:
            screen.line(hint, style="bold")
    return code


def _remarks_of(ledger: Ledger) -> dict[str, Any]:
    remarks = notes_of(ledger.address.name).remarks
    return {"remarks": remarks} if remarks else {}


def _code(summary: Summary) -> ExitCode:
    return ExitCode.DONE if summary.complete else ExitCode.PROBLEMS


def show_plan(plan: Plan, scanned: Scanned, ledger: Ledger, *, screen: Screen) -> None:
    """Print what a run would do, with the first rows of what would go into quarantine."""
    screen.line(plan.text())
    if plan.unread:
        screen.line(f"{plan.unread_text()}; --exclude leaves them out.")
    _show_left_out(scanned, screen=screen)
    _show_deletions(plan, ledger, screen=screen)
    if scanned.problems or plan.forbidden or plan.refused:
        _show_failures(ledger, screen=screen)
    for remark in notes_of(ledger.address.name).remarks:
        screen.line(remark)


def show_end(summary: Summary, ledger: Ledger, *, screen: Screen) -> None:
    """Print what a run came to, with the first rows of its quarantine, where all of them are, and its remarks."""
    notes = notes_of(ledger.address.name)
    screen.line(summary.text())
    if coming := summary.coming_text():
        screen.line(
            f"The service continues by itself: {coming}. Run again, the run waits for it and sends nothing twice."
        )
    _show_left_out(notes.scanned, screen=screen)
    if summary.partly_read:
        _show_partly_read(summary.partly_read, ledger, screen=screen)
    if summary.contained_left_out:
        screen.line("carrel documents left-out DOCUMENT names those of an archive or mail.", style="dim")
    if summary.quarantined:
        _show_failures(ledger, screen=screen)
        screen.line(f"All of it, one JSON object a line: {quarantine_file(ledger)}")
    for remark in notes.remarks:
        screen.line(remark)


def _show_partly_read(number: int, ledger: Ledger, *, screen: Screen) -> None:
    screen.line("Read only in part; carrel documents show DOCUMENT says what was not read:", style="bold")
    for name in (first := ledger.partly_read(limit=_SHOWN)):
        screen.line(f"- {name}")
    if number > len(first):
        screen.line(f"and {number - len(first):,} more; --json names all of them")


def _show_left_out(scanned: Scanned, *, screen: Screen) -> None:
    for line in scanned.left_out():
        screen.line(line, style="dim")


def _show_deletions(plan: Plan, ledger: Ledger, *, screen: Screen) -> None:
    names = deletions(ledger, states=TO_DELETE)
    first = list(islice(names, _SHOWN))
    if not first:
        return
    screen.line("Would be deleted, with a higher limit:" if plan.held_back else "Would be deleted:", style="bold")
    for name in first:
        screen.line(f"- {name}")
    if more := sum(1 for _ in names):
        screen.line(f"and {more:,} more; --json names all of them")


def _show_failures(ledger: Ledger, *, screen: Screen) -> None:
    reasons = count_reasons(dict(failure_codes(ledger).most_common()))
    screen.line(f"Quarantine: {reasons}", style="bold")
    for row in failure_rows(ledger, limit=_SHOWN):
        document = f" ({row['document']})" if row["document"] not in {"", row["place"]} else ""
        screen.line(f"! {row['place']}{document}  {row['code']}: {row['reason']}", style="red")


def quarantine_file(ledger: Ledger) -> Path:
    """Write the run's quarantine beside its ledger and return where."""
    write_quarantine(ledger, ledger.address.quarantine_file)
    return ledger.address.quarantine_file
