"""What runs by itself, and when: paused, resumed, and started at once."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.loading.labels import KINDS, source_in_words, state_in_words, times_in_words
from app.loading.runs import runs, runs_to_change
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_heading, show_note, show_table
from app.ui.tables import forget, show_pages, source_of
from flows.runs import Runs, RunStatus
from flows.schedules import Schedule, Seen, list_schedules, look_at, pause, resume

LIST = "schedules"
_WITH_SEEN = tuple[Schedule, Seen]


def show_schedules() -> None:
    """Show the schedules, with buttons for the chosen one."""
    if st.button("Refresh", icon=":material/refresh:", key="schedules.again"):
        forget(LIST)
        _read.clear()
    found = show_errors(_read)
    chosen = show_pages(
        LIST,
        source_of(found, about=tuple((one.deployment_id, one.paused) for one, _ in found)),
        row=_row,
        empty=lambda: show_empty(
            "Nothing runs by itself.",
            "What does stands in prefect.yaml where the runs are carried out, or in the file that "
            "CARREL_FLOWS_DEPLOYMENTS names there: an entry for what, from where, and when.",
        ),
        columns={"From": st.column_config.TextColumn(width="medium")},
    )
    if not found:
        return
    if chosen is None:
        st.caption("Choose a row to pause it, to resume it, or to start it at once.")
    else:
        _show_one(*chosen)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _read() -> list[_WITH_SEEN]:
    schedules = list_schedules(runs())
    seen = look_at(runs(), schedules)
    return [(one, seen[one.deployment_id]) for one in schedules]


def _row(found: _WITH_SEEN) -> Mapping[str, object]:
    schedule, seen = found
    return {
        "Name": schedule.name,
        "When": _when(schedule),
        "Next": _next(schedule, seen.next_at[:1]),
        "Last": ago(_last_at(seen.last)),
        "It was": state_in_words(seen.last) if seen.last else "",
        "What": KINDS.get(schedule.flow, schedule.flow),
        "From": one_line(source_in_words(str(schedule.parameters.get("source") or ""))),
    }


def _when(schedule: Schedule) -> str:
    if not schedule.times:
        return "when somebody starts it"
    return "; ".join(times_in_words(times) for times in schedule.times)


def _next(schedule: Schedule, times: Sequence[datetime]) -> str:
    return "paused" if schedule.paused else ", ".join(moment(at) for at in times)


def _last_at(run: RunStatus | None) -> datetime | None:
    return None if run is None else run.started_at or run.due_at


def _show_one(schedule: Schedule, seen: Seen) -> None:
    show_heading(schedule.name, KINDS.get(schedule.flow, schedule.flow), "paused" if schedule.paused else "")
    show_table(
        [
            ("From", source_in_words(str(schedule.parameters.get("source") or "")) or "It takes no source"),
            ("When", _when(schedule)),
            *([("Next", _next(schedule, seen.next_at) or "not planned yet")] if schedule.times else []),
        ],
        named=True,
    )
    with st.container(horizontal=True):
        if schedule.paused:
            if st.button("Resume", key="schedule.resume", type="primary"):
                show_errors(lambda: _change(resume, schedule))
                st.rerun()
        elif st.button("Pause …", key="schedule.pause", disabled=not schedule.times):
            confirm(
                "Pause this schedule?",
                "It starts nothing until it is resumed here, also when the file of schedules is read again or what "
                "carries out the runs is restarted. A run in progress isn't stopped.",
                doing="Pause it",
                action=partial(_change, pause, schedule),
            )
        if st.button("Start now …", key="schedule.start"):
            confirm(
                "Start it now?",
                "It runs as by schedule, beside its times. While another run has the source, this one ends at once.",
                doing="Start it",
                action=partial(_start, schedule),
            )
        if seen.last is not None and st.button("See the last run", key="schedule.last"):
            st.query_params["run"] = str(seen.last.flow_run_id)
            st.rerun()
    show_note("What runs, from where and when is changed in the file of schedules, not here.")


def _change(work: Callable[[Runs, Schedule], None], schedule: Schedule) -> None:
    work(runs_to_change(), schedule)
    _read.clear()
    forget(LIST)


def _start(schedule: Schedule) -> None:
    run: UUID = runs_to_change().start_deployment(schedule.deployment_id, {}, person=api.me().email)
    st.query_params["run"] = str(run)
