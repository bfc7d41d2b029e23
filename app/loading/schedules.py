"""Schedules: what runs by itself, and when; made, changed, paused, resumed, run now and deleted."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import uuid4

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.loading.runs import KINDS, runs, runs_to_change, source_in_words, state_in_words, times_in_words
from app.loading.schedule_form import offer_change, offer_new, say_saved
from app.loading.starting import begin_anew
from app.ui.dialogs import confirm
from app.ui.errors import Problem, problem_of, show_errors
from app.ui.notices import leave, offer_way_back, show_empty, show_heading, show_note, show_table
from app.ui.tables import forget, show_pages, source_of
from flows.runs import RunsError, RunStatus
from flows.schedule_changes import delete_schedule, pause_schedule, resume_schedule, run_schedule
from flows.schedules import Schedule, Seen, list_schedules
from flows.schedules import look_at as see

LIST, ADDRESS, NEW = "schedules", "schedule", "new"
_PROBLEM = "schedules.problem"
_WITH_SEEN = tuple[Schedule, Seen]


def show_schedules() -> None:
    """Show the schedules, the one in the address, or the form of a new one."""
    say_saved()
    asked = st.query_params.get(ADDRESS, "")
    if not asked:
        _show_list()
        return
    offer_way_back("All schedules", ADDRESS, "from", also=begin_anew)
    if asked == NEW:
        offer_new(saved=_forget)
        return
    found = next((one for one in show_errors(_read) if one[0].key == asked), None)
    if found is None:
        show_empty("There is no such schedule.", "It was deleted, or the address is wrong. See all schedules.")
    else:
        _show_one(*found)


def new_schedule(of_run: str = "") -> None:
    """Open the form of a new schedule, filled as a run was started; for the callback of a button."""
    st.query_params.from_dict({"part": "schedules", ADDRESS: NEW} | ({"from": of_run} if of_run else {}))
    begin_anew()


def _show_list() -> None:
    with st.container(horizontal=True):
        st.button("New schedule", type="primary", key="schedules.new", icon=":material/add:", on_click=new_schedule)
        if st.button("Refresh", icon=":material/refresh:", key="schedules.again"):
            _forget()
    found = show_errors(_read)
    show_pages(
        LIST,
        source_of(found, about=tuple((one.key, one.paused, one.revision) for one, _ in found)),
        row=_row,
        empty=lambda: show_empty(
            "No schedules yet.",
            "A schedule loads a folder, runs a sync or takes a snapshot of permissions by itself, at the times you "
            "choose. Make one with New schedule.",
        ),
        columns={"Source": st.column_config.TextColumn(width="medium")},
        go=_open,
        hint="Choose a row to run it now, to pause it, or to change it.",
    )


def _open(chosen: _WITH_SEEN) -> None:
    st.query_params[ADDRESS] = chosen[0].key
    begin_anew()  # the form of when it was last looked at
    st.rerun()


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _read() -> list[_WITH_SEEN]:
    schedules = list_schedules(runs())
    seen = see(runs(), schedules)
    return [(one, seen[one.key]) for one in schedules]


def _forget() -> None:
    forget(LIST)
    _read.clear()


def _row(found: _WITH_SEEN) -> Mapping[str, object]:
    schedule, seen = found
    return {
        "Name": one_line(schedule.name),
        "When": _when(schedule),
        "Next": _next(schedule, seen.next_at[:1]),
        "Last": ago(_last_at(seen.last)),
        "Last result": state_in_words(seen.last) if seen.last else "",
        "Type": KINDS.get(schedule.flow, schedule.flow),
        "Source": one_line(_source(schedule)),
    }


def _source(schedule: Schedule) -> str:
    return source_in_words(str(schedule.parameters.get("loaded_from") or schedule.parameters.get("source") or ""))


def _when(schedule: Schedule) -> str:
    if not schedule.times:
        return "when somebody starts it"
    return "; ".join(times_in_words(times) for times in schedule.times)


def _next(schedule: Schedule, times: Sequence[datetime]) -> str:
    return "paused" if schedule.paused else ", ".join(moment(at) for at in times)


def _last_at(run: RunStatus | None) -> datetime | None:
    return None if run is None else run.started_at or run.due_at


def _show_one(schedule: Schedule, seen: Seen) -> None:
    label = schedule.label
    show_heading(
        one_line(schedule.name),
        KINDS.get(schedule.flow, schedule.flow),
        "paused" if schedule.paused else "",
        f"made by {one_line(label.made_by)}" if label and label.made_by else "",
        f"last changed by {one_line(label.changed_by)}" if label and label.changed_by else "",
    )
    _show_problem()
    last = f"{state_in_words(seen.last)}, {ago(_last_at(seen.last))}" if seen.last else "It has not run yet"
    show_table(
        [
            ("Source", _source(schedule) or "It takes no source"),
            ("When", _when(schedule)),
            *([("Next", _next(schedule, seen.next_at) or "not planned yet")] if schedule.times else []),
            ("Last run", last),
        ],
        named=True,
    )
    with st.container(horizontal=True):
        _offer_actions(schedule, seen)
    if schedule.schedule_id:
        offer_change(schedule, saved=_forget)
    else:
        show_note(
            "It stands in the file of schedules on the server (prefect.yaml, or the one that CARREL_FLOWS_DEPLOYMENTS "
            "names): what runs, from where and when is changed there, and followed within seconds."
        )


def _offer_actions(schedule: Schedule, seen: Seen) -> None:
    start = partial(run_schedule, key=uuid4().hex)  # a second click, before this is drawn anew, starts no second run
    st.button("Run now", key="schedule.start", type="primary", on_click=_run_now, args=(start, schedule))
    if schedule.paused:
        st.button("Resume", key="schedule.resume", on_click=_resume, args=(schedule,))
    else:
        st.button(
            "Pause",
            key="schedule.pause",
            disabled=not schedule.times,
            help="It starts nothing until it is resumed here, also when what carries out the runs is restarted. A run "
            "in progress isn't stopped.",
            on_click=_pause,
            args=(schedule,),
        )
    if schedule.schedule_id and st.button("Delete …", key="schedule.delete"):
        confirm(
            "Delete this schedule?",
            "It runs no more, and can't be brought back. Its runs stay listed, one in progress continues, and the "
            "documents that it has loaded stay.",
            doing="Delete it",
            action=lambda: _delete(schedule),
        )
    if seen.last is not None and st.button("See the last run", key="schedule.last"):
        st.query_params.from_dict({"run": str(seen.last.flow_run_id)})
        st.rerun()


def _pause(schedule: Schedule) -> None:
    _try(lambda: _change(pause_schedule, schedule))


def _resume(schedule: Schedule) -> None:
    _try(lambda: _change(resume_schedule, schedule))


def _change(work: Callable[..., None], schedule: Schedule) -> None:
    work(runs_to_change(), schedule, person=api.me().email)
    _forget()
    begin_anew()


def _delete(schedule: Schedule) -> None:
    delete_schedule(runs_to_change(), schedule)
    _forget()
    leave(ADDRESS)


def _run_now(start: Callable[..., object], schedule: Schedule) -> None:
    def work() -> None:
        run = start(runs_to_change(), schedule, person=api.me().email)
        _forget()
        st.query_params.from_dict({"run": str(run)})

    _try(work)


def _try(work: Callable[[], None]) -> None:
    """Do what a button's callback does, and keep its error for the page."""
    try:
        work()
    except RunsError as error:
        st.session_state[_PROBLEM] = problem_of(error)


def _show_problem() -> None:
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        problem.show()
