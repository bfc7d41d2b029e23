"""Schedules: the form, times in words, and creating, changing, pausing, resuming, running and deleting schedules."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time
from functools import cache, partial
from itertools import cycle, islice
from typing import TypeVar
from uuid import uuid4
from zoneinfo import available_timezones

import streamlit as st
from pydantic import BaseModel, ValidationError

from app import api
from app.formatting import ago, browser_zone, moment, one_line, shorten
from app.labels import EVERY, RUN_KINDS, SCHEDULED
from app.loading import runs, starting
from app.loading.quarantine import MOST, label_sources, read_sources
from app.loading.starting import Job
from app.lookup import find_by_id
from app.quality.sets import all_sets
from app.syncs.labels import sync_names
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import Problem, keep_problem, problem_of, require_found, show_errors, show_kept_problem
from app.ui.tables import forget, show_pages, source_of
from carrel.evaluation import SCORES_OF_REPLIES
from flows import schedules
from flows.operations.evaluating import EvaluationOptions
from flows.operations.options import CollectionOptions, ReindexOptions, UploadOptions
from flows.runs import RunsError, RunStatus, source_in
from flows.schedules import LONGEST_NAME, Draft, InvalidTimesError, Schedule, Seen, Times

SHOWN = 5
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_FORMS: Mapping[str, str] = {
    "hour": r"(?P<minute>\d+) \* \* \* \*",
    "day": r"(?P<minute>\d+) (?P<hour>\d+) \* \* \*",
    "weekdays": r"(?P<minute>\d+) (?P<hour>\d+) \* \* 1-5",
    "week": r"(?P<minute>\d+) (?P<hour>\d+) \* \* (?P<weekday>[0-6])",
    "month": r"(?P<minute>\d+) (?P<hour>\d+) (?P<day>\d+) \* \*",
}
_DEFAULT_AT = time(2, 0)


def choose_times() -> Times | None:
    """Show the fields and the next times in words; return None while the fields are incomplete."""
    every, second, zone_column = st.columns(3)
    kind = every.selectbox("When", list(EVERY), key=starting.field("every", "day"), format_func=lambda one: EVERY[one])
    with second:
        cron = _ask_cron(kind)
    timezone = zone_column.selectbox("Time zone", _zones(), key=starting.field("zone", browser_zone().key))
    times = Times(cron, timezone)
    try:
        schedules.check_times(times)
    except InvalidTimesError as error:
        notices.show_problem(str(error))
        return None
    notices.show_text(f"{runs.times_in_words(times)}. Next {SHOWN} runs:")
    notices.show_table(
        [
            (f"{number}.", f"{at:%A, %d %B %Y, %H:%M}")
            for number, at in enumerate(schedules.next_times([times], SHOWN), 1)
        ]
    )
    return times


def _fill_times(times: Times) -> None:
    for name, value in fields_of(times.cron).items():
        starting.field(name, value)
    starting.field("zone", times.timezone)


def fields_of(cron: str) -> dict[str, object]:
    """Return the form fields for a cron expression, or the expression itself if too complex for the simple fields."""
    for every, form in _FORMS.items():
        if (found := re.fullmatch(form, " ".join(cron.split()))) is None:
            continue
        said = {name: int(number) for name, number in found.groupdict().items()}
        if said["minute"] > 59 or said.get("hour", 0) > 23:
            continue
        at = {"at": time(said["hour"], said["minute"])} if "hour" in said else {"minute": said["minute"]}
        days = {name: said[name] for name in ("weekday", "day") if name in said}
        return {"every": every, **at, **days}
    return {"every": "cron", "cron": cron}


def _ask_cron(kind: str) -> str:
    if kind == "cron":
        return st.text_input(
            "Minute, hour, day of month, month, day of week",
            key=starting.field("cron", "0 2 * * *"),
            help="Such as */15 * * * * (every 15 minutes) or 0 6 1,15 * * (the 1st and 15th at 06:00).",
        ).strip()
    if kind == "hour":
        return f"{st.number_input('At minute', 0, 59, key=starting.field('minute', 0))} * * * *"
    days = "* * 1-5" if kind == "weekdays" else "* * *"
    if kind == "week":
        key = starting.field("weekday", 1)
        days = f"* * {st.selectbox('On', list(range(len(DAYS))), key=key, format_func=DAYS.__getitem__)}"
    elif kind == "month":
        hint = "Months without this day are skipped."
        days = f"{st.number_input('On day', 1, 31, key=starting.field('day', 1), help=hint)} * *"
    at = st.time_input("At", key=starting.field("at", _DEFAULT_AT), step=300) or _DEFAULT_AT
    return f"{at.minute} {at.hour} {days}"


@cache
def _zones() -> list[str]:
    return sorted(available_timezones())


_READ, _JOB, _WHEN, _SAVED = "schedule.read", "schedule.job", "schedule.when", "schedule.saved"
Options = TypeVar("Options", bound=BaseModel)


def offer_new(*, saved: Callable[[], None]) -> None:
    """Show the form of a new schedule, filled from the run in the address, if any."""
    notices.show_heading("New schedule", "The schedule starts a run at the times you choose.")
    key = f"{_JOB}.{starting.batch()}"
    if key not in st.session_state:
        st.session_state[key] = show_errors(lambda: _job_of_run(st.query_params.get("from", "")))
    job: Job | None = st.session_state[key]
    if job is not None:
        _fill_form(job)
    if (chosen := st.session_state.pop(_WHEN, None)) is not None:  # chosen before looking at the plan
        name, times = chosen
        starting.field("name", name)
        if times is not None:
            _fill_times(times)
    flow = st.selectbox("Action", list(_FIELDS), key=starting.field("flow"), format_func=SCHEDULED.__getitem__)
    _offer_form(flow, job if job and job.flow == flow else None, read=None, saved=saved)


def offer_change(schedule: Schedule, *, saved: Callable[[], None]) -> None:
    read: Schedule = st.session_state.setdefault(f"{_READ}.{starting.batch()}", schedule)
    st.subheader("Change", anchor=False)
    job = Job(read.flow, read.parameters)
    starting.field("name", read.name)
    _fill_times(read.times[0])
    _fill_form(job)
    _offer_form(read.flow, job, read=read, saved=saved)


def _offer_form(flow: str, base: Job | None, *, read: Schedule | None, saved: Callable[[], None]) -> None:
    if (job := _FIELDS[flow](base)) is None:
        return
    times = choose_times()
    suggested = "" if isinstance(job, Problem) else _suggest_name(job)
    typed = st.text_input("Name", key=starting.field("name"), max_chars=LONGEST_NAME, placeholder=suggested)
    name = typed.strip() or suggested
    with st.container(horizontal=True):
        save = st.button("Save schedule", type="primary", key="schedule.save")
        plans = flow == starting.UPLOAD and read is None
        plan = plans and st.button("Show plan first", key="schedule.plan", help="Starts a run that sends nothing")
        notices.offer_action("Cancel", _leave, read, key="schedule.cancel")
    if plan and starting.was_pressed(plan):
        st.session_state[_WHEN] = name, times
        starting.begin_job(job.as_plan() if isinstance(job, Job) else job, key="schedule-plan")
    starting.show_refusal()
    if save and (kept := _save_schedule(read, job, name, times)):
        saved()
        st.session_state[_SAVED] = True
        starting.reset_fields()
        notices.drop_parameters("from")
        st.query_params["schedule"] = kept
        st.rerun()


def _save_schedule(read: Schedule | None, job: Job | Problem, name: str, times: Times | None) -> str:
    """Add or change a schedule, and return its key. Show the problem and return "" if nothing was saved."""
    if read is None or (isinstance(job, Job) and job.parameters.get("source") != read.parameters.get("source")):
        job = starting.check_place(job)
    if isinstance(job, Problem) or times is None:
        problem = job if isinstance(job, Problem) else Problem("The times are not valid.", ("Correct the times.",))
        notices.show_problem("Nothing was saved.", problem.message, *problem.notes)
        return ""
    draft = Draft(name, job.flow, job.parameters, times)
    try:
        if read is None:
            added = schedules.add_schedule(runs.runs_to_change(), draft, person=api.me().email, key=starting.batch())
            return str(added)
        schedules.change_schedule(runs.runs_to_change(), read, draft, person=api.me().email)
    except RunsError as error:
        problem = problem_of(error)
        notices.show_problem("Nothing was saved.", problem.message, *problem.notes)
        return ""
    return read.key


def _leave(read: Schedule | None) -> None:
    starting.reset_fields()
    notices.drop_parameters("from", *([] if read else ["schedule"]))


def _suggest_name(job: Job) -> str:
    source, kind = runs.source_in_words(source_in(job.parameters)), RUN_KINDS[job.flow]
    return shorten(one_line(f"{kind}: {source}" if source else kind), LONGEST_NAME - 2)


def _job_of_run(name: str) -> Job | None:
    """Return a run's job without options for a single run; None, with a warning, for a run that cannot be repeated."""
    if not name:
        return None
    if (run := find_by_id(runs.server().run_status, name)) is None:
        notices.show_warning("The run in the URL no longer exists.", "Choose an action for the schedule.")
        return None
    if runs.is_of_dropped_files(run.source) or run.flow not in _FIELDS:
        notices.show_warning(
            "A schedule cannot repeat this run.",
            "Its files were uploaded from a browser, so the server no longer has them.",
        )
        return None
    apart = {"dry_run", "names", "confirmed"}
    return Job(run.flow, {name: value for name, value in run.parameters.items() if name not in apart})


