"""Runs of sources, syncs and indexes, started and watched from the command line: progress and results."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar, cast

from carrel.errors import ConflictError
from carrel.wire.docstore import DocstoreSync, DocstoreSyncStatus
from carrel.wire.formats import count_reasons
from carrel.wire.rebuilds import IndexRebuild
from cli.choosing import confirm
from cli.exit_codes import ExitCode
from cli.listing import print_json, say_done, to_json
from cli.outcome import client_of, usage
from cli.screen import Bar, Screen
from flows.errors import ServiceDownError, SourceBusyError
from flows.operations.backlog import notes_of
from flows.operations.deletions import TO_DELETE as DELETED_IN
from flows.operations.deletions import deletions, mark_of_deletions
from flows.operations.formatting import count_text, waiting_text
from flows.operations.jobs import Hooks, Outcome, cancel_on_sigterm, open_client, outage_policy_of
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import State
from flows.operations.loading import add_to_collection, open_ledger, upload
from flows.operations.named import name_documents, names_as_csv
from flows.operations.names import Names
from flows.operations.options import CATALOG, CollectionOptions, ReindexOptions, SyncOptions, UploadOptions
from flows.operations.plan import Plan
from flows.operations.quarantine import failure_rows, retry, write_quarantine
from flows.operations.reindexing import Rebuilt, Reindexed, rebuild_index, rebuild_text, reindex_documents
from flows.operations.scan import Scanned
from flows.operations.summary import CREATED, FAILED, GONE, SHOWN, TO_DELETE, UPDATED, Summary, summarize
from flows.operations.syncing import SyncOutcome, is_running, sync
from flows.runs import SKIPPED
from flows.settings import FlowSettings, prepare_prefect

T = TypeVar("T")
NamedRows = Iterable[Mapping[str, str]]
_SHOWN = 20
_SECONDS = 0.3
# Without a terminal: the wait before the first line, and the time between lines.
_FIRST_LINE_SECONDS, _LINE_SECONDS = 4.0, 30.0


def run_upload(
    source: str, options: UploadOptions, *, screen: Screen, direct: bool, names: Path | None, yes: bool
) -> ExitCode:
    """Upload a source, as a Prefect flow or `direct`; deletions are confirmed first, or with `yes`."""
    settings = FlowSettings()
    confirmed = None if yes or not options.delete_missing else _confirm_deletions(source, options, screen=screen)

    def work() -> Awaitable[object]:
        if direct:
            return _until_sigterm(upload(source, options=options, settings=settings, confirmed=confirmed))
        _prepare_prefect(settings)
        from flows.bulk_upload import bulk_upload  # noqa: PLC0415 - Prefect reads its settings when imported

        return _as_flow(lambda: bulk_upload(source, options, confirmed=confirmed))

    with open_ledger(source, settings=settings) as ledger:
        _run_to_end(work, ledger=ledger, screen=screen)
        ledger.join_latest()
        _write_names(ledger, names)
        return _end(ledger, screen=screen)


def _write_names(ledger: Ledger, path: Path | None) -> None:
    if path is not None:
        path.write_text(names_as_csv(ledger), encoding="utf-8-sig")


def _confirm_deletions(source: str, options: UploadOptions, *, screen: Screen) -> str:
    """Plan, and ask about deletions; return their mark (empty: none). A no, or no terminal, raises typer.Exit."""
    outcome, named, mark = _make_plan(source, options)
    held = outcome.summary.to_delete if outcome.plan.held_back and screen.can_ask else 0
    if not (number := outcome.plan.delete or held):
        return ""
    if held:
        screen.say(outcome.plan.held_back)
    doomed = [row["path"] for row in named if row["what"] == TO_DELETE]
    question = f"Delete {count_text(number, 'document')} that are gone from the source?"
    if not screen.can_ask:
        first = ", ".join(doomed[:_SHOWN]) + (" …" if number > _SHOWN else "")
        raise usage(screen, f"{question} {first}. There is no terminal for confirmation. Give --yes to delete them.")
    screen.say("\n".join(f"- {name}" for name in doomed))
    if number > len(doomed):
        screen.say(f"and {number - len(doomed):,} more; carrel plan --names FILE lists all of them")
    confirm(screen, question, outcome="sent or deleted")
    return mark


def _make_plan(source: str, options: UploadOptions, *, names: Path | None = None) -> tuple[Outcome, NamedRows, str]:
    named, mark = list[dict[str, str]](), list[str]()

    async def keep(ledger: Ledger, *_: object) -> None:
        named.extend(name_documents(ledger, limit=SHOWN))
        mark.append(mark_of_deletions(ledger))
        _write_names(ledger, names)

    run = upload(source, options=options, settings=FlowSettings(), hooks=Hooks(on_plan=keep), dry_run=True)
    return asyncio.run(run), named, mark[0]


def run_plan(source: str, options: UploadOptions, *, screen: Screen, names: Path | None) -> ExitCode:
    outcome, named, _ = _make_plan(source, options, names=names)
    code = ExitCode.DONE if outcome.summary.complete else ExitCode.PROBLEMS
    with Ledger(outcome.ledger) as ledger:
        ledger.join_latest()
        if screen.as_json:
            members = {"plan": outcome.plan.text(), **outcome.summary.as_json(), "unread": dict(outcome.plan.unread)}
            members["names"] = list(named)
            _print_run(ledger, "planned", members, code=code, scanned=outcome.scanned, states=DELETED_IN, screen=screen)
        else:
            show_plan(outcome.plan, outcome.scanned, ledger, named, screen=screen)
    return code


def run_collection_add(source: str, options: CollectionOptions, *, screen: Screen, direct: bool) -> ExitCode:
    settings = FlowSettings()
    collection = asyncio.run(_collection_id(options.collection, settings=settings))
    options = options.model_copy(update={"collection": collection})

    def work() -> Awaitable[object]:
        if direct:
            return _until_sigterm(add_to_collection(source, options=options, settings=settings))
        _prepare_prefect(settings)
        from flows.collection_add import collection_add  # noqa: PLC0415 - as above

        return _as_flow(lambda: collection_add(source, options))

    with open_ledger(source, settings=settings, collection=collection) as ledger:
        _run_to_end(work, ledger=ledger, screen=screen)
        return _end(ledger, screen=screen, hint=_hint(ledger))


def _run_to_end(work: Callable[[], Awaitable[object]], *, ledger: Ledger, screen: Screen) -> None:
    try:
        asyncio.run(watch_run(work, ledger=ledger.address, screen=screen))
    except BaseException as exc:
        # Before a run begins, Prefect raises its own exception.
        if isinstance(exc, KeyboardInterrupt | asyncio.CancelledError) or type(exc).__name__ == "TerminationSignal":
            raise KeyboardInterrupt(interruption(ledger)) from exc
        raise


async def _until_sigterm(run: Awaitable[T]) -> T:
    with cancel_on_sigterm():
        return await run


def _hint(ledger: Ledger) -> str:
    ledger.join_latest()
    summary = summarize(ledger)
    unknown = ledger.failure_codes()["not_in_catalog"]
    if not unknown or unknown != summary.documents:
        return ""
    return (
        "This key can read no document of this source. External ids are paths below SOURCE: give the folder "
        "that was uploaded, a manifest with the column externalId, or catalog://GLOB."
    )


def run_retry(source: str, names: Sequence[str], *, screen: Screen) -> ExitCode:
    """Send a source's quarantined documents again, all or by name."""
    with screen.bar("retrying items in quarantine"):
        outcome = asyncio.run(retry(source, names=names, settings=FlowSettings()))
    with Ledger(outcome.ledger) as ledger:
        return _end(ledger, screen=screen)


