"""The runs there were, newest first, page by page."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.formatting import one_line
from app.loading.labels import (
    duration_in_words,
    kind_in_words,
    rate_of,
    seconds_of,
    source_in_words,
    starter_in_words,
    state_in_words,
)
from app.loading.runs import runs
from app.ui.links import look_at
from app.ui.notices import show_empty
from app.ui.tables import Source, forget, show_pages, time_cell
from flows.runs import RunsPage, RunStatus

ROWS = 20
# Of documents a second: below, the number would be 0.0.
_LEAST_RATE = 0.05
LIST = "runs"


@dataclass(frozen=True, slots=True)
class _Page:
    page: RunsPage
    number: int

    @property
    def next_page_token(self) -> str | None:
        """The number of the next page, if there is one."""
        return str(self.number + 1) if (self.number + 1) * ROWS < self.page.total else None


def show_runs() -> None:
    """Show the list, and open the run that is chosen in it."""
    if st.button("Refresh", icon=":material/refresh:", key="runs.again"):
        forget(LIST)
    show_pages(
        LIST,
        Source(_fetch, lambda found: found.page.runs),
        row=_row,
        empty=lambda: show_empty(
            "Nothing has run yet.", "Uploads, additions to collections, syncs and the like are here once they begin."
        ),
        columns={
            "Source": st.column_config.TextColumn(width="large"),
            "Documents": st.column_config.TextColumn(help="Created, updated or re-indexed", alignment="right"),
            "Per second": st.column_config.TextColumn(help="Documents a second", alignment="right"),
        },
        go=lambda chosen: look_at("run", chosen.flow_run_id),
        hint="Choose a row to see its progress or result.",
    )


def _fetch(token: str | None) -> _Page:
    number = int(token or 0)
    return _Page(runs().page(number=number, size=ROWS), number)


def _row(run: RunStatus) -> dict[str, Any]:
    begun = run.started_at or run.due_at
    return {
        "Type": kind_in_words(run),
        "Source": one_line(source_in_words(run.source)),
        "State": state_in_words(run),
        "Documents": count_taken(run),
        "Started": time_cell(begun),
        "Duration": duration_in_words(seconds_of(run)),
        "Started by": one_line(starter_in_words(run)),
        "Per second": f"{rate:,.1f}" if (rate := rate_of(run)) >= _LEAST_RATE else "",
    }


def count_taken(run: RunStatus) -> str:
    """Return how many documents a run has created, updated or indexed again; empty for runs that don't count."""
    if not run.figures or run.only_plans:
        return ""
    return f"{int(run.figures.get('reindexed' if run.flow == 'reindex' else 'sent', 0)):,}"
