"""The findings of the Health page, with advice: the service, its servers, index, jobs and syncs, and the flows."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import httpx
import streamlit as st

import carrel
from app import api
from app.credentials.tokens import all_keys, all_tokens, ends, select_ending_soon
from app.formatting import ago, moment, one_line, size
from app.loading.runs import source_in_words
from app.settings import settings
from app.ui.notices import LinkedText, help_address
from carrel.environment import http_options
from carrel.wire import oversight
from carrel.wire.reranking import RerankingState
from carrel.wire.servers import ArchiveState, PrimaryState, StandbyState, StandbyStatus
from flows.operations.formatting import count_text, list_text
from flows.runs import Runs, RunsError


class Level(StrEnum):
    FINE = "OK"
    BUSY = "Running"
    TROUBLE = "Needs attention"


@dataclass(frozen=True)
class Finding:
    """A finding about a part: a sentence, the remedy if needed, and a page."""

    about: str
    level: Level
    said: str
    todo: str = ""
    see: LinkedText | None = None


def help_page(topic: str) -> LinkedText:
    return LinkedText("What to do", help_address(topic))


_ADVICE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _trouble(about: str, said: str, key: str) -> Finding:
    todo, see = _ADVICE[key]["todo"], _ADVICE[key]["see"]
    return Finding(about, Level.TROUBLE, said, todo, help_page(see) if isinstance(see, str) else LinkedText(*see))


def _is_late(at: datetime | None, now: datetime, limit: timedelta) -> bool:
    return at is not None and now - at > limit


LATE_ARCHIVE = timedelta(minutes=5)
RECENT_PRIMARY = timedelta(minutes=10)


def check_primary(primary: PrimaryState, at: datetime) -> list[Finding]:
    found = list[Finding]()
    if primary.unconfirmed_at is not None and not _is_late(primary.unconfirmed_at, at, RECENT_PRIMARY):
        said = (
            f"A change was not confirmed in time, {ago(primary.unconfirmed_at, now=at)}: the database waits "
            "for a standby. Changes are refused (503), and take effect when a standby follows."
        )
        found.append(_trouble("Changes wait for a standby", said, "unconfirmed"))
    if primary.older_refused_at is not None and not _is_late(primary.older_refused_at, at, RECENT_PRIMARY):
        said = (
            "A former primary database accepts changes. Carrel refused it "
            f"{ago(primary.older_refused_at, now=at)}, because changes there are lost."
        )
        found.append(_trouble("Old primary is running", said, "older_primary"))
    return found


def _check_standby(standby: StandbyStatus) -> Finding:
    about = f"Standby database {standby.number}"
    if standby.state is StandbyState.SERVING:
        return Finding(about, Level.FINE, "Searches read from this standby.")
    whys = {
        StandbyState.LATE: f"it is behind the primary by {size(standby.lag_bytes or 0)}",
        StandbyState.AWAY: "it does not answer",
        StandbyState.NOT_A_STANDBY: "the server at its address follows no primary or another primary",
    }
    said = f"Searches read from the primary since {moment(standby.since)}: {whys[standby.state]}."
    return _trouble(about, said, "standby_late" if standby.state is StandbyState.LATE else "standby_away")


def _check_archive(archive: ArchiveState, at: datetime) -> Finding:
    archived_at, about = archive.archived_at, "The archive"
    said = "Nothing was archived since the service started."
    if archived_at is not None:
        said = f"Changes until {moment(archived_at)} are archived."
        if not _is_late(archived_at, at, LATE_ARCHIVE):
            if archive.backed_up_at is None:
                without = "The archive has no current backup, so recent changes cannot be restored from it."
                return _trouble(about, f"{said} {without}", "no_backup")
            return Finding(about, Level.FINE, f"{said} The newest backup is from {moment(archive.backed_up_at)}.")
    return _trouble(about, said, "archive_late")


LATE_INDEXING = timedelta(minutes=15)
LATE_JOBS = timedelta(minutes=5)
RECENT_PRESSURE = timedelta(minutes=5)
# Warn the operator when less than this multiple of the reserve is free.
EARLY = 2
_KEPT = {
    oversight.StorageArea.DATABASE: "database",
    oversight.StorageArea.UPLOADS: "uploads",
    oversight.StorageArea.FILES: "files",
}
_PATIENCE = 2.0
_NAMED_SOURCES = 3


def ask_service() -> oversight.AdminStatusGetResponse | Finding:
    """Return the service's status, or a finding with its error."""
    try:
        return api.client().admin.status.get()
    except carrel.APIConnectionError:
        return _trouble("The service", f"The service at {settings().base_url} does not answer completely.", "away")
    except carrel.APIError as error:
        todo = f"See its log. Request id: {error.request_id}" if error.request_id else "See its log."
        return Finding("The service", Level.TROUBLE, error.message, todo, help_page(_ADVICE["away"]["see"]))


