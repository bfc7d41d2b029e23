"""The page of a run: watching it, stopping it, starting it again, or starting what it has planned."""

from collections.abc import Callable
from functools import partial
from uuid import UUID, uuid4

import streamlit as st

from app.loading import staging
from app.loading.labels import is_of_dropped_files
from app.loading.run import show_head, show_run
from app.loading.runs import StartError, is_done, is_gone, runs, runs_to_change, start_again, start_planned
from app.loading.schedules import new_schedule
from app.loading.upload_fields import UPLOAD
from app.lookup import is_id
from app.settings import settings
from app.ui.dialogs import confirm
from app.ui.errors import Problem, problem_of, show_errors
from app.ui.links import offer_way_back, show_link
from app.ui.notices import show_empty, show_problem, show_warning
from flows.runs import FLOWS, RunsError, RunStatus, UnknownError

REFRESH_SECONDS = 1.0
_PROBLEM = "run.problem"


def show_run_page(name: str) -> None:
    """Show the run of this id, or say that there is none."""
    offer_way_back("All runs", "run", also=_look_at_all)
    run = show_errors(lambda: _find(name))
    if run is None:
        show_empty("There is no such run.", "It was removed from Prefect, or the address is wrong. See all runs.")
        return
    if run.finished:
        _show_ended(run)
    else:
        _offer_stop(run)
        watch(run.flow_run_id)


def _look_at_all() -> None:
    st.session_state.pop(_PROBLEM, None)
    st.query_params["part"] = "runs"


def _find(name: str) -> RunStatus | None:
    try:
        return runs().run_status(UUID(name))
    except (ValueError, UnknownError):
        return None


@st.fragment(run_every=REFRESH_SECONDS)
def watch(run: UUID) -> None:
    """Show a running run, refreshed; when it has ended, draw the page again without refreshing."""
    try:
        status = runs().run_status(run)
        left_waiting = runs().is_left_waiting(status)
    except UnknownError:  # removed meanwhile, which the page says
        st.rerun()
    except RunsError as error:
        problem = problem_of(error)
        show_warning(
            "The state of this run can't be read now. This page keeps trying.", problem.message, *problem.notes
        )
        return
    if status.finished:
        st.rerun()
    show_head(status)
    show_run(status, left_waiting=left_waiting)


def _offer_stop(run: RunStatus) -> None:
    """Show a button that stops a run; outside of the refreshed part, which would draw over the question."""
    stops = run.state == "CANCELLING"
    if st.button("Stop …", key=f"stop.{run.flow_run_id}", icon=":material/stop_circle:", disabled=stops):
        confirm(
            "Stop this run?",
            "What it has sent stays. Started again, it continues from there.",
            doing="Stop it",
            action=lambda: runs_to_change().cancel(run.flow_run_id),
        )


def _show_ended(run: RunStatus) -> None:
    staging.sweep(settings().uploads_dir, lambda one: one == run.flow_run_id and is_done(one))
    show_head(run)
    _show_problem()
    again = partial(start_again, key=uuid4().hex)  # a second click, before this is drawn anew, starts no second run
    if run.only_plans and run.state == "COMPLETED":
        with st.container(horizontal=True):
            _offer("Start the upload", run, start_planned, kind="primary")
            _offer("Plan again", run, again)
            _offer_schedule(run)
    elif is_gone(run):
        show_link("Load files again", "ingestion")
    elif run.flow in FLOWS:  # not of an earlier version
        with st.container(horizontal=True):
            _offer("Plan again" if run.only_plans else "Run again", run, again)
            _offer_schedule(run)
    show_run(run)
    _show_results(run)


def _show_results(run: RunStatus) -> None:
    """Show links to what an upload has loaded."""
    if run.flow != UPLOAD or run.only_plans or run.state != "COMPLETED":
        return
    with st.container(horizontal=True):
        show_link("Open the documents", "documents", of="all")
        collection = str(run.options.get("collection") or "")
        if is_id(collection):
            show_link("Open the collection", "collections", collection=collection)


def _offer(label: str, run: RunStatus, start: Callable[[RunStatus], UUID], *, kind: str = "secondary") -> None:
    """Show a button that starts another run and opens its page, once for two clicks."""
    st.button(
        label,
        key=f"{label}.{run.flow_run_id}",
        type="primary" if kind == "primary" else "secondary",
        on_click=_start_from,
        args=(run, start),
    )


def _offer_schedule(run: RunStatus) -> None:
    """Show a button that opens the form of a schedule, filled as the run was started."""
    if not is_of_dropped_files(run.source):
        st.button(
            "Run this every …",
            key=f"schedule.{run.flow_run_id}",
            icon=":material/event_repeat:",
            on_click=new_schedule,
            args=(str(run.flow_run_id),),
        )


def _start_from(run: RunStatus, start: Callable[[RunStatus], UUID]) -> None:
    try:
        st.query_params["run"] = str(start(run))
    except RunsError as error:
        st.session_state[_PROBLEM] = problem_of(error)
    except StartError as error:
        st.session_state[_PROBLEM] = Problem(str(error))


def _show_problem() -> None:
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        show_problem("It did not start.", problem.message, *problem.notes)
