"""Starting a bulk upload: the source, the options, and the buttons."""

from collections.abc import Callable
from uuid import UUID

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import api
from app.loading import staging
from app.loading.form import Job, Missing, batch, begin_anew
from app.loading.runs import runs_to_change, start_dropped
from app.loading.upload_fields import (
    DROPPED,
    NAMED,
    NOBODY_CHOSEN,
    Chosen,
    choose_options,
    choose_place,
    upload_job,
)
from app.ui.errors import Problem, problem_of
from app.ui.notices import show_problem, show_warning
from carrel.wire.formats import in_words
from flows.operations.options import UploadOptions
from flows.runs import RunsError

_PROBLEM, _BEGUN = "start.problem", "start.begun"


def open_run(run: UUID) -> None:
    """Clear the form and open the page of the run that was started."""
    begin_anew()
    st.session_state.pop(_PROBLEM, None)
    st.session_state[_BEGUN] = run
    st.query_params.from_dict({"run": str(run)})
    st.rerun()


def was_pressed(*buttons: bool) -> bool:
    """Tell whether one of these was pressed; a second click leads to what the first has begun, instead of starting it.

    It may come before the page of that run is drawn, when the fields are empty already.
    """
    before: UUID | None = st.session_state.pop(_BEGUN, None)
    if any(buttons) and before is not None:
        open_run(before)
    return any(buttons)


def begin(start: Callable[[], UUID]) -> None:
    """Start a run and open its page; show a refusal under the button."""
    try:
        run = start()
    except RunsError as error:
        st.session_state[_PROBLEM] = problem_of(error)
    except staging.StagingError as error:
        st.session_state[_PROBLEM] = Problem(str(error))
    else:
        open_run(run)


def begin_job(job: Job | Missing, *, key: str) -> None:
    """Start a run of what a form says and open its page; show under the button what is missing."""
    if isinstance(job, Missing):
        st.session_state[_PROBLEM] = Problem(job.message, (job.hint,))
    else:
        begin(lambda: runs_to_change().start(job.flow, job.parameters, person=api.me().email, key=f"{key}-{batch()}"))


def show_refusal() -> None:
    """Show why the last start was none."""
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        show_problem("Nothing was started.", problem.message, *problem.notes)


def offer_upload() -> None:
    """Show the form of a bulk upload; then plan or start it."""
    chosen = choose_source()
    options = choose_options(dropped=not (chosen and chosen.place), to=st.query_params.get("collection"))
    with st.container(horizontal=True):
        plan = st.button("Show the plan", type="primary", key="start.plan")
        at_once = st.button("Start the upload", key="start.upload", help="Without looking at the plan first")
    if was_pressed(plan, at_once):
        _press(chosen, options, only_plan=plan)
    show_refusal()
    st.caption(
        f"{in_words()}. The plan tells what would be created, "
        "updated and deleted, and sends nothing. What is already loaded and unchanged is not sent again; a file with "
        "the name of one loaded before becomes its next version; what can't be read is listed with its reason and "
        "stops nothing."
    )


def choose_source() -> Chosen | None:
    """Show inputs for files or a place; return None until one is given."""
    kind = st.segmented_control(
        "From", [DROPPED, NAMED], key="start.from", default=DROPPED, required=True, label_visibility="collapsed"
    )
    if kind == NAMED:
        place = choose_place()
        return Chosen(place=place) if place else None
    files = st.file_uploader("Files", accept_multiple_files=True, label_visibility="collapsed", key=f"files-{batch()}")
    return Chosen(files=tuple(files)) if files and names_are_good(files) else None


def names_are_good(files: list[UploadedFile]) -> bool:
    """Return whether the files' names differ; show problems, and under which name an odd one is stored."""
    if repeated := staging.find_repeated_names(file.name for file in files):
        show_problem(
            f"Several files are called {', '.join(repeated)}.",
            "A document is known by its file's name: rename them, or leave all but one out.",
        )
        return False
    renamed = [(file.name, plain) for file in files if (plain := staging.plain_name(file.name)) != file.name]
    if renamed:
        show_warning(
            "Some names can't be kept as they are.", *(f"{name[:200]} becomes {plain}" for name, plain in renamed)
        )
    return True


def _press(chosen: Chosen | None, options: UploadOptions | None, *, only_plan: bool) -> None:
    """Start the upload, or show what is missing (a disabled button would need a second press after a field)."""
    key = "start-plan" if only_plan else "start-run"
    if chosen is None or not chosen.files:
        job = upload_job(chosen.place if chosen else "", options)
        begin_job(job.as_plan() if only_plan and isinstance(job, Job) else job, key=key)
    elif options is None:
        begin_job(NOBODY_CHOSEN, key=key)
    else:
        begin(lambda: start_dropped(chosen.files, options, only_plan=only_plan, key=f"{key}-{batch()}"))
