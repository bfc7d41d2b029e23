"""Sources: when each was last complete, and a source's documents, failures, schedules and runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import streamlit as st

from app.formatting import ago, moment, one_line
from app.loading import runs
from app.loading.quarantine import read_sources
from app.loading.run_page import show_runs_of
from app.loading.schedules import WithSeen, list_found, new_schedule, read_schedules
from app.lookup import is_id
from app.ui import notices
from app.ui.errors import require_found, show_errors
from app.ui.tables import show_pages, source_of, time_cell
from carrel.wire.sources import Source
from flows.operations.formatting import capitalize, count_text
from flows.runs import RunStatus

LIST, ADDRESS = "sources", "location"


@dataclass
class _Loaded:
    """A source, with its newest runs, newest first."""

    source: str
    runs: list[RunStatus] = field(default_factory=list[RunStatus])
    schedules: list[WithSeen] = field(default_factory=list[WithSeen])
    reports: list[Source] = field(default_factory=list[Source])

    @property
    def complete(self) -> RunStatus | None:
        """The last run whose documents were all loaded, by the run or by retries of its failed documents."""
        whole = list(filter(runs.is_whole, self.runs))
        if whole and not self.failed:
            return whole[0]
        return next((run for run in whole if not runs.count_not_loaded(run)), None)

    @property
    def failed(self) -> int:
        so_far = [run.counts.failed for run in self.runs[:1] if not run.finished]
        return max([sum(report.item_count for report in self.reports), *so_far])


def _read_loaded() -> dict[str, _Loaded]:
    """Return the sources of runs, schedules and failures, the last started first."""
    found: dict[str, _Loaded] = {}

    def at(source: str) -> _Loaded:
        return found.setdefault(source, _Loaded(source))

    for run in runs.read_loading_runs():
        at(run.source).runs.append(run)
    for schedule in read_schedules():
        if schedule[0].flow in runs.LOADING:
            at(schedule[0].source).schedules.append(schedule)
    for report in read_sources():
        at(report.source).reports.append(report)
    # Syncs have their own page, which also lists runs without a flow.
    return {source: item for source, item in found.items() if runs.is_lasting(source) and not is_id(source)}


def show_sources() -> None:
    found = show_errors(_read_loaded)
    if asked := st.query_params.get(ADDRESS):
        notices.offer_way_back("All sources", ADDRESS)
        hint = f"None of the last {runs.LOOKED_THROUGH:,} runs loaded this source. Go to all sources."
        _show_source(require_found(lambda: found.get(asked), "This source does not exist.", hint))
        return
    listed = list(found.values())
    show_pages(
        LIST,
        source_of(listed, about=tuple((loaded.source, len(loaded.runs), loaded.failed) for loaded in listed)),
        row=_row,
        empty=_show_nothing,
        columns={"Source": st.column_config.TextColumn(width="large")},
        go=lambda chosen: notices.look_at(ADDRESS, chosen.source),
        hint="Select a row to see the source's documents, failures, schedules and runs.",
    )


def _show_nothing() -> None:
    notices.show_empty("No sources yet.", "Folders, URLs and syncs appear here when they are loaded or scheduled.")
    notices.show_link("Load documents", "ingestion")


def _row(loaded: _Loaded) -> Mapping[str, object]:
    times = sorted(at for schedule, seen in loaded.schedules if not schedule.paused for at in seen.next_at[:1])
    return {
        "Source": runs.source_in_row(loaded.source),
        "Last complete": time_cell(loaded.complete.ended_at) if loaded.complete else capitalize(_never()),
        "Last run": runs.state_in_words(loaded.runs[0]) if loaded.runs else "",
        "Failed": loaded.failed,
        "Next run": time_cell(times[0]) if times else "Not scheduled",
    }


def _never() -> str:
    """Return "never" for a source without a complete run, or the number of runs if older runs were not read."""
    is_known = len(runs.read_loading_runs()) < runs.LOOKED_THROUGH
    return "never" if is_known else f"not in the last {runs.LOOKED_THROUGH:,} runs"


def _show_source(item: _Loaded) -> None:
    last = item.complete
    notices.show_heading(
        one_line(runs.source_in_words(item.source)),
        f"last complete {ago(last.ended_at)} ({moment(last.ended_at)})" if last else f"{_never()} complete",
        f"{count_text(item.failed, 'document')} failed" if item.failed else "",
    )
    with st.container(horizontal=True):
        if item.runs:
            notices.show_link("Open documents", "documents", source=item.source)
        for report in item.reports:
            if report.item_count:
                label = f"Retry or ignore {count_text(report.item_count, 'failed document')}"
                notices.show_link(label, "ingestion", part="quarantine", source=str(report.source_id))
    st.subheader("Schedules", anchor=False)
    list_found(f"{LIST}.schedules", item.schedules, empty=partial(_offer_schedule, item.runs), Source=None, Type=None)
    st.subheader("Runs", anchor=False)
    show_runs_of(item.source, item.runs)


def _offer_schedule(of: Sequence[RunStatus]) -> None:
    notices.show_empty("No schedule loads this source.", "A schedule keeps its documents up to date.")
    repeated = next((str(run.flow_run_id) for run in of if run.flow != runs.RETRY), "")
    notices.offer_action("New schedule", new_schedule, repeated, key="source.schedule", icon="add")