def findings_of(status: oversight.AdminStatusGetResponse, *, now: datetime | None = None) -> list[Finding]:
    at, model = now or datetime.now(UTC), status.language_model
    model = "quoting passages, without a language model" if model == "built-in" else model
    return [
        Finding(
            "The service",
            Level.FINE,
            f"The service and its database respond. Version {status.version}; embeddings by "
            f"{status.embedding_model}{_arithmetic_text(status.arithmetic)}, agents answer by {model}.",
        ),
        _check_index(status.indexing, at),
        *_check_activity(status),
        _check_jobs(status.jobs, at),
        _check_syncs(status.syncs),
        *(_check_connections(connections, at) for connections in (status.connections,) if connections),
        *(check_primary(status.primary, at) if status.primary else ()),
        *map(_check_standby, status.standbys or ()),
        *(_check_archive(archive, at) for archive in (status.archive,) if archive),
        *(_check_reranking(endpoint) for endpoint in (status.reranking,) if endpoint),
        *(_check_loading(quarantine, status) for quarantine in (status.quarantine,) if quarantine),
        *(_check_alerts(count) for count in (status.open_alert_count,) if count is not None),
        *(_check_disk(storage) for storage in status.storage),
    ]


def _arithmetic_text(arithmetic: oversight.ArithmeticState | None) -> str:
    if arithmetic is None:
        return ""
    bits = "8" if arithmetic.precision == "int8" else "32"
    if arithmetic.times_as_fast is None:
        return f" in {bits} bits (CARREL_EMBEDDINGS_PRECISION)"
    return f" in {bits} bits (8 bits are {arithmetic.times_as_fast:g} times as fast as 32 on this processor)"


def _check_index(index: oversight.IndexingState, at: datetime) -> Finding:
    since = _since(index.oldest_waiting_at, at)
    waits = f" {count_text(index.running, 'waits', 'wait')}{since}." if index.running else ""
    if index.without_meaning:
        waits += f" {index.without_meaning:,} of them can already be found by words, and soon by meaning."
    can = f"{count_text(index.done, 'document')} can be found."
    if index.uploads_refused_seconds is not None:
        waits = count_text(index.waiting_documents or 0, "document waits", "documents wait")
        said = f"{can} {waits} for an index. This is too many, so uploads are refused."
        return _trouble("The index", said, "uploads_refused")
    if index.failed or index.failed_in_collections:
        by_words, said = index.failed_in_meaning or 0, f"{can}{waits}"
        if index.failed > by_words or not by_words:
            said += f" {count_text(index.failed - by_words, 'document')} could not be indexed."
        if by_words:
            said += f" {count_text(by_words, 'document')} can be found only by words: indexing by meaning failed."
        if index.failed_in_collections:
            said = f"{said} In collections, {count_text(index.failed_in_collections, 'document')} could not be indexed."
        return _trouble("The index", said, "index_failed")
    if _is_late(index.oldest_waiting_at, at, LATE_INDEXING):
        return _trouble("The index", f"{can}{waits}", "index_late")
    return Finding("The index", Level.BUSY if index.running else Level.FINE, f"{can}{waits}")