def _fill_form(job: Job) -> None:
    starting.field("flow", job.flow)
    source = str(job.parameters.get("source") or "")
    try:
        if job.flow == starting.UPLOAD:
            starting.fill_upload(UploadOptions.model_validate(job.options), source)
        elif job.flow == "collection-add":
            starting.fill_addition(CollectionOptions.model_validate(job.options), source)
        elif job.flow == "reindex":
            starting.fill_indexing(ReindexOptions.model_validate(job.options), source)
        else:
            starting.field("source", source)
    except ValidationError:
        notices.show_warning("This version of Carrel does not know some of its options.", "Choose the options again.")


def _sync_fields(base: Job | None) -> Job | None:
    if not (names := show_errors(sync_names)):
        notices.show_empty("There are no syncs yet.", "Create a sync on the Syncs page.")
        return None
    chosen = starting.choose_by_name("Sync", names, starting.field("source"))
    return Job("docstore-sync", {**(base.parameters if base else {}), "source": chosen})


def _retry_fields() -> Job | None:
    sources = {item.ledger: item for item in show_errors(read_sources) if not runs.is_of_dropped_files(item.source)}
    if not sources:
        notices.show_empty(
            "No folder or URL has been loaded yet.",
            "A schedule can retry only what failed to load from a folder or URL.",
        )
        return None
    offered = list(islice(sources.values(), MOST))
    labels = label_sources(offered)
    names = {source.ledger: labels[str(source.source_id)] for source in offered}
    chosen = sources[starting.choose_by_name("Source", names, starting.field("source"))]
    return Job("quarantine-retry", {"source": chosen.ledger, "loaded_from": chosen.source})


