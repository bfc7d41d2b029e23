"""The form of a schedule: what runs, from where, with which options, and when."""

from collections.abc import Callable, Mapping
from itertools import cycle, islice
from typing import TypeVar
from uuid import UUID

import streamlit as st
from pydantic import BaseModel, ValidationError

from app import api
from app.formatting import one_line, shorten
from app.loading.quarantine import MOST, label_sources, read_sources
from app.loading.runs import KINDS, is_of_dropped_files, runs, runs_to_change, source_in_words
from app.loading.starting import (
    THEIRS,
    UPLOAD,
    Job,
    Missing,
    addition_job,
    batch,
    begin_anew,
    begin_job,
    choose_options,
    choose_place,
    field,
    fill_addition,
    fill_indexing,
    fill_upload,
    indexing_job,
    show_refusal,
    upload_job,
    was_pressed,
)
from app.loading.when import choose_times, fill_times
from app.quality.sets import all_sets
from app.syncs.labels import sync_names
from app.ui.errors import problem_of, show_errors
from app.ui.notices import leave, show_empty, show_heading, show_problem, show_text, show_warning
from carrel.evaluation import SCORES_OF_REPLIES
from flows.operations.evaluating import EvaluationOptions
from flows.operations.options import CollectionOptions, ReindexOptions, UploadOptions
from flows.prefect_api import UnknownError
from flows.runs import RunsError
from flows.schedule_changes import LONGEST_NAME, Draft, add_schedule, change_schedule
from flows.schedules import Schedule
from flows.times import Times

_READ, _JOB, _WHEN, _SAVED = "schedule.read", "schedule.job", "schedule.when", "schedule.saved"
Options = TypeVar("Options", bound=BaseModel)


def offer_new(*, saved: Callable[[], None]) -> None:
    """Show the form of a new schedule, filled as the run in the address was started, if there is one.

    `saved` is called when the schedule is kept.
    """
    show_heading("New schedule", "It runs by itself at the times you choose.")
    key = f"{_JOB}.{batch()}"
    if key not in st.session_state:
        st.session_state[key] = show_errors(lambda: _job_of_run(st.query_params.get("from", "")))
    job: Job | None = st.session_state[key]
    if job is not None:
        _fill(job)
    if (chosen := st.session_state.pop(_WHEN, None)) is not None:  # before the plan was looked at
        name, times = chosen
        field("name", name)
        if times is not None:
            fill_times(times)
    field("owner", THEIRS)
    flow = _choose_flow()
    if kept := _offer(flow, job if job and job.flow == flow else None, read=None):
        _open(kept, saved)


def offer_change(schedule: Schedule, *, saved: Callable[[], None]) -> None:
    """Show the form of a schedule that is kept already, as it was when its page was opened.

    `saved` is called when the change is kept.
    """
    read: Schedule = st.session_state.setdefault(f"{_READ}.{batch()}", schedule)
    st.subheader("Change", anchor=False)
    job = Job(read.flow, read.parameters)
    field("name", read.name)
    fill_times(read.times[0])
    _fill(job)
    if kept := _offer(read.flow, job, read=read):
        _open(kept, saved)


def _offer(flow: str, base: Job | None, *, read: Schedule | None) -> str:
    """Show the fields and buttons; return the key of the schedule that was kept, if one was."""
    job = _FIELDS[flow](base)
    if job is None:
        return ""
    times = choose_times()
    suggested = "" if isinstance(job, Missing) else _name_of(job)
    name = st.text_input("Name", key=field("name"), max_chars=LONGEST_NAME, placeholder=suggested).strip() or suggested
    with st.container(horizontal=True):
        save = st.button("Save schedule", type="primary", key="schedule.save")
        plans = flow == UPLOAD and read is None
        plan = plans and st.button("Show the plan first", key="schedule.plan", help="In a run that sends nothing")
        st.button("Cancel", key="schedule.cancel", on_click=_leave, args=(read,))
    if plan and was_pressed(plan):
        st.session_state[_WHEN] = name, times
        begin_job(job.as_plan() if isinstance(job, Job) else job, key="schedule-plan")
    show_refusal()
    return _save(read, job, name, times) if save else ""


def _save(read: Schedule | None, job: Job | Missing, name: str, times: Times | None) -> str:
    """Keep the schedule and return its key, or show under the buttons why it can't be kept."""
    if isinstance(job, Missing) or times is None:
        missing = job if isinstance(job, Missing) else Missing("The times are wrong.", "Correct them first.")
        show_problem("Nothing was saved.", missing.message, missing.hint)
        return ""
    draft = Draft(name, job.flow, job.parameters, times)
    try:
        if read is None:
            return str(add_schedule(runs_to_change(), draft, person=api.me().email, key=batch()))
        change_schedule(runs_to_change(), read, draft, person=api.me().email)
    except RunsError as error:
        problem = problem_of(error)
        show_problem("Nothing was saved.", problem.message, *problem.notes)
        return ""
    return read.key


def _open(kept: str, saved: Callable[[], None]) -> None:
    """Open the page of a schedule that was kept, which then says so (`say_saved`)."""
    saved()
    st.session_state[_SAVED] = True
    begin_anew()
    leave("from")
    st.query_params["schedule"] = kept
    st.rerun()


def say_saved() -> None:
    """Say once that a schedule was kept: where the form was, the page has other things now."""
    if st.session_state.pop(_SAVED, False):
        st.toast("The schedule is saved.", icon=":material/check:")


def _leave(read: Schedule | None) -> None:
    begin_anew()
    leave("from", *([] if read else ["schedule"]))


