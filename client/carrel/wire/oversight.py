"""admin/status, admin/auditLog and admin/searchLog: an organization's numbers and logs; extensions, for admins."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from carrel.wire.common import NarrowedRequest, PagedResponse, Principal, RequestModel, ResponseModel, Tabular
from carrel.wire.fields import EmailAddress, Identifier, Instant, Label, RequestInstant, StrictFlag
from carrel.wire.operations import ADMIN, ApiOperation
from carrel.wire.reranking import RerankingState
from carrel.wire.search import SearchFeedback, SearchMode
from carrel.wire.servers import ArchiveState, PrimaryState, StandbyStatus

MOST_LOOKED_THROUGH = 100_000
"""Audit log entries searched by name for one page; the next page continues after them."""


class Bucket(StrEnum):
    """How long a bucket is; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"


class AdminSearchLogSummarizeRequest(RequestModel):
    """Count searches by day or week."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"


class SearchesInBucket(ResponseModel):
    """Searches of one day or week; the first and the last count only the requested time."""

    from_: Annotated[Instant, Field(alias="from")]
    """Beginning of the day or week, in UTC."""
    searches: int
    """Number of searches."""
    without_results: int
    """Number of searches without results."""
    thumbs_up: int
    """Number of thumbs up: the newest on each result, and on each search as a whole."""
    thumbs_down: int
    """Number of thumbs down, counted alike."""


class AdminSearchLogSummarizeResponse(Tabular):
    """All buckets in order, including empty buckets."""

    buckets: list[SearchesInBucket]


class AdminStatusGetRequest(RequestModel):
    """Ask how the organization is doing."""


class IndexingState(ResponseModel):
    """Documents in the catalog's index by the status in `catalog/listDocuments`. The remaining seconds are about the
    waiting chunks by chunks per second. While too many wait, uploads get 503 `indexing_backlog` with a Retry-After."""

    done: int
    """Documents indexed in the catalog."""
    running: int
    """Documents waiting or being indexed in the catalog."""
    without_meaning: int | None = None
    """Running documents already found by words, but not yet by meaning; absent: none."""
    failed: int
    """Documents whose indexing in the catalog failed."""
    failed_in_meaning: int | None = None
    """Failed documents found by words, but not by meaning; absent: none."""
    failed_in_collections: int | None = None
    """Failed documents in collections, counted once per collection; absent: none."""
    oldest_waiting_at: Instant | None = None
    """Since when the longest waiting document can't be found at all; absent when no document waits for its words."""
    waiting_documents: int | None = None
    """Documents waiting or being indexed, in the catalog or a collection."""
    waiting_chunks: int | None = None
    """Approximate number of waiting chunks without a vector."""
    chunks_per_second: float | None = None
    """Recently embedded chunks per second, by the answering process."""
    uploads_refused_seconds: int | None = None
    """Seconds until refused uploads may be repeated on the answering process; absent: uploads are accepted."""


class JobsState(ResponseModel):
    """Jobs of the organization: replies of agents, and runs of syncs."""

    waiting: int
    running: int
    failed: int
    """Failed replies in the last 24 hours."""
    oldest_waiting_at: Instant | None = None
    """Since when the longest waiting job waits; absent when none waits."""


class SyncsState(ResponseModel):
    """Numbers of running, failed and incomplete syncs, and of documents that failed to sync."""

    running: int
    """Syncs running or about to run."""
    failed: int
    """Syncs with a failed last run."""
    incomplete: int | None = None
    """Syncs with a last run that left work undone, such as deletions; absent: none."""
    refused_documents: int | None = None
    """Documents that failed to sync and are still in their sources; absent: none."""
    refusing: int | None = None
    """Syncs with documents that failed; absent: none."""


class SourceQuarantine(ResponseModel):
    """A source with items that could not be loaded, as last reported."""

    source_id: UUID
    source: str
    """The source: a path, a pattern or an address."""
    item_count: int


class QuarantineState(ResponseModel):
    """Items of all sources that could not be loaded."""

    item_count: int
    source_count: int
    """Number of sources with such items."""
    sources: list[SourceQuarantine]
    """The sources with the most items, at most 20."""


class StorageArea(StrEnum):
    """Contents of a disk: the embedded database, incoming files, document files."""

    DATABASE = "DATABASE"
    UPLOADS = "UPLOADS"
    FILES = "FILES"


class StorageLevel(StrEnum):
    """Space on a disk: LOW refuses new data; FULL means that the database itself has no space."""

    OK = "OK"
    LOW = "LOW"
    FULL = "FULL"