def _snapshot_fields() -> Job:
    notices.show_text("Records who can read each document, and compares this with the last snapshot.")
    return Job("permission-snapshot", {})


def _evaluation_fields(base: Job | None) -> Job | None:
    # By name, because alerts contain names; names are unique.
    names = {all_set.name: one_line(all_set.name) for all_set in show_errors(all_sets) if all_set.agent_id}
    if not names:
        notices.show_empty(
            "No agent has an evaluation set yet.", "Create an evaluation set on the Agents page, under Evaluation sets."
        )
        return None
    chosen = starting.choose_by_name("Evaluation set", names, starting.field("source"))
    notices.show_text("If a score is lower than its minimum, the run fails and alerts are sent. 0 means no minimum.")
    kept = _read_options(EvaluationOptions, base) or EvaluationOptions()
    floors: dict[str, float] = {}
    for column, name in zip(cycle(st.columns(3)), SCORES_OF_REPLIES, strict=False):
        key = starting.field(f"floor.{name}", kept.at_least.get(name, 0.0))
        label = name.replace("_", " ").capitalize()
        floors[name] = column.number_input(label, min_value=0.0, max_value=1.0, step=0.05, key=key)
    options = {"at_least": {name: floor for name, floor in floors.items() if floor}}
    return Job("agent-evaluation", {"source": chosen, "options": options})


