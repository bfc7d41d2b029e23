"""Showing one run: its status, its counts, its plan, and its failures."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.formatting import ago, moment, one_line
from app.loading.labels import (
    NOBODY_WORKS,
    PHASES,
    START_WORK,
    count_not_loaded,
    duration_in_words,
    is_of_dropped_files,
    rate_of,
    reason,
    seconds_of,
    starter_in_words,
    title_of,
    why_in_words,
)
from app.loading.sources import read_sources
from app.ui.errors import show_errors
from app.ui.help import HelpLink, help_cell
from app.ui.links import show_link
from app.ui.notices import show_heading, show_problem, show_table, show_text, show_warning
from app.ui.tables import show_text_pages, source_of
from flows.operations.formatting import capitalize, count_text, rate_text
from flows.runs import RunStatus

ENDS = {"FAILED": "It failed.", "CRASHED": "The process that ran it ended before it was done."}
_UPLOADED = (("Created", "created"), ("Updated", "updated"), ("Unchanged", "unchanged"), ("Waiting", "waiting"))
_NUMBERS: Mapping[str, Sequence[tuple[str, str]]] = {
    "collection-add": (("Added or updated", "sent"), ("Unchanged", "unchanged"), ("Waiting", "waiting")),
    "docstore-sync": (("Created", "created"), ("Updated", "updated"), ("Unchanged", "unchanged")),
    "reindex": (("Documents", "documents"), ("Re-indexed", "reindexed")),
}
_REST: Mapping[str, str] = {
    "docstore-sync": ", which the page of the sync lists",
    "reindex": ", which the page of the collection lists",
}
_CHANGES = ("change", "resources", "people", "who", "such as")
_PLANNED = (
    ("To create", ("create",)),
    ("To update", ("update",)),
    ("Unchanged", ("unchanged", "resumed")),
    ("Refused", ("forbidden", "refused", "problems")),
    ("To delete", ("delete",)),
)


def show_run(run: RunStatus, *, left_waiting: bool = False) -> None:
    """Show a run below its heading; `left_waiting` is True if no process takes it up."""
    _show_state(run, left_waiting=left_waiting)
    if run.only_plans:
        show_planned(run)
    else:
        show_numbers(run)
    if run.counts.held_back:
        show_warning(run.counts.held_back)
    if run.failures:
        show_failures(run)
    if run.changes:
        show_changes(run)
    if run.plan:
        with st.expander("The plan in numbers"):
            show_plan(run.plan)


def _show_state(run: RunStatus, *, left_waiting: bool) -> None:
    again = "What was sent stays. Start it again to load the rest." if run.counts.sent else ""
    if run.state in ENDS:
        show_problem(ENDS[run.state], reason(run.message), again)
    elif run.state == "CANCELLED":
        show_warning("It was stopped.", again)
    elif left_waiting:
        show_warning(NOBODY_WORKS, START_WORK)
    elif run.only_plans and run.finished:
        show_text("This is the plan. Nothing was sent or deleted.")
    else:
        done = 100.0 if run.finished else min(max(run.progress, 0.0), 100.0)
        st.progress(done / 100, text=phase_in_words(run))
        if run.waiting_for and not run.finished:
            show_text(f"{capitalize(run.waiting_for)}.")
    if run.state == "COMPLETED" and run.flow in {"agent-evaluation", "permission-snapshot"}:
        show_text(run.message)


def show_head(run: RunStatus) -> None:
    """Show the heading of a run: its kind, its source, and its start."""
    begun = "not begun yet" if run.started_at is None else f"begun {ago(run.started_at)} ({moment(run.started_at)})"
    took, owner = duration_in_words(seconds_of(run)), run.options.get("upload_as_user_email")
    show_heading(
        one_line(title_of(run)),
        f"started by {starter_in_words(run)}",
        begun,
        f"took {took}" if run.finished and took and not _says_how_long(run) else "",
        f"documents belong to {owner}" if owner and owner != run.person else "",
    )


def _says_how_long(run: RunStatus) -> bool:
    return run.state == "COMPLETED" and not run.only_plans


def show_numbers(run: RunStatus) -> None:
    """Show a run's counts, as far as there are any."""
    figures = run.figures
    if not figures.get("documents") and not count_not_loaded(run):
        return
    shown = [(label, int(figures.get(name, 0))) for label, name in _NUMBERS.get(run.flow, _UPLOADED)]
    if deleted := int(figures.get("deleted", 0)):
        shown.append(("Deleted", deleted))
    shown.append(("Failed", count_not_loaded(run)))
    for column, (label, number) in zip(st.columns(len(shown)), shown, strict=True):
        column.metric(label, f"{number:,}")