async def _collection_id(name: str, *, settings: FlowSettings) -> str:
    async with open_client(settings) as client:
        return await Names(client, outages=outage_policy_of(client, settings)).id_of("collection", name)


def _prepare_prefect(settings: FlowSettings) -> None:
    """Configure Prefect: the log stays with the run on Prefect's server, because the command reports errors itself."""
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL"}
    prepare_prefect(settings, **quiet)
    # Without Prefect's server, this logger reports unsent events; it has no namespace.
    logging.getLogger("EventsWorker").setLevel(logging.CRITICAL)


async def _as_flow(flow: Callable[[], Awaitable[object]]) -> None:
    """Run a flow. Raises ServiceDownError before any work if Prefect is away, and SourceBusyError for a skipped run."""
    from prefect.client.orchestration import get_client  # noqa: PLC0415 - as above

    async with get_client() as client:
        if (error := await client.api_healthcheck()) is not None:
            msg = f"Prefect does not answer at {client.api_url}. Start it (`python -m flows.server`), or use --direct."
            raise ServiceDownError(msg) from error
    found = await flow()
    if isinstance(found, dict) and SKIPPED in found:
        raise SourceBusyError(cast("dict[str, str]", found)[SKIPPED])


def _end(ledger: Ledger, *, screen: Screen, hint: str = "") -> ExitCode:
    ledger.join_latest()
    summary = summarize(ledger)
    code = ExitCode.DONE if summary.complete else ExitCode.PROBLEMS
    if screen.as_json:
        outcome = "quarantine" if summary.quarantined else "held_back" if summary.held_back else "completed"
        files = {"quarantineFile": str(write_quarantine_file(ledger))} if summary.quarantined else {}
        members = {**summary.as_json(), **files, **({"hint": hint} if hint else {})}
        members["names"] = list(name_documents(ledger, limit=SHOWN))
        members |= {"partlyRead": ledger.partly_read()} if summary.partly_read else {}
        scanned = notes_of(ledger.address.name).scanned
        _print_run(ledger, outcome, members, code=code, scanned=scanned, states=(State.DELETED,), screen=screen)
    else:
        show_end(summary, ledger, screen=screen)
        if hint:
            screen.line(hint, style="bold")
    return code