class StorageState(ResponseModel):
    """A disk of the service: contents, free space, and the limit for accepting new data."""

    areas: list[StorageArea]
    """Contents of the disk."""
    free_bytes: int
    """Free space in bytes."""
    total_bytes: int
    """Size of the disk in bytes."""
    low_below_bytes: int
    """Free space in bytes below which new data is refused."""
    level: StorageLevel
    """Space on the disk."""


class ConnectionsState(ResponseModel):
    """Connections of callers to the answering process, for all organizations."""

    open: int
    most: int
    """Maximum of open connections."""
    refused: int
    """Connections refused since the start."""
    evicted: int
    """Idle or slow connections closed since the start, to make room for new connections."""
    pressed_at: Instant | None = None
    """When a connection was last refused, evicted or lost for want of descriptors; absent when none ever was."""


class ArithmeticState(ResponseModel):
    """How the local embedding model computes."""

    precision: str
    """`int8`, or `fp32`."""
    processor: str | None = None
    """Processor for the measurements; absent if the operator chose the arithmetic."""
    times_as_fast: float | None = None
    """Speed of 8 bits relative to 32 on this processor; absent if the operator chose the arithmetic."""


class AdminStatusGetResponse(ResponseModel):
    """The state of the organization at one moment."""

    version: str
    """Version of the service."""
    document_count: int
    """Number of documents."""
    collection_count: int
    """Number of collections."""
    chunk_count: int
    """Number of chunks in the catalog's index."""
    indexing: IndexingState
    """How far indexing is."""
    jobs: JobsState
    """Replies of agents and runs of syncs."""
    syncs: SyncsState
    """How the syncs are doing."""
    quarantine: QuarantineState | None = None
    """Items that could not be loaded; absent from an older service."""
    open_alert_count: int | None = None
    """Number of open alerts; absent from a service without alerts."""
    failed_run_count: int | None = None
    """Number of sources and other subjects with a failed, lost or incomplete last run; absent: none."""
    pages_waiting: int | None = None
    """Scanned pages and pictures waiting for text recognition."""
    rebuilds_running: int
    """Number of running index rebuilds."""
    renewing_count: int | None = None
    """Number of documents with an index of an earlier version, being updated; absent: none."""
    embedding_model: str
    """Embedding model of the catalog."""
    arithmetic: ArithmeticState | None = None
    """Arithmetic of the local embedding model; absent where an endpoint's model is the default."""
    language_model: str
    """Default language model of agents, or `built-in`."""
    text_retention_days: int | None = None
    """How many days the words of queries, comments and conversations are kept; absent: without an end."""
    storage: list[StorageState] = Field(default_factory=list[StorageState])
    """Disks of the answering process, without outside databases and buckets."""
    connections: ConnectionsState | None = None
    """Callers' connections; absent if a server other than Carrel's own accepts them."""
    standbys: list[StandbyStatus] | None = None
    """Standbys of the database; absent where the service was given none."""
    primary: PrimaryState | None = None
    """Problems with the primary database server; absent: none."""
    archive: ArchiveState | None = None
    """The archive of log and files; absent where the service was given none."""
    reranking: RerankingState | None = None
    """The reranking endpoint; absent where the service was given none."""


class AdminAuditLogQueryRequest(NarrowedRequest):
    """Read the audit log, newest first."""

    actor: EmailAddress | None = None
    """Only entries by the user or service account with this email address."""
    action: Label | None = None
    """Only entries of this action, for example `document.delete`."""
    actions: Annotated[list[Label] | None, Field(min_length=1, max_length=100)] = None
    """Only entries of any of these actions, at most 100."""
    target_id: Identifier | None = None
    """Only entries about this object."""
    query: Label | None = None
    """Only entries with this text, in any case, in the name of the changed object or of the actor, at the time of the
    change. A page may be short or empty, even if a `nextPageToken` announces more."""
    contained: StrictFlag | None = None
    """true: only entries about files in archives and mails; false: only the remaining entries, including
    `document.unpack` with a summary of each archive and mail. A page may be short, as with `query`. Absent: all."""
    container_id: UUID | None = None
    """Only entries about files in this archive or mail (a documentId). A page may be short, as with `query`."""
    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None


class AuditTarget(ResponseModel):
    """The object of an entry."""

    type: str | None = None
    """Kind of the object."""
    id: str
    """Id of the object."""
    name: str | None = None
    """Name of the object at the time; absent: no name, or an entry older than this member."""


class AuditChange(ResponseModel):
    """The old and the new value of a member; a long text is cut to the part around its first difference."""

    from_: Annotated[Any, Field(alias="from")] = None
    """The old value; absent: none, or erased."""
    to: Any = None
    """The value after, likewise."""