def show_planned(run: RunStatus) -> None:
    """Show the plan of a run."""
    if not run.planned:
        return
    for column, (label, names) in zip(st.columns(len(_PLANNED)), _PLANNED, strict=True):
        column.metric(label, f"{sum(run.planned.get(name, 0) for name in names):,}")
    if left := run.planned.get("left", 0):
        left_alone = count_text(left, "document of this source stays", "documents of this source stay")
        show_text(f"{left_alone}, though no longer there: changed by others, or in another source too.")
    if ignored := run.planned.get("ignored", 0):
        show_text(f"{count_text(ignored, 'item stays', 'items stay')} out, ignored by somebody.")


def phase_in_words(run: RunStatus) -> str:
    """Return a line about the phase of a run that hasn't failed."""
    if run.state in {"SCHEDULED", "PENDING"}:
        return "Waiting to begin …"
    if run.state == "CANCELLING":
        return "Stopping …"
    if run.finished:
        return _end_in_words(run)
    doing = PHASES.get(run.phase, "Working") if run.figures else "Working"
    # Nothing is sent any more while the index is waited for.
    rate = "" if run.phase == "indexing" else rate_text(rate_of(run), "document")
    return f"{doing} … {rate}".rstrip()


def _end_in_words(run: RunStatus) -> str:
    found = run.figures.get("documents") or count_not_loaded(run)
    if run.flow not in {"agent-evaluation", "permission-snapshot", "reindex", "docstore-sync"} and not found:
        return "Done: there was nothing to load."
    rate, counts = rate_text(rate_of(run), "document"), run.counts
    later = f" {count_text(counts.indexing, 'document')} can be searched a little later." if counts.indexing else ""
    quick = f", {rate}" if rate else ""
    partly = _partly_read(counts.partly_read) if counts.partly_read else ""
    pages = _pages_waiting(counts.pages_waiting) if counts.pages_waiting else ""
    files = f" {counts.contained_text()}." if counts.containers else ""
    return f"Done in {duration_in_words(run.seconds or seconds_of(run))}{quick}.{later}{files}{partly}{pages}"


def _pages_waiting(number: int) -> str:
    waiting = count_text(number, "scanned page or picture is", "scanned pages or pictures are")
    return f" {waiting} still being read: found a little later."


def _partly_read(number: int) -> str:
    was = "was" if number == 1 else "were"
    return f" {count_text(number, 'document')} {was} read only in part: each document's page says what was left out."


def show_failures(run: RunStatus) -> None:
    """List the documents that were not loaded, each with its reason."""
    st.subheader("Would fail" if run.only_plans else "Failed")
    show_text_pages(
        "run.failures",
        source_of(run.failures, about=(run.flow_run_id, len(run.failures))),
        heads=("Document", "Reason", "Help"),
        row=_failure,
    )
    if run.finished and not run.only_plans and run.source:
        known = next((one for one in show_errors(read_sources) if one.source == run.source), None)
        if known is not None:
            label = "Ignore what failed" if is_of_dropped_files(run.source) else "Retry or ignore what failed"
            show_link(label, "ingestion", part="quarantine", source=str(known.source_id))
    if (more := count_not_loaded(run) - len(run.failures)) > 0:
        st.caption(f"… and {more:,} more{_REST.get(run.flow, ', listed under Failed')}.")


def _failure(row: Mapping[str, str]) -> Sequence[str | HelpLink]:
    document = document_of(row)
    return document, why_in_words(row.get("reason") or ""), help_cell(row.get("code") or "", about=document)


def document_of(row: Mapping[str, str]) -> str:
    """Return the document of a failure, with its place if that differs."""
    document, place = row.get("document") or "", row.get("place") or ""
    return f"{document} ({place})" if document and place not in {"", document} else document or place


def show_changes(run: RunStatus) -> None:
    """List the access changes that a snapshot found."""
    st.subheader("Who may read what has changed")
    show_text_pages(
        "run.changes",
        source_of(run.changes, about=run.flow_run_id),
        heads=[name.capitalize() for name in _CHANGES],
        row=lambda row: [str(row.get(name, "")) for name in _CHANGES],
    )


def show_plan(plan: str) -> None:
    """Show a plan: its table as a table and its other lines as they are, since they hold names of files."""
    lines = [line for line in plan.splitlines() if line.strip()]
    show_table((row for line in lines if (row := _table_row(line))), named=True)
    for line in lines:
        if not line.startswith(("|", "**")):  # what is held back is said above
            st.text(line)


def _table_row(line: str) -> Sequence[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells if line.startswith("|") and len(cells) == 2 and cells[1].isdigit() else ()
