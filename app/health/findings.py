"""The findings of the page Health: the service, its index, jobs and syncs, and the flows, with what to do."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import httpx
import streamlit as st

import carrel
from app import api
from app.credentials.accounts import all_tokens
from app.credentials.expiry import ends, select_ending_soon
from app.credentials.keys import all_keys
from app.formatting import ago, moment, one_line, size
from app.health.models import Finding, Level, PageLink, help_page, is_late
from app.health.servers import of_archive, of_primary, of_standby
from app.settings import settings
from carrel.wire.oversight import (
    AdminStatusGetResponse,
    Bucket,
    ConnectionsState,
    IndexingState,
    JobsState,
    QuarantineState,
    StorageArea,
    StorageLevel,
    StorageState,
    SyncsState,
)
from carrel.wire.reranking import RerankingState
from flows.operations.formatting import count_text
from flows.runs import Runs, RunsError

LATE_INDEXING = timedelta(minutes=15)
LATE_JOBS = timedelta(minutes=5)
RECENT_PRESSURE = timedelta(minutes=5)
# Somebody is to look when less is free than so many times what is kept free.
EARLY = 2
_KEPT = {StorageArea.DATABASE: "database", StorageArea.UPLOADS: "uploads", StorageArea.FILES: "files"}
_PATIENCE = 2.0
_NAMED_SOURCES = 3


_AWAY = help_page("troubleshooting#the-service-is-busy-full-or-away")


def ask_service() -> AdminStatusGetResponse | Finding:
    """Return health findings from the service's status, or one that the service can't be reached."""
    try:
        return api.client().admin.status.get()
    except carrel.APIConnectionError:
        said = f"No whole answer comes from {settings().base_url}."
        todo = "Start it with: make up. If it runs, its log says why, for example too_many_connections."
        return Finding("The service", Level.TROUBLE, said, todo, _AWAY)
    except carrel.APIError as error:
        todo = f"See its log. Request id: {error.request_id}" if error.request_id else "See its log."
        return Finding("The service", Level.TROUBLE, error.message, todo, _AWAY)


def findings_of(status: AdminStatusGetResponse, *, now: datetime | None = None) -> list[Finding]:
    """Return the findings from a status of the service."""
    at = now or datetime.now(UTC)
    return [
        Finding(
            "The service",
            Level.FINE,
            f"The service and its database respond. Version {status.version}; embeddings by {status.embedding_model}, "
            f"agents answer by {_language_model(status.language_model)}.",
        ),
        _of_index(status.indexing, at),
        *_of_rebuilds(status.rebuilds_running),
        *_of_pages(status.pages_waiting or 0),
        _of_jobs(status.jobs, at),
        _of_syncs(status.syncs),
        *(_of_connections(connections, at) for connections in (status.connections,) if connections),
        *(of_primary(status.primary, at) if status.primary else ()),
        *map(of_standby, status.standbys or ()),
        *(of_archive(archive, at) for archive in (status.archive,) if archive),
        *map(_of_reranking, [status.reranking] if status.reranking else []),
        *(_of_quarantine(quarantine) for quarantine in (status.quarantine,) if quarantine),
        *_of_alerts(status.open_alert_count),
        *(_of_disk(storage) for storage in status.storage),
    ]


def _language_model(name: str) -> str:
    return "picking out passages, without a language model" if name == "built-in" else name


def _of_index(index: IndexingState, at: datetime) -> Finding:
    waits = (
        f" {count_text(index.running, 'waits', 'wait')}{_since(index.oldest_waiting_at, at)}." if index.running else ""
    )
    can = f"{count_text(index.done, 'document')} can be found."
    if index.uploads_refused_seconds is not None:
        return _of_refusals(index, can)
    if index.failed:
        said = f"{can}{waits} {count_text(index.failed, 'document')} could not be indexed."
        todo = "See why, and upload repaired files. The service also tries them again by itself."
        return Finding(
            "The index",
            Level.TROUBLE,
            said,
            todo,
            PageLink("Open the documents that failed", "documents?of=all&state=failed"),
        )
    if is_late(index.oldest_waiting_at, at, LATE_INDEXING):
        todo = "Indexing doesn't keep up, or the embedding model is away: look at the service's log."
        see = PageLink("Open the documents that wait", "documents?of=all&state=running")
        return Finding("The index", Level.TROUBLE, f"{can}{waits}", todo, see)
    return Finding("The index", Level.BUSY if index.running else Level.FINE, f"{can}{waits}")


def _of_refusals(index: IndexingState, can: str) -> Finding:
    waits = count_text(index.waiting_documents or 0, "document waits", "documents wait")
    said = f"{can} {waits} for an index, in the catalog or in collections: too many, so uploads are refused now."
    todo = (
        "Runs that load documents wait, and go on by themselves. More processors, or an embeddings endpoint, shorten "
        "the wait."
    )
    return Finding("The index", Level.TROUBLE, said, todo, PageLink("Open the runs", "ingestion?part=runs"))


def _of_rebuilds(running: int) -> list[Finding]:
    if not running:
        return []
    said = f"{count_text(running, 'index is', 'indexes are')} being rebuilt with another model."
    return [Finding("Rebuilding", Level.BUSY, said, see=PageLink("Open the collections", "collections"))]


def _of_pages(waiting: int) -> list[Finding]:
    if not waiting:
        return []
    pages = count_text(waiting, "scanned page or picture waits", "scanned pages or pictures wait")
    said = f"{pages} to be read by machine (OCR)."
    return [Finding("Text recognition", Level.BUSY, said, see=help_page("operating#text-recognition"))]


def _of_jobs(jobs: JobsState, at: datetime) -> Finding:
    about, agents = "Replies and sync runs", PageLink("Test an agent", "agents")
    doing = f"{jobs.running:,} running, {jobs.waiting:,} waiting{_since(jobs.oldest_waiting_at, at)}."
    if is_late(jobs.oldest_waiting_at, at, LATE_JOBS):
        todo = (
            "The service makes them slower than they are asked for. Let it make more at a time: CARREL_AGENT_WORKERS "
        )
        raise_it = f"{todo}for agents' replies, CARREL_DOCSTORE_WORKERS for syncs."
        return Finding(about, Level.TROUBLE, doing, raise_it, help_page("operating#jobs"))
    if jobs.failed:
        said = (
            f"{doing} {count_text(jobs.failed, 'reply of an agent', 'replies of agents')} failed in the last 24 hours."
        )
        todo = "Ask an agent something to see whether it answers now; people who got no reply can ask again. Why each "
        return Finding(about, Level.TROUBLE, said, f"{todo}failed is in the service's log.", agents)
    return Finding(about, Level.BUSY if jobs.running or jobs.waiting else Level.FINE, doing)


def _of_syncs(syncs: SyncsState) -> Finding:
    going = (
        f"{count_text(syncs.running, 'sync is running', 'syncs are running')}."
        if syncs.running
        else "No syncs running."
    )
    if syncs.failed:
        said = f"{going} The last run of {count_text(syncs.failed, 'sync')} failed."
        return Finding(
            "Syncs",
            Level.TROUBLE,
            said,
            "See why, mend it, and run the sync again.",
            PageLink("Open the syncs", "syncs"),
        )
    return Finding("Syncs", Level.BUSY if syncs.running else Level.FINE, going)


def _of_disk(storage: StorageState) -> Finding:
    about = f"The disk of the {_join_names([_KEPT[area] for area in storage.areas])}"
    said = f"{size(storage.free_bytes)} of {size(storage.total_bytes)} are free."
    todo = "Make room on that disk or enlarge it; the service checks every second, and continues by itself."
    if storage.level is StorageLevel.FULL:
        said = f"{said} Nothing is added, and the database itself is running out of room."
    elif storage.level is StorageLevel.LOW:
        said = f"{said} Nothing is added or indexed until there is more room; reading, searching and deleting work."
    elif storage.free_bytes < EARLY * storage.low_below_bytes:
        said = f"{said} Below {size(storage.low_below_bytes)}, nothing more is added."
    else:
        return Finding(about, Level.FINE, said)
    return Finding(about, Level.TROUBLE, said, todo, help_page("operating#disks"))


def _of_connections(connections: ConnectionsState, at: datetime) -> Finding:
    said = f"{connections.open:,} of at most {connections.most:,} are open."
    if connections.pressed_at is None or is_late(connections.pressed_at, at, RECENT_PRESSURE):
        return Finding("Connections", Level.FINE, said)
    said = (
        f"{said} There were too many {ago(connections.pressed_at, now=at)}: since the start, "
        f"{connections.refused:,} were refused, and {connections.evicted:,} were closed to make room."
    )
    todo = (
        "The service's log (too_many_connections) says from how many addresses they come. If it is one, name your "
        "proxy in CARREL_TRUSTED_PROXIES. If they are wanted, allow more open files (LimitNOFILE=65536), and a higher "
        "CARREL_MAX_CONNECTIONS where that is set. If not, stop them before they reach the service."
    )
    return Finding("Connections", Level.TROUBLE, said, todo, help_page("operating#connections-and-open-files"))


def _of_reranking(endpoint: RerankingState) -> Finding:
    answered_at, failed_at, about = endpoint.answered_at, endpoint.failed_at, "Reranking"
    if failed_at is not None and (answered_at is None or answered_at < failed_at):
        before = "" if answered_at is None else f" It answered {moment(answered_at)}, before that."
        said = f"The endpoint failed, or was too late, {moment(failed_at)}: searches keep their own order.{before}"
        todo = "See why in the service's log (reranking_endpoint_failed, reranking_endpoint_slow), and search again."
        return Finding(about, Level.TROUBLE, said, todo, help_page("operating#reranking"))
    said = "Nothing has asked the endpoint since the service was started."
    return Finding(about, Level.FINE, said if answered_at is None else f"The endpoint answered {moment(answered_at)}.")


def _join_names(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _since(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f", the first of them since {ago(at, now=now)} ({moment(at)})"


def of_flows() -> Finding:
    """Return the finding whether runs can be started, and whether a process runs them."""
    start = "Start it with: make up, or: python -m flows.server"
    try:
        deployments = _runs(settings().prefect_api_url).rows("/deployments/filter", {"limit": 100})
    except RunsError:
        said = f"Prefect, which has the runs, doesn't answer at {settings().prefect_api_url}."
        return Finding("The flows", Level.TROUBLE, said, start, help_page("operating#prefect"))
    ready = sum(deployment.get("status") == "READY" for deployment in deployments)
    if not ready:
        said = "Prefect answers, but no process carries out runs: started and scheduled runs wait."
        waiting = PageLink("Open the runs", "ingestion?part=runs")
        return Finding("The flows", Level.TROUBLE, said, "Start what does: python -m flows serve", waiting)
    offered = count_text(ready, "flow is", "flows are")
    return Finding("The flows", Level.FINE, f"Prefect answers, and {offered} served.")


@st.cache_resource(show_spinner=False, on_release=Runs.close)
def _runs(api_url: str) -> Runs:
    """Return a client of Prefect with a short timeout, so that the page doesn't wait for long."""
    return Runs(api_url, http_client=httpx.Client(timeout=_PATIENCE))


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def of_credentials() -> Finding | None:
    """Return the finding about tokens and keys that end soon and have no successor; None when they can't be listed."""
    try:
        tokens, keys = select_ending_soon(all_tokens()), select_ending_soon(all_keys())
    except carrel.CarrelError:  # what is wrong with the service is told by its own finding
        return None
    about = "Tokens and keys"
    if not (tokens or keys):
        return Finding(
            about, Level.FINE, "No token or key expires within 14 days, or each that does has its replacement."
        )
    counts = (count_text(len(tokens), "token") if tokens else "", count_text(len(keys), "API key") if keys else "")
    said = f"{' and '.join(count for count in counts if count)} will expire within 14 days."
    todo = "Create the next one with the same scopes, give it to the program, and revoke the old one."
    if not tokens:
        see = PageLink(f"Open the key that ends {ends(keys[0].expires_at)}", f"api_keys?key={keys[0].api_key_id}")
    else:
        address = f"service_accounts?account={tokens[0].service_account_id}&token={tokens[0].token_id}"
        see = PageLink(f"Open the token that ends {ends(tokens[0].expires_at)}", address)
    return Finding(about, Level.TROUBLE, said, todo, see)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def of_work() -> list[Finding]:
    """Return what the documents and agents need of people; nothing when the service can't say it."""
    now = datetime.now(UTC)
    try:
        buckets = (
            api.client().admin.question_log.summarize(from_=now - timedelta(days=7), to=now, bucket=Bucket.WEEK).buckets
        )
    except carrel.CarrelError:  # as above
        return []
    asked, unanswered = (sum(getattr(one, name) for one in buckets) for name in ("questions", "unanswered"))
    return [_of_questions(asked, unanswered)]