class AuditEntry(ResponseModel):
    """An entry of the audit log."""

    audit_log_id: UUID
    at: Instant
    """Time of the action."""
    actor: Principal | None = None
    """Owner of the credential, with the name at the time; absent: the service."""
    acting_for: Principal | None = None
    """The user that the credential acted for."""
    action: str
    """The action, for example `document.delete`."""
    target: AuditTarget | None = None
    """The object of the action."""
    details: dict[str, Any]
    """Ids and counts for the action; never free text."""
    changes: dict[str, AuditChange] | None = None
    """Changes of an update, by wire name of the member; absent for other actions."""
    text: str | None = None
    """A person's comment; absent: none, or erased."""
    request_id: str | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    address: str | None = None
    """Network address of the request; absent: unknown."""
    device: str | None = None
    """Device or program of the request, by its own description, for example `Firefox on Windows`."""
    attempts: int | None = None
    """Number of failed sign-ins summarized in the entry."""
    last_at: Instant | None = None
    """Time of the last of these attempts."""

    @property
    def who(self) -> str:
        """The name of the actor: a person, an identity provider, the service, or an unknown person signing in."""
        if self.actor is not None:
            return self.actor.name
        provider = self.details.get("scimTokenName")
        if isinstance(provider, str):
            return f"{provider} (provisioning)"
        return "Someone" if self.action in {"session.fail", "session.refuse"} else "The service"


class AdminAuditLogQueryResponse(PagedResponse):
    """A page of entries."""

    entries: list[AuditEntry]
    """The entries, newest first."""


class AdminSearchLogQueryRequest(NarrowedRequest):
    """Read the search log, newest first."""

    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None
    without_results: StrictFlag = False
    """Only searches without results; default: false."""
    without_words: StrictFlag = False
    """Only searches with no word in any readable document: the results have a similar meaning. Default: false."""
    feedback: SearchFeedback | None = None
    """Only searches with this feedback, on a result or as a whole."""


class LoggedSearch(ResponseModel):
    """A search."""

    search_id: UUID
    at: Instant
    """Time of the search."""
    actor: Principal
    """The user or service account of the search."""
    query: str | None = None
    """The query; absent: erased."""
    document_collection_id: UUID | None = None
    """Id of the searched collection; absent: the catalog."""
    mode: SearchMode
    result_count: int
    """Number of results."""
    has_words: bool | None = None
    """Whether any readable document has a word of the query; absent for searches without words."""
    feedback: SearchFeedback | None = None
    """Newest feedback on the search."""
    thumbs_up: int | None = None
    """Number of thumbs up: the newest on each result, and on the search as a whole; absent: none."""
    thumbs_down: int | None = None
    """Number of thumbs down, counted alike; absent without any."""


class AdminSearchLogQueryResponse(PagedResponse):
    """A page of searches."""

    searches: list[LoggedSearch]


ADMIN_SEARCH_LOG_SUMMARIZE = ApiOperation(
    "admin/searchLog/summarize", AdminSearchLogSummarizeRequest, AdminSearchLogSummarizeResponse, ADMIN, by_position=()
)
"""Count the searches of every day or week (in UTC, weeks from Monday); `from_` is inclusive, `to` exclusive.
Days and weeks without searches are included. More than 400 raise BadRequestError."""
ADMIN_STATUS_GET = ApiOperation("admin/status/get", AdminStatusGetRequest, AdminStatusGetResponse, ADMIN)
"""Return the current numbers of resources, indexing, and running and failed jobs and syncs."""
ADMIN_AUDIT_LOG_QUERY = ApiOperation(
    "admin/auditLog/query", AdminAuditLogQueryRequest, AdminAuditLogQueryResponse, ADMIN
)
"""List the audit log, newest first; `actor` is an email address, `from_` is inclusive, `to` exclusive. `query`
is part of the name of the changed object or of the actor, at the time of the change. `contained` False omits
entries about files in archives and mails (summarized by `document.unpack`); True returns only these entries,
and `container_id` only the entries of one archive or mail. `ids` (at most 1000) selects entries."""
ADMIN_SEARCH_LOG_QUERY = ApiOperation(
    "admin/searchLog/query", AdminSearchLogQueryRequest, AdminSearchLogQueryResponse, ADMIN
)
"""List the searches, newest first; `from_` is inclusive, `to` exclusive. Filters: `without_results` (nothing
found), `without_words` (no readable document has any word of the query), `feedback` (THUMBS_UP or THUMBS_DOWN),
and `ids` (at most 1000)."""