def _print_run(
    ledger: Ledger,
    outcome: str,
    members: Mapping[str, Any],
    *,
    code: ExitCode,
    scanned: Scanned,
    states: Sequence[State],
    screen: Screen,
) -> None:
    remarks = notes_of(ledger.address.name).remarks
    print_json(
        screen,
        outcome,
        code=code,
        ledger=str(ledger.address),
        **members,
        **({"remarks": remarks} if remarks else {}),
        leftOut=scanned.left_out_as_json(),
        deletions=list(deletions(ledger, states=states)),
        failures=failure_rows(ledger),
    )


def show_plan(plan: Plan, scanned: Scanned, ledger: Ledger, named: NamedRows, *, screen: Screen) -> None:
    screen.line(plan.text())
    if plan.unread:
        screen.line(f"{plan.unread_text()}. --exclude skips them.")
    screen.lines(scanned.left_out(), style="dim")
    words = {TO_DELETE: "Would be deleted, with a higher limit" if plan.held_back else "Would be deleted"}
    _show_names(named, words, screen=screen)
    if scanned.problems or plan.forbidden or plan.refused:
        _show_failures(ledger, screen=screen)
    screen.lines(notes_of(ledger.address.name).remarks)
    screen.line(f"Ledger: {ledger.address}", style="dim")


def show_end(summary: Summary, ledger: Ledger, *, screen: Screen) -> None:
    notes = notes_of(ledger.address.name)
    screen.line(summary.text())
    if coming := summary.coming_text():
        screen.line(
            f"The service continues in the background: {coming}. A new run waits for it and sends nothing twice."
        )
    screen.lines(notes.scanned.left_out(), style="dim")
    if summary.partly_read:
        _show_partly_read(summary.partly_read, ledger, screen=screen)
    if summary.contained_left_out:
        screen.line("carrel documents left-out DOCUMENT lists the skipped files of an archive or email.", style="dim")
    rows = name_documents(ledger, limit=SHOWN)
    _show_names((row for row in rows if row["what"] not in {CREATED, UPDATED}), {}, screen=screen)
    if summary.quarantined:
        _show_failures(ledger, screen=screen)
        screen.line(f"All items, one JSON object per line: {write_quarantine_file(ledger)}")
    screen.lines(notes.remarks)
    screen.line(f"Ledger: {ledger.address}", style="dim")