def _check_activity(status: oversight.AdminStatusGetResponse) -> Iterator[Finding]:
    if running := status.rebuilds_running:
        said = f"{count_text(running, 'index is', 'indexes are')} being rebuilt with another model."
        yield Finding("Rebuilding", Level.BUSY, said, see=LinkedText("Open collections", "collections"))
    if status.renewing_count:
        among = f"{status.renewing_count:,} of {status.document_count:,} documents"
        said = f"The index of {among} is being updated. They stay searchable."
        yield Finding("Updating the index", Level.BUSY, said)
    if waiting := status.pages_waiting:
        pages = count_text(waiting, "scanned page or picture waits", "scanned pages or pictures wait")
        said = f"{pages} for text recognition (OCR)."
        yield Finding("Text recognition", Level.BUSY, said, see=help_page("running#text-recognition"))


def _check_jobs(jobs: oversight.JobsState, at: datetime) -> Finding:
    about = "Replies and sync runs"
    doing = f"{jobs.running:,} running, {jobs.waiting:,} waiting{_since(jobs.oldest_waiting_at, at)}."
    if _is_late(jobs.oldest_waiting_at, at, LATE_JOBS):
        return _trouble(about, doing, "jobs_late")
    if jobs.failed:
        failed = count_text(jobs.failed, "reply of an agent", "replies of agents")
        return _trouble(about, f"{doing} {failed} failed in the last 24 hours.", "replies_failed")
    return Finding(about, Level.BUSY if jobs.running or jobs.waiting else Level.FINE, doing)


def _check_syncs(syncs: oversight.SyncsState) -> Finding:
    running = count_text(syncs.running, "sync is running", "syncs are running")
    going = f"{running}." if syncs.running else "No syncs running."
    refused = f"{count_text(syncs.refused_documents or 0, 'document')} of {count_text(syncs.refusing or 0, 'sync')}"
    troubles_of_them = {
        f"The last run of {count_text(syncs.failed, 'sync')} failed.": syncs.failed,
        f"The last run of {count_text(syncs.incomplete or 0, 'sync')} is incomplete.": syncs.incomplete,
        f"{refused} could not be loaded.": syncs.refused_documents,
    }
    if any(troubles_of_them.values()):
        said = " ".join([going, *(text for text, number in troubles_of_them.items() if number)])
        return _trouble("Syncs", said, "syncs")
    return Finding("Syncs", Level.BUSY if syncs.running else Level.FINE, going)


def _check_disk(storage: oversight.StorageState) -> Finding:
    about = f"Disk of the {list_text([_KEPT[area] for area in storage.areas])}"
    said = f"{size(storage.free_bytes)} of {size(storage.total_bytes)} are free."
    if storage.level is oversight.StorageLevel.FULL:
        said = f"{said} Carrel adds nothing, and the database is also running out of space."
    elif storage.level is oversight.StorageLevel.LOW:
        said = f"{said} Carrel adds and indexes nothing until there is space. Reading, searching and deleting work."
    elif storage.free_bytes < EARLY * storage.low_below_bytes:
        said = f"{said} Below {size(storage.low_below_bytes)}, Carrel adds nothing."
    else:
        return Finding(about, Level.FINE, said)
    return _trouble(about, said, "disk")


def _check_connections(connections: oversight.ConnectionsState, at: datetime) -> Finding:
    said = f"{connections.open:,} of at most {connections.most:,} are open."
    if connections.pressed_at is None or _is_late(connections.pressed_at, at, RECENT_PRESSURE):
        return Finding("Connections", Level.FINE, said)
    said = (
        f"{said} The limit was reached {ago(connections.pressed_at, now=at)}: since the start, "
        f"{connections.refused:,} were refused, and {connections.evicted:,} were closed to make room."
    )
    return _trouble("Connections", said, "connections")


def _check_reranking(endpoint: RerankingState) -> Finding:
    answered_at, failed_at, about = endpoint.answered_at, endpoint.failed_at, "Reranking"
    if failed_at is not None and (answered_at is None or answered_at < failed_at):
        before = "" if answered_at is None else f" Before that, it answered {moment(answered_at)}."
        said = f"The endpoint failed or was too slow {moment(failed_at)}. Searches keep their own order.{before}"
        return _trouble(about, said, "reranking")
    said = "No requests since the service started."
    return Finding(about, Level.FINE, said if answered_at is None else f"The endpoint answered {moment(answered_at)}.")