def _read_options(model: type[Options], base: Job | None) -> Options | None:
    try:
        return model.model_validate(base.options) if base else None
    except ValidationError:
        return None


_FIELDS: Mapping[str, Callable[[Job | None], Job | Problem | None]] = {
    starting.UPLOAD: lambda base: starting.upload_job(
        starting.choose_place(),
        starting.choose_options(dropped=False, base=_read_options(UploadOptions, base)),
        ask="Enter a folder, glob pattern, manifest or object store, and save again.",
    ),
    "collection-add": lambda base: starting.addition_job(_read_options(CollectionOptions, base)),
    "docstore-sync": _sync_fields,
    "reindex": lambda base: starting.indexing_job(_read_options(ReindexOptions, base)),
    "quarantine-retry": lambda _: _retry_fields(),
    "permission-snapshot": lambda _: _snapshot_fields(),
    "agent-evaluation": _evaluation_fields,
}

LIST, ADDRESS, NEW = "schedules", "schedule", "new"
_PROBLEM = "schedules.problem"
WithSeen = tuple[Schedule, Seen]


def show_schedules() -> None:
    if st.session_state.pop(_SAVED, False):
        st.toast("Schedule saved.", icon=":material/check:")
    if not (asked := st.query_params.get(ADDRESS, "")):
        _show_list()
        return
    notices.offer_way_back("All schedules", ADDRESS, "from", also=starting.reset_fields)
    if asked == NEW:
        offer_new(saved=_forget)
        return
    known = {schedule[0].key: schedule for schedule in show_errors(read_schedules)}
    hint = "It was deleted, or the URL is wrong. Go to all schedules."
    _show_schedule(*require_found(lambda: known.get(asked), "This schedule does not exist.", hint))


def new_schedule(of_run: str = "") -> None:
    """Open the form of a new schedule, filled from a run. For the callback of a button."""
    st.query_params.from_dict({"part": "schedules", ADDRESS: NEW} | ({"from": of_run} if of_run else {}))
    starting.reset_fields()


def _show_list() -> None:
    with st.container(horizontal=True):
        notices.offer_action("New schedule", new_schedule, key="schedules.new", icon="add", kind="primary")
        notices.offer_action("Refresh", _forget, key="schedules.again", icon="refresh")
    more = "A schedule loads a folder, runs a sync or takes a permission snapshot at the times you choose."
    empty = partial(notices.show_empty, "No schedules yet.", f"{more} Select New schedule to create a schedule.")
    list_found(LIST, show_errors(read_schedules), empty=empty)


def list_found(key: str, found: Sequence[WithSeen], *, empty: Callable[[], None], **columns: None) -> None:
    show_pages(
        key,
        source_of(found, about=tuple((plan.key, plan.paused, plan.revision) for plan, _ in found)),
        row=_row,
        empty=empty,
        columns=columns,
        go=_open_schedule,
        hint="Select a row to run, pause or change the schedule.",
    )


def _open_schedule(chosen: WithSeen) -> None:
    st.query_params.from_dict({"part": "schedules", ADDRESS: chosen[0].key})
    starting.reset_fields()  # otherwise the form would show earlier values
    st.rerun()


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def read_schedules() -> list[WithSeen]:
    listed = schedules.list_schedules(runs.server())
    seen = schedules.look_at(runs.server(), listed)
    return [(schedule, seen[schedule.key]) for schedule in listed]


def _forget() -> None:
    forget(LIST)
    read_schedules.clear()