def _show_partly_read(number: int, ledger: Ledger, *, screen: Screen) -> None:
    screen.line("Read only in part. carrel documents show DOCUMENT shows the missing parts:", style="bold")
    for name in (first := ledger.partly_read(limit=_SHOWN)):
        screen.line(f"- {name}")
    if number > len(first):
        screen.line(f"and {number - len(first):,} more; --json lists all of them")


def _show_names(rows: NamedRows, words: Mapping[str, str], *, screen: Screen) -> None:
    """Print the first documents of each number, under the kind or its `words`; failures are shown elsewhere."""
    for kind, group in groupby(rows, key=lambda row: row["what"]):
        named = [] if kind == FAILED else [row["path"] for row in group]
        if named:
            screen.line(f"{words.get(kind, kind)}:", style="bold")
        for name in named:
            screen.line(f"- {name}")
        if len(named) == SHOWN:
            screen.line("and possibly more; --names FILE writes all of them")
        if kind == GONE:
            screen.line("--delete-missing deletes documents that are gone from the source.", style="dim")


def _show_failures(ledger: Ledger, *, screen: Screen) -> None:
    reasons = count_reasons(dict(ledger.failure_codes().most_common()))
    screen.line(f"Quarantine: {reasons}", style="bold")
    for row in failure_rows(ledger, limit=_SHOWN):
        document = f" ({row['document']})" if row["document"] not in {"", row["place"]} else ""
        screen.line(f"! {row['place']}{document}  {row['code']}: {row['reason']}", style="red")


def write_quarantine_file(ledger: Ledger) -> Path:
    write_quarantine(ledger, ledger.address.quarantine_file)
    return ledger.address.quarantine_file


async def watch_run(work: Callable[[], Awaitable[T]], *, ledger: Address, screen: Screen) -> T:
    task = asyncio.ensure_future(work())
    if screen.is_watched:
        with screen.bar("reading the source") as bar:
            return await _run_beside(task, _show_bar(ledger, bar=bar))
    return await task if screen.as_json else await _run_beside(task, _say_waits(ledger, screen=screen))


async def _run_beside(task: "asyncio.Future[T]", showing: Awaitable[None]) -> T:
    watching = asyncio.ensure_future(showing)
    try:
        return await task
    finally:
        task.cancel()
        watching.cancel()


async def _say_waits(ledger: Address, *, screen: Screen) -> None:
    due: float | None = None
    while True:
        await asyncio.sleep(_SECONDS)
        text, now = notes_of(ledger.name).newest_wait, time.monotonic()
        if not text:
            due = None
        elif due is None:
            due = now + _FIRST_LINE_SECONDS
        elif now >= due:
            screen.say(text)
            due = now + _LINE_SECONDS


async def _show_bar(ledger: Address, *, bar: Bar) -> None:
    watched: Ledger | None = None
    try:
        while True:
            await asyncio.sleep(_SECONDS)
            watched = watched or Ledger.watch(ledger, process=os.getpid())
            if watched is not None:
                summary = await asyncio.to_thread(summarize, watched)
                tell(bar, summary, waiting_for=notes_of(ledger.name).newest_wait)
    finally:
        if watched is not None:
            watched.close()


def tell(bar: Bar, summary: Summary, *, waiting_for: str = "") -> None:
    if not summary.to_send and not summary.indexing:
        bar(waiting_for or f"planning {summary.documents:,} documents", done=0, total=None)
        return
    done = summary.to_send - summary.waiting
    if summary.waiting:
        what = f"sending {done:,} of {summary.to_send:,}"
        what = f"{what}, {waiting_for}" if waiting_for else what
    else:
        what = waiting_for or "waiting for the index"
        done += summary.contained_files - summary.contained_waiting - summary.indexing
    total = summary.to_send + summary.contained_files
    failed = f", {summary.quarantined:,} in quarantine" if summary.quarantined else ""
    bar(f"{what}{failed}", done=max(0, done), total=total or None)


def interruption(ledger: Ledger) -> str:
    """Describe the result of a run interrupted only while waiting for the index; else return an empty text."""
    ledger.join_latest()
    summary = summarize(ledger)
    if summary.waiting or not summary.indexing:
        return ""
    return (
        f"Interrupted. All {summary.to_send:,} documents were sent, and the service continues: "
        f"{summary.coming_text()}. Run the command again to check; it sends nothing twice."
    )