def _since(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f", the oldest since {ago(at, now=now)} ({moment(at)})"


def check_flows() -> Finding:
    try:
        deployments = _runs(settings().prefect_api_url).rows("/deployments/filter", {"limit": 100})
    except RunsError:
        said = f"Prefect, which manages the runs, does not answer at {settings().prefect_api_url}."
        return _trouble("The flows", said, "flows_away")
    ready = sum(deployment.get("status") == "READY" for deployment in deployments)
    if not ready:
        said = "Prefect answers, but no flow server is running. Runs wait."
        return _trouble("The flows", said, "flows_idle")
    offered = count_text(ready, "flow is", "flows are")
    return Finding("The flows", Level.FINE, f"Prefect answers, and {offered} available.")


@st.cache_resource(show_spinner=False, on_release=Runs.close)
def _runs(api_url: str) -> Runs:
    """Return a client of Prefect with a short timeout, to keep the page from waiting."""
    return Runs(api_url, http_client=httpx.Client(timeout=_PATIENCE, **http_options(api_url)))


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def check_credentials() -> Finding | None:
    """Return the finding about tokens and keys expiring soon without a successor; None on an error."""
    try:
        tokens, keys = select_ending_soon(all_tokens()), select_ending_soon(all_keys())
    except carrel.CarrelError:  # its own finding says what is wrong with the service
        return None
    about = "Tokens and keys"
    if not (tokens or keys):
        said = "No token or key without a replacement expires within 14 days."
        return Finding(about, Level.FINE, said)
    counts = [count_text(len(some), noun) for some, noun in ((tokens, "token"), (keys, "API key")) if some]
    said = f"{list_text(counts)} will expire within 14 days."
    todo = "Create a replacement with the same scopes, give it to the program, and revoke the old credential."
    if not tokens:
        see = LinkedText(f"Open the key that expires {ends(keys[0].expires_at)}", f"api_keys?key={keys[0].api_key_id}")
    else:
        address = f"service_accounts?account={tokens[0].service_account_id}&token={tokens[0].token_id}"
        see = LinkedText(f"Open the token that expires {ends(tokens[0].expires_at)}", address)
    return Finding(about, Level.TROUBLE, said, todo, see)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def check_questions() -> Finding | None:
    """Return a finding with the week's questions to agents, also if all have an answer; None on an error."""
    now, log = datetime.now(UTC), api.client().admin.question_log
    try:
        buckets = log.summarize(from_=now - timedelta(days=7), to=now, bucket=oversight.Bucket.WEEK).buckets
    except carrel.CarrelError:  # as above
        return None
    asked, unanswered = (sum(getattr(bucket, name) for bucket in buckets) for name in ("questions", "unanswered"))
    said = f"{count_text(asked, 'question')} in seven days, {unanswered:,} not answered."
    see = LinkedText("Open unanswered questions", "agents?show=questions&list=unanswered")
    return Finding("Questions to agents", Level.FINE, said, see=see if unanswered else None)


def _check_loading(quarantine: oversight.QuarantineState, status: oversight.AdminStatusGetResponse) -> Finding:
    count, sources = quarantine.item_count, quarantine.sources[:_NAMED_SOURCES]
    runs = f"The last run of {count_text(status.failed_run_count or 0, 'source or job', 'sources or jobs')} failed."
    if not count and status.failed_run_count:
        return _trouble("Loading", runs, "runs")
    if not count:
        is_all = not (status.syncs.refused_documents or status.indexing.failed or status.indexing.failed_in_collections)
        return Finding("Loading", Level.FINE, "Every document was loaded." if is_all else "No source failed to load.")
    others = quarantine.source_count - len(sources)
    of_each = [f"{source.item_count:,} from {one_line(source_in_words(source.source))}" for source in sources]
    more = [count_text(others, "other source")] if others > 0 else []
    said = f"{count_text(count, 'document')} could not be loaded. By source: {', '.join([*of_each, *more])}."
    said = f"{said} {runs}" if status.failed_run_count else said
    return _trouble("Loading", said, "quarantine")


def _check_alerts(count: int) -> Finding:
    if not count:
        return Finding("Alerts", Level.FINE, "No open alerts.")
    return _trouble("Alerts", f"{count_text(count, 'alert is', 'alerts are')} open.", "alerts")


def troubles(findings: Sequence[Finding]) -> int:
    return sum(finding.level is Level.TROUBLE for finding in findings)