def _row(found: WithSeen) -> Mapping[str, object]:
    schedule, seen = found
    return {
        "Name": one_line(schedule.name),
        "When": _times_of(schedule),
        "Next": _next(schedule, seen.next_at[:1]),
        "Last": ago(_last_at(seen.last)),
        "Last result": runs.state_in_words(seen.last) if seen.last else "",
        "Type": RUN_KINDS.get(schedule.flow, schedule.flow),
        "Source": runs.source_in_row(schedule.source),
    }


def _times_of(schedule: Schedule) -> str:
    return "; ".join(map(runs.times_in_words, schedule.times)) or "when someone starts it"


def _next(schedule: Schedule, times: Sequence[datetime]) -> str:
    return "paused" if schedule.paused else ", ".join(moment(at) for at in times)


def _last_at(run: RunStatus | None) -> datetime | None:
    return None if run is None else run.started_at or run.due_at


def _show_schedule(schedule: Schedule, seen: Seen) -> None:
    label = schedule.label
    notices.show_heading(
        one_line(schedule.name),
        RUN_KINDS.get(schedule.flow, schedule.flow),
        "paused" if schedule.paused else "",
        f"created by {one_line(label.made_by)}" if label and label.made_by else "",
        f"last changed by {one_line(label.changed_by)}" if label and label.changed_by else "",
    )
    show_kept_problem(_PROBLEM)
    last = f"{runs.state_in_words(seen.last)}, {ago(_last_at(seen.last))}" if seen.last else "No runs yet"
    notices.show_table(
        [
            ("Source", runs.source_in_words(schedule.source) or "No source"),
            ("When", _times_of(schedule)),
            *([("Next", _next(schedule, seen.next_at) or "not planned yet")] if schedule.times else []),
            ("Last run", last),
        ],
        named=True,
    )
    with st.container(horizontal=True):
        notices.show_link("Show runs", "ingestion", part="runs", by=schedule.name)
        if schedule.source:
            notices.show_link("Open source", "ingestion", part="sources", location=schedule.source)
    with st.container(horizontal=True):
        _offer_actions(schedule, seen)
    if schedule.schedule_id:
        offer_change(schedule, saved=_forget)
    else:
        notices.show_note(
            "This schedule is defined in a file on the server: prefect.yaml, or the file in "
            "CARREL_FLOWS_DEPLOYMENTS. Change it there. Changes apply within seconds."
        )


def _offer_actions(schedule: Schedule, seen: Seen) -> None:
    # A second click, before this is drawn again, starts no second run.
    start = partial(schedules.run_schedule, key=uuid4().hex)
    notices.offer_action("Run now", _run_now, start, schedule, key="schedule.start", kind="primary")
    if schedule.paused:
        notices.offer_action("Resume", _change, schedules.resume_schedule, schedule, key="schedule.resume")
    else:
        hint = (
            "A paused schedule starts no runs until you resume it here, even after the flow server restarts. "
            "A run in progress continues."
        )
        pause, never = partial(_change, schedules.pause_schedule, schedule), not schedule.times
        notices.offer_action("Pause", pause, key="schedule.pause", disabled=never, hint=hint)
    if schedule.schedule_id and st.button("Delete …", key="schedule.delete"):
        confirm(
            "Delete this schedule?",
            "You cannot restore a deleted schedule. Its past runs stay listed, a run in progress continues, "
            "and loaded documents stay.",
            action=lambda: schedules.delete_schedule(runs.runs_to_change(), schedule),
            then=_forget,
            leaving=(ADDRESS,),
        )
    if seen.last is not None:
        run = {"run": str(seen.last.flow_run_id)}
        notices.offer_action("Show last run", st.query_params.from_dict, run, key="schedule.last")


def _change(work: Callable[..., None], schedule: Schedule) -> None:
    with keep_problem(_PROBLEM):
        work(runs.runs_to_change(), schedule, person=api.me().email)
        _forget()
        starting.reset_fields()


def _run_now(start: Callable[..., object], schedule: Schedule) -> None:
    with keep_problem(_PROBLEM):
        run = start(runs.runs_to_change(), schedule, person=api.me().email)
        _forget()
        st.query_params.from_dict({"run": str(run)})