def _of_quarantine(quarantine: QuarantineState) -> Finding:
    count, sources = quarantine.item_count, quarantine.sources[:_NAMED_SOURCES]
    if not count:
        return Finding("Loading", Level.FINE, "Every document was loaded.")
    others = quarantine.source_count - len(sources)
    of_each = [f"{one.item_count:,} of {one_line(one.source)}" for one in sources]
    more = [count_text(others, "other source")] if others > 0 else []
    said = f"{count_text(count, 'document')} could not be loaded. By source: {', '.join([*of_each, *more])}."
    see = PageLink("Open what failed", "ingestion?part=quarantine")
    return Finding("Loading", Level.TROUBLE, said, "See why, then retry them, load them mended, or ignore them.", see)


def _of_alerts(count: int | None) -> list[Finding]:
    if count is None:
        return []
    if not count:
        return [Finding("Alerts", Level.FINE, "No alert is open.")]
    said = f"{count_text(count, 'alert is', 'alerts are')} open."
    todo = "Look at the list of alerts on this page, and at the runs: an alert ends when it works again."
    return [Finding("Alerts", Level.TROUBLE, said, todo, PageLink("Open the runs", "ingestion?part=runs"))]


def _of_questions(asked: int, unanswered: int) -> Finding:
    said = f"{count_text(asked, 'question')} in seven days, {unanswered:,} of them not answered."
    see = PageLink("Open the questions that nothing answered", "agents?show=questions&list=unanswered")
    return Finding("Questions to agents", Level.FINE, said, see=see if unanswered else None)


def troubles(findings: Sequence[Finding]) -> int:
    """Count the findings with trouble."""
    return sum(finding.level is Level.TROUBLE for finding in findings)
