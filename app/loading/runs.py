"""Runs for people: descriptions in words, and starts on a person's behalf."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import UUID

import streamlit as st
from cron_descriptor import FormatError, get_description
from cron_descriptor import Options as CronOptions
from pydantic import ValidationError

from app import api
from app.auth.current import require_session
from app.formatting import one_line
from app.labels import RUN_KINDS, RUN_PHASES, RUN_STATES
from app.loading import staging
from app.loading.staging import title_of_folder
from app.lookup import is_id
from app.settings import settings
from app.syncs.labels import find_sync
from carrel import CarrelError
from carrel.spreadsheets import from_text
from carrel.wire.file_names import LEFTOVERS
from carrel.wire.me import MeResponse
from flows.operations.options import UploadOptions
from flows.operations.summary import CREATED, UPDATED
from flows.runs import Runs, RunsError, RunStatus, UnknownError
from flows.schedules import Times, list_schedules

UPLOAD = "bulk-upload"
RETRY = "quarantine-retry"
_ADDITION = "collection-add"
LOADING = (UPLOAD, _ADDITION, "docstore-sync", RETRY)
LOOKED_THROUGH, MOST_NAMED, _PAGE, _LONGEST = 1000, 20, 200, 54
NO_FLOW_SERVER = "No flow server is running, so this run waits."
START_WORK = "On a machine that can read the documents, run: python -m flows serve"
_CLASS = re.compile(r"^(?:[^:]*encountered an exception: )?[\w.]*(?:Error|Exception): ")
_CODE = re.compile(r" \(\d{3} [a-z_]+(?:, request ([\w-]+))?\)$")


def is_lasting(source: str) -> bool:
    """Return whether a source can be loaded again, unlike files dropped in the workbench; False for none."""
    return bool(source) and not is_of_dropped_files(source)


def is_of_dropped_files(source: str) -> bool:
    return bool(source) and Path(source).parent == settings().uploads_dir


def title_of(run: RunStatus) -> str:
    kind, source = kind_in_words(run), source_in_words(run.source)
    between = " of " if run.flow == RETRY else ": "
    return f"{kind}{between}{source}" if source else kind


def kind_in_words(run: RunStatus) -> str:
    return "Plan of an upload" if run.only_plans else RUN_KINDS.get(run.flow, run.flow)


def source_in_words(source: str) -> str:
    if is_of_dropped_files(source):
        return title_of_folder(Path(source)) or "Files uploaded from a browser"
    if is_id(source):
        return api.collection_names().get(source) or _sync_name(source) or source
    return "The whole catalog" if source == "catalog:" else source


def source_in_row(source: str) -> str:
    """Return a source's name in a line, shortened in the middle, because names differ at the ends."""
    said = one_line(source_in_words(source))
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST // 3]} … {said[-_LONGEST * 2 // 3 :]}"


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def _sync_name(name: str) -> str:
    sync = find_sync(name)
    return sync.config.sync_name if sync else ""


def state_in_words(run: RunStatus) -> str:
    if run.state == "RUNNING":
        return RUN_PHASES.get(run.phase, "Working") if run.figures else "Working"
    if run.state != "COMPLETED":
        return RUN_STATES.get(run.state, run.state.capitalize())
    if run.skipped:
        return "Skipped"
    if run.only_plans:
        return "Planned"
    failed = f", {not_loaded:,} failed" if (not_loaded := count_not_loaded(run)) else ""
    return f"Done{failed}{', deletion blocked' if run.counts.held_back else ''}"


def count_not_loaded(run: RunStatus) -> int:
    return int(run.figures.get("quarantined", 0))


def starter_in_words(run: RunStatus) -> str:
    if run.by_schedule:
        return f"schedule {run.schedule_name}".rstrip()
    by_hand = f", schedule {schedule_in_words(run)}" if run.schedule_id else ""
    return f"{run.person or 'someone outside the workbench'}{by_hand}"


def schedule_in_words(run: RunStatus) -> str:
    """Return the name of the schedule behind a run, also by *Run now*; "that is gone", or empty for manual runs."""
    return _schedule_names().get(run.schedule_id, "that is gone") if run.schedule_id else run.schedule_name


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def _schedule_names() -> dict[str, str]:
    return {str(schedule.schedule_id): schedule.name for schedule in list_schedules(server()) if schedule.schedule_id}


