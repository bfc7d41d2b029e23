"""A run of the upload flow: where it is, its counts, and what it could not load."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.ui.notices import show_problem, show_table, show_warning
from flows.operations.summary import Summary
from flows.runs import RunStatus

PHASES = {
    "scanning": "Reading the source",
    "sending": "Uploading",
    "indexing": "Making the documents searchable",
    "done": "Finishing",
}
ENDS = {
    "FAILED": "The upload failed.",
    "CRASHED": "The process that ran the upload ended before it was done.",
    "CANCELLED": "The upload was stopped.",
}


def show_run(status: RunStatus) -> None:
    """Show a run."""
    counts = status.counts
    if status.state in ENDS:
        again = "What was sent stays. Start it again to load the rest." if counts.sent else ""
        show_problem(ENDS[status.state], reason(status.message), again)
    else:
        st.progress(min(max(status.progress, 0.0), 100.0) / 100, text=phase_in_words(status))
    if counts.documents or counts.problems:
        for column, (label, number) in zip(st.columns(5), numbers(counts), strict=True):
            column.metric(label, f"{number:,}")
    if counts.held_back:
        show_warning(counts.held_back)
    if status.failures:
        show_failures(status)
    if status.plan:
        with st.expander("The plan"):
            show_plan(status.plan)


def numbers(counts: Summary) -> list[tuple[str, int]]:
    """Return a run's counts under the words people know them by."""
    return [
        ("Created", counts.created),
        ("Updated", counts.updated),
        ("Unchanged", counts.unchanged),
        ("Waiting", counts.waiting),
        ("Not loaded", counts.quarantined),
    ]


def phase_in_words(status: RunStatus) -> str:
    """Say in a line where a run is that has not ended badly."""
    if status.state in {"SCHEDULED", "PENDING"}:
        return "Waiting for the flow to start … It does when `python -m flows serve` runs and is free."
    if status.state == "CANCELLING":
        return "Stopping …"
    if status.finished:
        return ended_in_words(status)
    doing = PHASES.get(status.phase, "Working")
    return f"{doing} … {status.documents_per_second:.1f} documents a second"


def ended_in_words(status: RunStatus) -> str:
    """Say in a line how a run ended that has completed."""
    counts = status.counts
    if not counts.documents and not counts.problems:
        return "Done: there was nothing to load."
    later = f" {counts.indexing:,} documents can be searched a little later." if counts.indexing else ""
    return f"Done in {status.seconds:.0f} s.{later}"


def reason(message: str) -> str:
    """Return a failed run's message without the names of Python's classes that Prefect puts before it."""
    _, found, said = message.partition("Error: ")
    return said if found else message


def show_failures(status: RunStatus) -> None:
    """List what was not loaded, with its reason."""
    st.subheader("Not loaded")
    rows = [(_document_of(row), row.get("reason") or "") for row in status.failures]
    show_table(rows, heads=("Document", "Reason"))
    if (more := status.counts.quarantined - len(rows)) > 0:
        st.caption(f"… and {more:,} more. The quarantine file beside the run's ledger has all of them.")


def _document_of(row: Mapping[str, str]) -> str:
    document, place = row.get("document") or "", row.get("place") or ""
    return f"{document} ({place})" if document and place not in {"", document} else document or place


def show_plan(plan: str) -> None:
    """Show a plan: its table as a table and its other lines as they are, since they hold names of files."""
    lines = [line for line in plan.splitlines() if line.strip()]
    show_table((row for line in lines if (row := _table_row(line))), named=True)
    for line in lines:
        if not line.startswith("|"):
            st.text(line)


def _table_row(line: str) -> Sequence[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells if line.startswith("|") and len(cells) == 2 and cells[1].isdigit() else ()