def _choose_flow() -> str:
    return st.selectbox("What to do", list(_FIELDS), key=field("flow"), format_func=lambda flow: _LABELS[flow])


def _name_of(job: Job) -> str:
    """Return the name of a schedule that nobody has named."""
    source = source_in_words(str(job.parameters.get("loaded_from") or job.parameters.get("source") or ""))
    kind = KINDS[job.flow]
    return shorten(one_line(f"{kind}: {source}" if source else kind), LONGEST_NAME - 2)


def _job_of_run(name: str) -> Job | None:
    """Return what a run was started with, without what is for that run alone; None where it can't be had."""
    if not name:
        return None
    try:
        run = runs().run_status(UUID(name))
    except (ValueError, UnknownError):
        show_warning("The run in the address is gone.", "Choose here what the schedule does.")
        return None
    if is_of_dropped_files(run.source) or run.flow not in _FIELDS:
        show_warning("This run can't be repeated by a schedule.", "Its files were dropped here, and are gone.")
        return None
    return Job(run.flow, {name: value for name, value in run.parameters.items() if name not in {"dry_run", "names"}})


def _fill(job: Job) -> None:
    """Fill the fields with a job; options of another version are chosen again."""
    field("flow", job.flow)
    source = str(job.parameters.get("source") or "")
    try:
        if job.flow == UPLOAD:
            fill_upload(UploadOptions.model_validate(job.options), source)
        elif job.flow == "collection-add":
            fill_addition(CollectionOptions.model_validate(job.options), source)
        elif job.flow == "reindex":
            fill_indexing(ReindexOptions.model_validate(job.options), source)
        else:
            field("source", source)
    except ValidationError:
        show_warning("Its options aren't known to this version.", "Choose them again.")


def _upload_fields(base: Job | None) -> Job | Missing:
    place = choose_place()
    return upload_job(place, choose_options(dropped=False, base=_known(UploadOptions, base)))


def _addition_fields(base: Job | None) -> Job | Missing | None:
    return addition_job(_known(CollectionOptions, base))


def _indexing_fields(base: Job | None) -> Job | Missing:
    return indexing_job(_known(ReindexOptions, base))


def _sync_fields(base: Job | None) -> Job | Missing | None:
    names = show_errors(sync_names)
    if not names:
        show_empty("There is no sync yet.", "Make one on the page Syncs.")
        return None
    chosen = _choose("Sync", names)
    return Job("docstore-sync", {**(base.parameters if base else {}), "source": chosen})


def _retry_fields(base: Job | None) -> Job | Missing | None:
    del base
    sources = {one.ledger: one for one in show_errors(read_sources) if not is_of_dropped_files(one.source)}
    if not sources:
        show_empty("Nothing was loaded from a folder or URL yet.", "A schedule retries what failed of one.")
        return None
    labels = label_sources(list(islice(sources.values(), MOST)))
    chosen = sources[
        _choose("Source", {one.ledger: labels[str(one.source_id)] for one in islice(sources.values(), MOST)})
    ]
    return Job("quarantine-retry", {"source": chosen.ledger, "loaded_from": chosen.source})


def _snapshot_fields(base: Job | None) -> Job | Missing:
    del base
    show_text("Writes down who may read what, and compares that with the last snapshot.")
    return Job("permission-snapshot", {})


def _evaluation_fields(base: Job | None) -> Job | Missing | None:
    # By its name, which alerts then say; each is unique.
    names = {one.name: one_line(one.name) for one in show_errors(all_sets) if one.agent_id}
    if not names:
        show_empty("No agent has an evaluation set yet.", "Make one on the page Agents, in the part Evaluation sets.")
        return None
    chosen = _choose("Evaluation set", names)
    show_text("What each score must reach, otherwise the run fails, and alerts tell people. 0 asks nothing of it.")
    kept = _known(EvaluationOptions, base) or EvaluationOptions()
    floors: dict[str, float] = {}
    for column, name in zip(cycle(st.columns(3)), SCORES_OF_REPLIES, strict=False):
        key = field(f"floor.{name}", kept.at_least.get(name, 0.0))
        label = name.replace("_", " ").capitalize()
        floors[name] = column.number_input(label, min_value=0.0, max_value=1.0, step=0.05, key=key)
    options = {"at_least": {name: floor for name, floor in floors.items() if floor}}
    return Job("agent-evaluation", {"source": chosen, "options": options})


def _choose(label: str, names: Mapping[str, str]) -> str:
    """Show a choice of sources, and return the chosen one; one that is gone can be replaced."""
    key = field("source")
    if st.session_state.get(key) not in names:
        st.session_state.pop(key, None)
    return st.selectbox(label, list(names), key=key, format_func=lambda one: names[one])


def _known(model: type[Options], base: Job | None) -> Options | None:
    """Return the options of a job, of which the fields say only some."""
    try:
        return model.model_validate(base.options) if base else None
    except ValidationError:
        return None


_LABELS: Mapping[str, str] = {
    UPLOAD: "Load documents",
    "collection-add": "Add to a collection",
    "docstore-sync": "Run a sync",
    "reindex": "Re-index",
    "quarantine-retry": "Retry what failed",
    "permission-snapshot": "Take a snapshot of permissions",
    "agent-evaluation": "Ask an agent its evaluation set",
}
_FIELDS: Mapping[str, Callable[[Job | None], Job | Missing | None]] = {
    UPLOAD: _upload_fields,
    "collection-add": _addition_fields,
    "docstore-sync": _sync_fields,
    "reindex": _indexing_fields,
    "quarantine-retry": _retry_fields,
    "permission-snapshot": _snapshot_fields,
    "agent-evaluation": _evaluation_fields,
}