@st.cache_data(ttl=60, show_spinner=False, scope="session", max_entries=4)
def documents_of(*some: UUID) -> list[str]:
    """Return the external ids of the documents created or updated by runs. Raises RunsError."""
    files = (io.StringIO(server().names_csv(run).decode("utf-8-sig")) for run in some)
    rows = chain.from_iterable(map(csv.DictReader, files))
    return list(dict.fromkeys(from_text(row["path"]) for row in rows if row["what"] in {CREATED, UPDATED}))


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def read_loading_runs() -> list[RunStatus]:
    """Return the newest runs that load documents, at most LOOKED_THROUGH. Raises RunsError."""
    find = partial(server().page, size=_PAGE, flows=LOADING)
    pages = (find(number=number).runs for number in range(LOOKED_THROUGH // _PAGE))
    found = list[RunStatus]()
    for page in pages:
        found += page
        if len(page) < _PAGE:
            break
    return found


def documents_from(source: str) -> list[str]:
    """Return the external ids of the documents that the newest runs of a source created or updated, at most
    MOST_NAMED runs. Raises RunsError."""
    sent = [run.flow_run_id for run in read_loading_runs() if run.source == source and run.figures.get("sent")]
    return documents_of(*sent[:MOST_NAMED])


def is_whole(run: RunStatus) -> bool:
    """Return whether a run tried the whole source, and no deletion was blocked. Documents may still have failed."""
    only_partly = run.only_plans or run.skipped or run.flow in {RETRY, _ADDITION} or run.counts.held_back
    return run.state == "COMPLETED" and run.figures.get("phase") == "done" and not only_partly


def seconds_of(run: RunStatus) -> float | None:
    """Return a run's duration so far in seconds; None before the start."""
    if run.started_at is None:
        return None
    until = run.ended_at if run.finished and run.ended_at else datetime.now(UTC)
    return max(0.0, (until - run.started_at).total_seconds())


def duration_in_words(seconds: float | None) -> str:
    """Return a duration in words: 4 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def rate_of(run: RunStatus) -> float:
    if not run.finished:
        return run.documents_per_second
    return float(run.figures.get("sent", 0)) / run.seconds if run.seconds else 0.0


def reason(message: str) -> str:
    """Return a failed run's message without the leading Python class name from Prefect."""
    return _CLASS.sub("", message)


def why_in_words(message: str) -> str:
    """Return the reason for a failed document, without the code."""
    return _CODE.sub(lambda found: f" Request id: {found[1]}" if found[1] else "", message)


def times_in_words(times: Times) -> str:
    """Return the times of a schedule in words: At 02:00, only on Monday (Europe/Berlin)."""
    if not times.cron:
        return f"{times.other} ({times.timezone})"
    options = CronOptions()
    options.use_24hour_time_format = True
    try:
        said = get_description(times.cron, options)
    except FormatError:  # such as @daily, which Prefect knows
        said = times.cron
    return f"{said} ({times.timezone})"


class StartError(Exception):
    """A run can't be started; the message names the reason and a remedy."""


class NotForYouError(RunsError):
    """The person is not, or no longer, an admin."""


def server() -> Runs:
    """Return a client of the flows for an admin with a valid session, checked at each call. Raises RunsError."""
    return _for_admins(api.me)


def runs_to_change() -> Runs:
    """Return a client of the flows for a change, after a new check that the person is an admin. Raises RunsError."""
    return _for_admins(api.me_now)


def _for_admins(who: Callable[[], MeResponse]) -> Runs:
    try:
        require_session()
        is_admin = who().is_admin
    except CarrelError as error:
        raise NotForYouError(str(error)) from error
    if not is_admin:
        msg = "Only admins can see runs. Reload this page."
        raise NotForYouError(msg)
    return _runs()


@st.cache_resource(show_spinner=False, on_release=Runs.close)
def _runs() -> Runs:
    return Runs(settings().prefect_api_url)


def start_dropped(
    files: Sequence[staging.DroppedFile], options: UploadOptions, *, only_plan: bool, key: str | None
) -> UUID:
    """Copy dropped files and start the flow; after a plan they stay. Raises RunsError, StagingError: files removed."""
    uploads = settings().uploads_dir
    staging.sweep(uploads, is_done)
    folder = staging.stage(files, uploads)
    is_folder = any("/" in file.name for file in files)
    every = {"hidden": True, "include": ["*"], "exclude": list(LEFTOVERS)}
    chosen = options if is_folder else options.model_copy(update=every)
    try:
        start = runs_to_change().start_upload
        run = start(str(folder), chosen, dry_run=only_plan, person=api.me().email, key=key)
    except RunsError:
        staging.remove(folder)
        raise
    if not only_plan:
        staging.hand_over(folder, run)
    return run


def start_planned(plan: RunStatus, *, deleting: bool = False) -> UUID:
    """Start planned or undone work, only once; `deleting` includes missing documents. Raises RunsError, StartError."""
    folder, options = _dropped_folder(plan), _options_of(plan)
    run = runs_to_change().start_upload(
        plan.source,
        options.model_copy(update={"delete_missing": deleting}),
        confirmed=str(plan.figures.get("gone_mark") or "-") if deleting else None,
        person=api.me().email,
        key=f"planned-{plan.flow_run_id}",
    )
    if folder is not None:
        staging.hand_over(folder, run)
    return run


def start_again(run: RunStatus, *, key: str) -> UUID:
    """Start a run again, once per key; of a run with deletions start only the plan. Raises RunsError, StartError."""
    folder = _dropped_folder(run)
    if run.options.get("delete_missing"):  # a person confirms the deletions by name, after a plan
        options = _options_of(run)
        return runs_to_change().start_upload(run.source, options, dry_run=True, person=api.me().email, key=key)
    again = runs_to_change().start_again(run, person=api.me().email, key=key)
    if folder is not None and not run.only_plans:
        staging.hand_over(folder, again)
    return again


def _options_of(run: RunStatus) -> UploadOptions:
    """Return an upload's options. Raises StartError if another program or version started it with other options."""
    try:
        return UploadOptions.model_validate(run.options)
    except ValidationError as error:
        msg = "This version of Carrel does not know some options of the run. Start a new upload."
        raise StartError(msg) from error


def _dropped_folder(run: RunStatus) -> Path | None:
    """Return the folder of a run's dropped files; None for another source. Raises StartError if the folder is gone."""
    if is_gone(run):
        msg = "The uploaded files are no longer on the server. Upload them again."
        raise StartError(msg)
    return Path(run.source) if is_of_dropped_files(run.source) else None


def is_gone(run: RunStatus) -> bool:
    """Return whether a run's files, dropped in the workbench, are gone, so that the run can't be started again."""
    return is_of_dropped_files(run.source) and not Path(run.source).is_dir()


def is_done(run: UUID) -> bool:
    """Return whether a run has completed or is unknown, so that its files can go; False if Prefect doesn't answer."""
    try:
        status = server().run_status(run)
    except UnknownError:
        return True
    except RunsError:
        return False
    return status.state == "COMPLETED" and not status.skipped