def follow_sync(name: str, *, launching: bool, watching: bool, screen: Screen) -> ExitCode:
    """Launch a sync, watch it, or both; raises the errors of flows.operations.syncing.sync."""
    options = SyncOptions(launch=launching, wait_for_end=watching)
    told: set[str] = set()
    with screen.bar("asking for the sync") as bar:

        async def on_update(now: DocstoreSync) -> None:
            _tell_sync(bar, now)
            if (waits := waiting_text(now)) and waits not in told:
                told.add(waits)
                screen.say(waits)

        outcome = asyncio.run(sync(name, options=options, settings=FlowSettings(), on_update=on_update))
    going_on = is_running(outcome.sync)
    code = ExitCode.PROBLEMS if watching and outcome.has_problems else ExitCode.DONE
    kind = "launched" if going_on else "problems" if outcome.has_problems else "completed"
    if going_on and not screen.as_json:
        launched = "Launched" if outcome.launched else "A run is already in progress for"
        screen.line(f"{launched} {outcome.sync.config.sync_name}. Follow it with: carrel sync watch")
        return code
    return _show_outcome(outcome, kind, code=code, named_by="place", screen=screen)


def _tell_sync(bar: Bar, now: DocstoreSync) -> None:
    if now.status is DocstoreSyncStatus.PENDING:
        bar("waiting for the run to start", done=0, total=None)
        return
    counts = now.counts
    brought = counts.created + counts.updated
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    bar(f"{counts.read:,} read, {brought:,} loaded, {counts.deleted:,} removed{failed}", done=0, total=None)


async def run_reindex(collection: str, options: ReindexOptions, *, screen: Screen) -> ExitCode:
    """Index a collection again, or rebuild the index; raises errors of flows.operations.reindexing and .rebuilding."""
    settings = FlowSettings()
    with screen.bar("asking the service") as bar:

        async def tell_documents(now: Reindexed) -> None:
            done = now.reindexed + now.failed + now.left.total()
            bar(f"indexed {done:,} of {now.wanted:,}", done=done, total=now.wanted or None)

        async def tell_rebuild(now: IndexRebuild) -> None:
            failed = f", {now.failed_count:,} failed" if now.failed_count else ""
            done, total = now.indexed_count or 0, now.document_count
            bar(f"{done:,} of {total or 0:,} in the new index{failed}", done=done, total=total or None)

        if options.model is None:
            done = await reindex_documents(collection, options=options, settings=settings, on_update=tell_documents)
            kind = "completed"
        else:
            done = await rebuild_index(collection, options=options, settings=settings, on_update=tell_rebuild)
            kind = "completed" if done.is_done else "started" if not options.wait_for_end else "held"
    code = ExitCode.PROBLEMS if done.has_problems else ExitCode.DONE
    outcome = "problems" if done.has_problems else kind
    return _show_outcome(done, outcome, code=code, named_by="document", screen=screen)


def cancel_rebuild(collection: str, *, screen: Screen) -> ExitCode:
    is_catalog = collection == CATALOG
    collection_id = None if is_catalog else asyncio.run(_collection_id(collection, settings=FlowSettings()))
    with client_of(screen) as client:
        try:
            rebuild = client.document_collections.index_rebuilds.cancel_index_rebuild(collection_id)
        except ConflictError as exc:
            raise usage(screen, str(exc)) from exc
    say_done(screen, "cancelled", rebuild_text(rebuild), **to_json(rebuild))
    return ExitCode.DONE


def _show_outcome(
    done: SyncOutcome | Reindexed | Rebuilt, outcome: str, *, code: ExitCode, named_by: str, screen: Screen
) -> ExitCode:
    if screen.as_json:
        print_json(screen, outcome, code=code, **done.as_json(), failures=list(done.failures))
        return code
    screen.lines(done.text().splitlines())
    for row in done.failures[:_SHOWN]:
        screen.line(f"! {row[named_by]}  {row['code']}: {row['reason']}", style="red")
    return code
