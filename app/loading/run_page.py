"""The list of runs, and the page of a run: status, counts, plan, failures, and a restart."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any
from uuid import UUID, uuid4

import streamlit as st

from app.documents.listing import tell_trash
from app.formatting import ago, moment, one_line
from app.labels import RUN_PHASES
from app.loading import runs, staging
from app.loading.quarantine import read_sources
from app.loading.schedules import new_schedule
from app.loading.starting import UPLOAD
from app.lookup import find_by_id, is_id
from app.settings import settings
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import keep_problem, problem_of, require_found, show_errors, show_kept_problem
from app.ui.filters import choice_filter, filter_line, text_filter
from app.ui.tables import ItemsPage, Source, forget, show_pages, show_text_pages, source_of, time_cell
from flows.operations.formatting import capitalize, count_text, rate_text
from flows.operations.summary import FAILED, GONE, SHOWN, TO_DELETE
from flows.runs import FLOWS, RunsError, RunStatus, UnknownError

ENDS = {"FAILED": "The run failed.", "CRASHED": "Its process stopped before the run was complete."}
_UPLOADED = (("Created", "created"), ("Updated", "updated"), ("Unchanged", "unchanged"), ("Waiting", "waiting"))
_NUMBERS: Mapping[str, Sequence[tuple[str, str]]] = {
    "collection-add": (("Added or updated", "sent"), ("Unchanged", "unchanged"), ("Waiting", "waiting")),
    "docstore-sync": (("Created", "created"), ("Updated", "updated"), ("Unchanged", "unchanged")),
    "reindex": (("Documents", "documents"), ("Re-indexed", "reindexed")),
}
_REST: Mapping[str, str] = {"docstore-sync": "on the page of the sync", "reindex": "on the page of the collection"}
_CHANGES = ("change", "resources", "people", "who", "such as")
_PLANNED = (
    ("To create", ("create",)),
    ("To update", ("update",)),
    ("Unchanged", ("unchanged", "resumed")),
    ("Refused", ("forbidden", "refused", "problems")),
    ("To delete", ("delete",)),
    ("Gone, kept", ("gone",)),
)


def _show_run(run: RunStatus, *, left_waiting: bool = False) -> None:
    _show_state(run, left_waiting=left_waiting)
    if run.only_plans:
        _show_planned(run)
    else:
        _show_numbers(run)
    _show_sentences(run)
    if run.failures:
        st.subheader("Would fail" if run.only_plans else "Failed")
        show_text_pages(
            "run.failures",
            source_of(run.failures, about=(run.flow_run_id, len(run.failures))),
            heads=("Document", "Reason", "Help"),
            row=_failure,
        )
        if run.finished and not run.only_plans and run.source:
            known = next((source for source in show_errors(read_sources) if source.source == run.source), None)
            if known is not None:
                label = "Ignore what failed" if runs.is_of_dropped_files(run.source) else "Retry or ignore what failed"
                notices.show_link(label, "ingestion", part="quarantine", source=str(known.source_id))
        if (more := runs.count_not_loaded(run) - len(run.failures)) > 0:
            st.caption(f"… and {more:,} more, listed {_REST.get(run.flow, 'under Failed')}.")
    if run.changes:
        st.subheader("Access changes")
        changes, heads = source_of(run.changes, about=run.flow_run_id), [name.capitalize() for name in _CHANGES]
        show_text_pages(
            "run.changes", changes, heads=heads, row=lambda row: [str(row.get(item, "")) for item in _CHANGES]
        )
    _show_names(run)
    if run.plan:
        with st.expander("Plan summary"):
            notices.show_table((row for line in run.plan.splitlines() if (row := _table_row(line))), named=True)


def _show_sentences(run: RunStatus) -> None:
    if held_back := run.counts.held_back:
        why, if_meant, _ = held_back.partition(" To delete them,")  # the rest of the text is for the command line
        notices.show_warning(why, "To delete the documents named below, use the button above." if if_meant else "")
    for line in run.plan.splitlines():
        if (said := line.strip("*")) not in {"", held_back} and not line.startswith("|"):
            notices.show_text(said)


def _show_names(run: RunStatus) -> None:
    if not run.names:
        return
    st.subheader("Documents by name")
    for kind, group in groupby(run.names, key=lambda row: row["what"]):
        rows = sorted((row["name"], row["path"], row["reason"]) for row in group)
        number = f"the first {SHOWN}" if len(rows) == SHOWN else f"{len(rows)}"
        label = "Not deleted: deletion blocked" if kind == TO_DELETE and run.counts.held_back else kind
        width = 3 if kind == FAILED else 2
        with st.expander(f"{label} ({number})"):
            notices.show_table((row[:width] for row in rows), heads=("Name", "Path", "Reason")[:width])
    fetch = partial(runs.server().names_csv, run.flow_run_id)
    notices.offer_download("Download all names (CSV)", fetch, f"names-{run.flow_run_id}.csv")


def _offer_deletion(run: RunStatus, label: str) -> None:
    names = sorted(row["path"] for row in run.names if row["what"] in {GONE, TO_DELETE})
    number = run.counts.gone + run.counts.to_delete - run.counts.deleted
    if not names or not st.button(label, key=f"delete.{run.flow_run_id}", icon=":material/delete:"):
        return
    more = f" The first {len(names):,} are listed here. The page has all names as CSV." if number > len(names) else ""
    confirm(
        f"Delete {count_text(number, 'document')}?",
        f"Nobody can find these documents afterwards. {tell_trash('them')}{more} The run also sends new and "
        "changed documents. If different documents are gone by then, nothing is deleted.",
        action=lambda: st.query_params.from_dict({"run": str(runs.start_planned(run, deleting=True))}),
        names=names,
    )


def _show_log(run: RunStatus) -> None:
    if st.toggle("Show log", key=f"log.{run.flow_run_id}"):
        lines = show_errors(lambda: runs.server().log(run.flow_run_id))
        notices.show_table(((moment(at), line) for at, line in lines), heads=("Time", "Message"))


def _show_state(run: RunStatus, *, left_waiting: bool) -> None:
    again = "Documents that were sent stay. Start the run again to load the rest." if run.counts.sent else ""
    if run.state in ENDS:
        notices.show_problem(ENDS[run.state], runs.reason(run.message), again)
    elif run.skipped:
        notices.show_warning("The run was skipped.", run.message.removeprefix("Skipped: "))
    elif run.state == "CANCELLED":
        notices.show_warning("The run was stopped.", again)
    elif left_waiting:
        notices.show_warning(runs.NO_FLOW_SERVER, runs.START_WORK)
    elif run.only_plans and run.finished:
        notices.show_text("This is a plan. Nothing was sent or deleted.")
    else:
        done = 100.0 if run.finished else min(max(run.progress, 0.0), 100.0)
        st.progress(done / 100, text=_phase_in_words(run))
        if run.waiting_for and not run.finished:
            notices.show_text(f"{capitalize(run.waiting_for)}.")
    if run.state == "COMPLETED" and run.flow in {"agent-evaluation", "permission-snapshot"}:
        notices.show_text(run.message)


def _show_head(run: RunStatus) -> None:
    begun = "not started yet" if run.started_at is None else f"started {ago(run.started_at)} ({moment(run.started_at)})"
    took, owner = runs.duration_in_words(runs.seconds_of(run)), run.options.get("upload_as_user_email")
    notices.show_heading(
        one_line(runs.title_of(run)),
        f"started by {runs.starter_in_words(run)}",
        begun,
        f"one run for {run.missed + 1:,} scheduled times, {run.missed:,} of them missed" if run.missed else "",
        f"took {took}" if run.finished and took and not (run.state == "COMPLETED" and not run.only_plans) else "",
        f"owner of the documents: {owner}" if owner and owner != run.person else "",
    )
    if runs.is_lasting(run.source) and run.flow in runs.LOADING:
        notices.show_link("Open source", "ingestion", part="sources", location=run.source)


def _show_numbers(run: RunStatus) -> None:
    figures = run.figures
    if not figures.get("documents") and not runs.count_not_loaded(run):
        return
    shown = [(label, int(figures.get(name, 0))) for label, name in _NUMBERS.get(run.flow, _UPLOADED)]
    more = (("Deleted", "deleted"), ("Gone, kept", "gone"))
    shown += [(label, number) for label, name in more if (number := int(figures.get(name, 0)))]
    shown.append(("Failed", runs.count_not_loaded(run)))
    for column, (label, number) in zip(st.columns(len(shown)), shown, strict=True):
        column.metric(label, f"{number:,}")


def _show_planned(run: RunStatus) -> None:
    if not run.planned:
        return
    shown = _PLANNED if run.planned.get("gone") else _PLANNED[:-1]
    for column, (label, names) in zip(st.columns(len(shown)), shown, strict=True):
        column.metric(label, f"{sum(run.planned.get(name, 0) for name in names):,}")
    if left := run.planned.get("left", 0):
        left_alone = count_text(left, "document of this source stays", "documents of this source stay")
        notices.show_text(
            f"{left_alone} although the source no longer has them: someone else changed them, or another source "
            "also has them."
        )
    if ignored := run.planned.get("ignored", 0):
        notices.show_text(f"{count_text(ignored, 'item is', 'items are')} ignored.")


def _phase_in_words(run: RunStatus) -> str:
    if run.state in {"SCHEDULED", "PENDING"}:
        return "Waiting to start …"
    if run.state == "CANCELLING":
        return "Stopping …"
    if run.finished:
        return _end_in_words(run)
    doing = RUN_PHASES.get(run.phase, "Working") if run.figures else "Working"
    # While waiting for the index, the run sends nothing.
    rate = "" if run.phase == "indexing" else rate_text(runs.rate_of(run), "document")
    return f"{doing} … {rate}".rstrip()


def _end_in_words(run: RunStatus) -> str:
    found = run.figures.get("documents") or runs.count_not_loaded(run)
    if run.flow not in {"agent-evaluation", "permission-snapshot", "reindex", "docstore-sync"} and not found:
        return "Done. There was nothing to load."
    rate, counts = rate_text(runs.rate_of(run), "document"), run.counts
    later = f" {count_text(counts.indexing, 'document')} will be searchable shortly." if counts.indexing else ""
    quick = f", {rate}" if rate else ""
    partly = count_text(counts.partly_read, "document was", "documents were")
    partly = f" {partly} read only in part: see each document's page." if counts.partly_read else ""
    pages = count_text(counts.pages_waiting, "scanned page or picture is", "scanned pages or pictures are")
    pages = f" {pages} still being read and will be searchable later." if counts.pages_waiting else ""
    files = f" {counts.contained_text()}." if counts.containers else ""
    return f"Done in {runs.duration_in_words(run.seconds or runs.seconds_of(run))}{quick}.{later}{files}{partly}{pages}"


def _failure(row: Mapping[str, str]) -> Sequence[str | notices.HelpLink]:
    document, place = row.get("document") or "", row.get("place") or ""
    named = f"{document} ({place})" if document and place not in {"", document} else document or place
    return named, runs.why_in_words(row.get("reason") or ""), notices.HelpLink(row.get("code") or "", about=named)


def _table_row(line: str) -> Sequence[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells if line.startswith("|") and len(cells) == 2 and cells[1].isdigit() else ()


ROWS = 20
# Documents a second; a lower rate would be shown as 0.0.
_LEAST_RATE = 0.05
LIST = "runs"
_LOOKED_THROUGH = 10_000  # the most runs searched by name of source or schedule
_STATES = {
    "": ("Any", ()),
    "active": ("Waiting or running", ("SCHEDULED", "PENDING", "RUNNING", "CANCELLING")),
    "done": ("Done", ("COMPLETED",)),
    "failed": ("Failed or stopped", ("FAILED", "CRASHED", "CANCELLED")),
}
_DAYS = {"": "Any time", "1": "Last 24 hours", "7": "Last 7 days", "30": "Last 30 days"}


def show_runs() -> None:
    notices.offer_action("Refresh", forget, LIST, key="runs.again", icon="refresh")
    with filter_line("state", "by", "days"):
        place = text_filter("Source", "place", placeholder="Part of the source's name")
        state = choice_filter("State", "state", {key: words for key, (words, _) in _STATES.items()})
        by = text_filter("Schedule", "by", placeholder="Part of its name")
        days = choice_filter("Time", "days", _DAYS)
    wanted = (place.lower(), state, by.lower(), days)
    _show_list(LIST, Source(partial(_fetch_runs, wanted), about=wanted), narrowed=any(wanted))


def show_runs_of(source: str, found: Sequence[RunStatus]) -> None:
    listed = source_of(found, about=(source, tuple((run.flow_run_id, run.state) for run in found)))
    _show_list(f"{LIST}.of", listed, Source=None)


def _show_list(key: str, listed: Source[RunStatus], *, narrowed: bool = False, **columns: Any) -> None:
    described = {
        "Source": st.column_config.TextColumn(width="large"),
        "Documents": st.column_config.TextColumn(help="Created, updated or re-indexed", alignment="right"),
        "Per second": st.column_config.TextColumn(help="Documents per second", alignment="right"),
    }
    show_pages(
        key,
        listed,
        row=_row,
        empty=partial(_show_no_runs, narrowed=narrowed),
        columns=described | columns,
        go=lambda chosen: notices.look_at("run", chosen.flow_run_id),
        hint="Select a row to see its progress, result and log.",
    )


def _show_no_runs(*, narrowed: bool) -> None:
    if narrowed:
        notices.show_empty("No run matches.", "Clear some of the filters above.")
    else:
        notices.show_empty("No runs yet.", "Uploads, syncs and other runs appear here when they start.")
        notices.show_link("Load documents", "ingestion")


def _fetch_runs(wanted: tuple[str, str, str, str], token: str | None) -> ItemsPage[RunStatus]:
    """Return the next page with runs that fit; names are looked for in the newest 10,000 runs."""
    place, state, by, days = wanted
    after = datetime.now(UTC) - timedelta(days=int(days)) if days else None
    number, fitting, rows = int(token or 0), list[RunStatus](), ROWS if not place + by else 200
    while True:
        found = runs.server().page(number=number, size=rows, states=_STATES[state][1], after=after)
        fitting += [
            run
            for run in found.runs
            if place in runs.source_in_words(run.source).lower()
            and by in (runs.schedule_in_words(run) if by else "").lower()
        ]
        number += 1
        has_more = number * rows < (found.total if rows == ROWS else min(found.total, _LOOKED_THROUGH))
        if fitting or not has_more:
            return ItemsPage(fitting, str(number) if has_more else None)


def _row(run: RunStatus) -> dict[str, Any]:
    return {
        "Type": runs.kind_in_words(run),
        "Source": runs.source_in_row(run.source),
        "State": runs.state_in_words(run),
        "Documents": count_taken(run),
        "Started": time_cell(run.started_at or run.due_at),
        "Duration": runs.duration_in_words(runs.seconds_of(run)),
        "Started by": one_line(runs.starter_in_words(run)),
        "Per second": f"{rate:,.1f}" if (rate := runs.rate_of(run)) >= _LEAST_RATE else "",
    }


def count_taken(run: RunStatus) -> str:
    """Return how many documents a run has created, updated or indexed again; empty for runs without counts."""
    if not run.figures or run.only_plans:
        return ""
    deleted = f", {run.counts.deleted:,} deleted" if run.counts.deleted else ""
    return f"{int(run.figures.get('reindexed' if run.flow == 'reindex' else 'sent', 0)):,}{deleted}"


REFRESH_SECONDS = 1.0
_PROBLEM = "run.problem"


def show_run_page(name: str) -> None:
    notices.offer_way_back("All runs", "run", also=_show_all_runs)
    hint = "It was removed from Prefect, or the URL is wrong. Go to all runs."
    run = require_found(lambda: find_by_id(runs.server().run_status, name), "This run does not exist.", hint)
    if run.finished:
        _show_ended(run)
    else:
        # Outside the part that refreshes itself, because a refresh would close the question.
        stops = run.state == "CANCELLING"
        if st.button("Stop …", key=f"stop.{run.flow_run_id}", icon=":material/stop_circle:", disabled=stops):
            confirm(
                "Stop this run?",
                "Documents that were sent stay. If you start the run again, it continues from there.",
                action=lambda: runs.runs_to_change().cancel(run.flow_run_id),
            )
        watch(run.flow_run_id)


def _show_all_runs() -> None:
    st.session_state.pop(_PROBLEM, None)
    st.query_params["part"] = "runs"


@st.fragment(run_every=REFRESH_SECONDS)
def watch(run: UUID) -> None:
    """Show a running run and refresh it. After the end, redraw the page without refreshing."""
    try:
        status = runs.server().run_status(run)
        left_waiting = runs.server().is_left_waiting(status)
    except UnknownError:  # removed since; the page says so
        st.rerun()
    except RunsError as error:
        problem = problem_of(error)
        said = "The state of this run is not available right now. This page keeps trying."
        notices.show_warning(said, problem.message, *problem.notes)
        return
    if status.finished:
        st.rerun()
    _show_head(status)
    _show_run(status, left_waiting=left_waiting)


def _show_ended(run: RunStatus) -> None:
    """Show an ended run and the next steps. Files that were dropped for a completed run are removed."""
    staging.sweep(settings().uploads_dir, lambda item: item == run.flow_run_id and runs.is_done(item))
    _show_head(run)
    show_kept_problem(_PROBLEM, "The run did not start.")
    # A second click, before this is drawn again, starts no second run.
    again = partial(runs.start_again, key=uuid4().hex)
    if run.only_plans and run.state == "COMPLETED" and not run.skipped:
        with st.container(horizontal=True):
            if run.planned.get("delete") and run.names:  # otherwise an earlier version planned this, without names
                _offer_deletion(run, "Start upload …")
            else:
                _offer_start("Start upload", run, runs.start_planned, is_first=True)
                _offer_deletion(run, "Start and delete …")
            _offer_start("Plan again", run, again)
            _offer_schedule(run)
    elif runs.is_gone(run):
        notices.show_link("Load files again", "ingestion")
    elif run.flow in FLOWS:  # not a flow of an earlier version
        with st.container(horizontal=True):
            plans = run.only_plans or run.options.get("delete_missing")
            _offer_start("Plan again" if plans else "Run again", run, again)
            if run.flow == UPLOAD and run.state == "COMPLETED":
                _offer_deletion(run, "Delete …")
            _offer_schedule(run)
    _show_run(run)
    _show_log(run)
    if run.flow != UPLOAD or run.only_plans or run.state != "COMPLETED":
        return
    with st.container(horizontal=True):
        if run.counts.sent:
            notices.show_link("Open documents", "documents", run=str(run.flow_run_id))
        collection = str(run.options.get("collection") or "")
        if is_id(collection):
            notices.show_link("Open collection", "collections", collection=collection)


def _offer_start(label: str, run: RunStatus, start: Callable[[RunStatus], UUID], *, is_first: bool = False) -> None:
    def begin() -> None:
        with keep_problem(_PROBLEM, runs.StartError):
            st.query_params["run"] = str(start(run))

    kind = "primary" if is_first else "secondary"
    notices.offer_action(label, begin, key=f"{label}.{run.flow_run_id}", kind=kind)


def _offer_schedule(run: RunStatus) -> None:
    if not runs.is_of_dropped_files(run.source):
        run_id = str(run.flow_run_id)
        notices.offer_action("Schedule this …", new_schedule, run_id, key=f"schedule.{run_id}", icon="event_repeat")
