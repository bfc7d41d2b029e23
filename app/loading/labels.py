"""Labels of runs: their kind, source, state and duration in words."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import streamlit as st
from cron_descriptor import FormatError, get_description
from cron_descriptor import Options as CronOptions

from app import api
from app.loading.staging import title_of_folder
from app.lookup import is_id
from app.settings import settings
from app.syncs.lookup import find_sync
from flows.runs import RunStatus
from flows.times import Times

KINDS: Mapping[str, str] = {
    "agent-evaluation": "Evaluation of an agent",
    "bulk-upload": "Upload",
    "collection-add": "Addition to a collection",
    "docstore-sync": "Sync",
    "permission-snapshot": "Snapshot of permissions",
    "quarantine-retry": "Retry",
    "reindex": "Re-indexing",
}
NOBODY_WORKS = "No process carries out runs now, so this one waits."
START_WORK = "It begins when somebody does. On a machine that reaches the documents: python -m flows serve"
PHASES: Mapping[str, str] = {
    "scanning": "Reading the source",
    "sending": "Sending",
    "indexing": "Making the documents searchable",
    "done": "Finishing",
}
_STATES: Mapping[str, str] = {
    "SCHEDULED": "Waiting",
    "PENDING": "Waiting",
    "PAUSED": "Paused",
    "CANCELLING": "Stopping",
    "CANCELLED": "Stopped",
    "FAILED": "Failed",
    "CRASHED": "Broke off",
}
_CLASS = re.compile(r"^(?:[^:]*encountered an exception: )?[\w.]*(?:Error|Exception): ")
_CODE = re.compile(r" \(\d{3} [a-z_]+(?:, request ([\w-]+))?\)$")


def is_of_dropped_files(source: str) -> bool:
    """Return whether a run's source is a folder of files that were dropped on the workbench."""
    return bool(source) and Path(source).parent == settings().uploads_dir


def title_of(run: RunStatus) -> str:
    """Return the title of a run: its kind and its source."""
    kind, source = kind_in_words(run), source_in_words(run.source)
    between = " of " if run.flow == "quarantine-retry" else ": "
    return f"{kind}{between}{source}" if source else kind


def kind_in_words(run: RunStatus) -> str:
    """Return the label of a run's kind."""
    return "Plan of an upload" if run.only_plans else KINDS.get(run.flow, run.flow)


def source_in_words(source: str) -> str:
    """Return where a run's documents come from."""
    if is_of_dropped_files(source):
        return title_of_folder(Path(source)) or "Files dropped in the workbench"
    if is_id(source):
        known = (one.collection_name for one in api.collections() if str(one.document_collection_id) == source)
        return next(known, "") or _sync_name(source) or source
    return "The whole catalog" if source == "catalog:" else source


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def _sync_name(name: str) -> str:
    sync = find_sync(name)
    return sync.config.sync_name if sync else ""


def state_in_words(run: RunStatus) -> str:
    """Return where a run is, in a word or two."""
    if run.state == "RUNNING":
        return PHASES.get(run.phase, "Working") if run.figures else "Working"
    if run.state != "COMPLETED":
        return _STATES.get(run.state, run.state.capitalize())
    if run.only_plans:
        return "Planned"
    if not_loaded := count_not_loaded(run):
        return f"Done, {not_loaded:,} failed"
    return "Done, deletion blocked" if run.counts.held_back else "Done"


def count_not_loaded(run: RunStatus) -> int:
    """Return the number of documents that a run could not load."""
    return int(run.figures.get("quarantined", 0))


def starter_in_words(run: RunStatus) -> str:
    """Return the person or schedule that started a run."""
    if run.by_schedule:
        return f"schedule {run.schedule_name}".rstrip()
    return run.person or "somebody, outside of the workbench"


def seconds_of(run: RunStatus, *, now: datetime | None = None) -> float | None:
    """Return the seconds that a run has taken so far; None before it has begun."""
    if run.started_at is None:
        return None
    until = run.ended_at if run.finished and run.ended_at else now or datetime.now(UTC)
    return max(0.0, (until - run.started_at).total_seconds())


def duration_in_words(seconds: float | None) -> str:
    """Return a time that something took: 4 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def rate_of(run: RunStatus) -> float:
    """Return how many documents a second a run sends, or sent on the average."""
    if not run.finished:
        return run.documents_per_second
    return float(run.figures.get("sent", 0)) / run.seconds if run.seconds else 0.0


def reason(message: str) -> str:
    """Return a failed run's message without the name of the Python class that Prefect puts first."""
    return _CLASS.sub("", message)


def why_in_words(message: str) -> str:
    """Return the reason why a document was not loaded, without its code."""
    return _CODE.sub(lambda found: f" Request id: {found[1]}" if found[1] else "", message)


def times_in_words(times: Times) -> str:
    """Return when something runs by itself: At 02:00, only on Monday (Europe/Berlin)."""
    if not times.cron:
        return f"{times.other} ({times.timezone})"
    options = CronOptions()
    options.use_24hour_time_format = True
    try:
        said = get_description(times.cron, options)
    except FormatError:  # such as @daily, which Prefect knows
        said = times.cron
    return f"{said} ({times.timezone})"
