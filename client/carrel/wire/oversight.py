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
"""Entries of the audit log that a query by name looks through for one page; the next page begins after them."""


class Bucket(StrEnum):
    """How long a bucket is; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"


class AdminSearchLogSummarizeRequest(RequestModel):
    """Count searches by day or week."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket
    """Length of a bucket; at most 400 buckets in all."""
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """Time zone whose days are counted, such as `Pacific/Auckland`."""


class SearchesInBucket(ResponseModel):
    """Searches of one day or week; of the first and the last only what was asked for."""

    from_: Annotated[Instant, Field(alias="from")]
    """Beginning of the day or week, in UTC."""
    searches: int
    """Number of searches."""
    without_results: int
    """Number of searches that found nothing."""
    thumbs_up: int
    """Number of thumbs up: the newest on each result, and on each search as a whole."""
    thumbs_down: int
    """Number of thumbs down, counted alike."""


class AdminSearchLogSummarizeResponse(Tabular):
    """Every bucket in its order, those without searches, too."""

    buckets: list[SearchesInBucket]
    """The buckets in order of time, empty ones included."""


class AdminStatusGetRequest(RequestModel):
    """Ask how the organization is doing."""


class IndexingState(ResponseModel):
    """How many documents are indexed in the catalog, as `catalog/listDocuments` says it of each.

    The rest takes about as many seconds as the waiting chunks divided by the chunks per second. While more waits than
    the service takes on, uploads are answered 503 `indexing_backlog` with a Retry-After."""

    done: int
    """Documents that are indexed in the catalog."""
    running: int
    """Documents that are being indexed in the catalog, or wait for it."""
    without_meaning: int | None = None
    """Those of them that are found by their words already, and not by their meaning; absent without any."""
    failed: int
    """Documents that can't be indexed in the catalog."""
    failed_in_meaning: int | None = None
    """Those of them that are found by their words, and not by their meaning; absent without any."""
    failed_in_collections: int | None = None
    """Documents that can't be indexed in a collection, once for each collection; absent without any."""
    oldest_waiting_at: Instant | None = None
    """Since when the document that has waited longest can't be found at all; absent when none waits for its words."""
    waiting_documents: int | None = None
    """Documents to be indexed in the catalog or a collection, those in work included."""
    waiting_chunks: int | None = None
    """About how many chunks of these have no vector yet."""
    chunks_per_second: float | None = None
    """Chunks that the organization had embedded per second of late, by the process that answers."""
    uploads_refused_seconds: int | None = None
    """In how many seconds an upload may come again that the answering process refuses now; absent while it doesn't."""


class JobsState(ResponseModel):
    """Jobs of the organization: replies of agents, and runs of syncs."""

    waiting: int
    """Jobs that wait."""
    running: int
    """Jobs that run."""
    failed: int
    """Replies that failed in the last 24 hours."""
    oldest_waiting_at: Instant | None = None
    """Since when the job that has waited longest waits; absent when none waits."""


class SyncsState(ResponseModel):
    """Numbers of syncs that run, failed or left something undone, and of documents that they could not take."""

    running: int
    """Syncs that run, or are about to."""
    failed: int
    """Syncs whose last run failed."""
    incomplete: int | None = None
    """Syncs whose last run left work undone, such as deletions; absent without any."""
    refused_documents: int | None = None
    """Documents that syncs could not take and that are still in their sources; absent without any."""
    refusing: int | None = None
    """Syncs that could not take some documents; absent without any."""


class SourceQuarantine(ResponseModel):
    """A source that could not be loaded whole, as it was last reported."""

    source_id: UUID
    source: str
    """What is loaded from: a path, a pattern or an address."""
    item_count: int


class QuarantineState(ResponseModel):
    """What of all sources could not be loaded."""

    item_count: int
    source_count: int
    """Number of sources that have any."""
    sources: list[SourceQuarantine]
    """Those with the most, at most 20."""


class StorageArea(StrEnum):
    """What is kept on a disk: the embedded database, files on their way in, the files of documents."""

    DATABASE = "DATABASE"
    UPLOADS = "UPLOADS"
    FILES = "FILES"


class StorageLevel(StrEnum):
    """Whether there is room: with LOW nothing more is taken in; with FULL the database itself runs out of it."""

    OK = "OK"
    LOW = "LOW"
    FULL = "FULL"


class StorageState(ResponseModel):
    """A disk of the service: what is kept there, how much is free, and below what nothing more is taken in."""

    areas: list[StorageArea]
    """What is kept on the disk."""
    free_bytes: int
    """Free space in bytes."""
    total_bytes: int
    """Size of the disk in bytes."""
    low_below_bytes: int
    """Free space in bytes below which nothing more is taken in."""
    level: StorageLevel
    """Whether there is room."""


class ConnectionsState(ResponseModel):
    """Callers' connections to the process that answers, whichever organization they belong to."""

    open: int
    """Connections that are open."""
    most: int
    """Connections that may be open."""
    refused: int
    """Connections that were not accepted since the start."""
    evicted: int
    """Idle or slow connections that were closed to make room for others since the start."""
    pressed_at: Instant | None = None
    """When a connection was last refused, evicted or lost for want of descriptors; absent when none ever was."""


class ArithmeticState(ResponseModel):
    """How the local embedding model computes."""

    precision: str
    """`int8`, or `fp32`."""
    processor: str | None = None
    """Processor on which both were measured; absent where the operator chose one."""
    times_as_fast: float | None = None
    """How many times as fast 8 bits are on that processor as 32; absent where the operator chose one."""


class AdminStatusGetResponse(ResponseModel):
    """How the organization is doing, at one moment."""

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
    """What could not be loaded; absent from a service that doesn't tell."""
    open_alert_count: int | None = None
    """Number of alerts that are open; absent from a service without alerts."""
    failed_run_count: int | None = None
    """Number of sources and other subjects whose last run failed, was lost or left work undone; absent without any."""
    pages_waiting: int | None = None
    """Scanned pages, and pictures within files, that wait for text recognition."""
    rebuilds_running: int
    """Number of indexes that are being rebuilt."""
    renewing_count: int | None = None
    """Number of documents whose index is as an earlier version wrote it, and is being updated; absent without any."""
    embedding_model: str
    """Embedding model of the catalog."""
    arithmetic: ArithmeticState | None = None
    """Arithmetic of the local embedding model; absent where an endpoint's model is the default."""
    language_model: str
    """Default language model of agents, or `built-in`."""
    text_retention_days: int | None = None
    """How many days the words of queries, comments and conversations are kept; absent: without an end."""
    storage: list[StorageState] = Field(default_factory=list[StorageState])
    """Disks of the process that answers; an outside database and buckets are not among them."""
    connections: ConnectionsState | None = None
    """Callers' connections; absent where another server than Carrel's own accepts them."""
    standbys: list[StandbyStatus] | None = None
    """Standbys of the database; absent where the service was given none."""
    primary: PrimaryState | None = None
    """What was wrong with the server that takes the changes; absent where nothing was."""
    archive: ArchiveState | None = None
    """The archive of log and files; absent where the service was given none."""
    reranking: RerankingState | None = None
    """The reranking endpoint; absent where the service was given none."""


class AdminAuditLogQueryRequest(NarrowedRequest):
    """Read the audit log, newest first."""

    actor: EmailAddress | None = None
    """Only entries of the user or service account with this email address."""
    action: Label | None = None
    """Only entries of this action, such as `document.delete`."""
    target_id: Identifier | None = None
    """Only entries about the object with this id."""
    query: Label | None = None
    """Only entries with this in the name, as it was then, of what was changed or of who did it; in any case.

    A page may then be short, or empty, though a `nextPageToken` says that others follow."""
    contained: StrictFlag | None = None
    """true: only entries about files in archives and mails; false: only others, among which `document.unpack` sums up
    what was read of each archive and mail. As with `query`, a page may be short. Absent: all."""
    container_id: UUID | None = None
    """Only entries about files in the archive or mail with this documentId. As with `query`, a page may be short."""
    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None


class AuditTarget(ResponseModel):
    """What an entry is about."""

    type: str | None = None
    """Kind of the object."""
    id: str
    """Id of the object."""
    name: str | None = None
    """Name that the object had then; absent without one, and on entries from before names were kept."""


class AuditChange(ResponseModel):
    """The old and the new value of a member; a long text is cut to the part around its first difference."""

    from_: Annotated[Any, Field(alias="from")] = None
    """The value before; absent: there was none, or it was erased."""
    to: Any = None
    """The value after, likewise."""


class AuditEntry(ResponseModel):
    """One entry of the audit log."""

    audit_log_id: UUID
    at: Instant
    """When it happened."""
    actor: Principal | None = None
    """Who owns the credential that was used, with the name they had then; absent: the service itself."""
    acting_for: Principal | None = None
    """The user that the credential named to act for."""
    action: str
    """What was done, such as `document.delete`."""
    target: AuditTarget | None = None
    """What it was done to."""
    details: dict[str, Any]
    """Ids and counts that belong to the action; never free text."""
    changes: dict[str, AuditChange] | None = None
    """What an update changed, by the member's name on the wire; absent for other actions."""
    text: str | None = None
    """A comment of somebody's; absent when there was none or it was erased."""
    request_id: str | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """Id of the request, the same as in the header X-Request-Id."""
    address: str | None = None
    """Network address that the request came from; absent where nobody sent one."""
    device: str | None = None
    """Device or program that sent the request, such as `Firefox on Windows`, by what it says of itself."""
    attempts: int | None = None
    """Number of attempts that an entry of failed sign-ins stands for."""
    last_at: Instant | None = None
    """When the last of these attempts was."""

    @property
    def who(self) -> str:
        """The name of who did it: somebody's, an identity provider's, the service, or somebody who tried to sign in."""
        if self.actor is not None:
            return self.actor.name
        provider = self.details.get("scimTokenName")
        if isinstance(provider, str):
            return f"{provider} (provisioning)"
        return "Somebody" if self.action in {"session.fail", "session.refuse"} else "The service"


class AdminAuditLogQueryResponse(PagedResponse):
    """One page of entries."""

    entries: list[AuditEntry]
    """The entries, newest first."""


class AdminSearchLogQueryRequest(NarrowedRequest):
    """Read the search log, newest first."""

    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None
    without_results: StrictFlag = False
    """Only searches that found nothing; false unless given."""
    without_words: StrictFlag = False
    """Only searches of whose words nothing that could be read has any; what they found is near in meaning alone.

    False unless given."""
    feedback: SearchFeedback | None = None
    """Only searches that have this feedback, on a result or as a whole."""


class LoggedSearch(ResponseModel):
    """One search."""

    search_id: UUID
    at: Instant
    """When it happened."""
    actor: Principal
    """Who the search was done as."""
    query: str | None = None
    """Text that was searched for; absent when it was erased."""
    document_collection_id: UUID | None = None
    """Id of the collection that was searched; absent: the catalog."""
    mode: SearchMode
    """How it was searched."""
    result_count: int
    """Number of results."""
    has_words: bool | None = None
    """Whether anything that could be read has a word of the query; absent where no words were looked for."""
    feedback: SearchFeedback | None = None
    """Newest feedback on the search."""
    thumbs_up: int | None = None
    """Number of thumbs up: the newest on each result, and on the search as a whole; absent without any."""
    thumbs_down: int | None = None
    """Number of thumbs down, counted alike; absent without any."""


class AdminSearchLogQueryResponse(PagedResponse):
    """One page of searches."""

    searches: list[LoggedSearch]
    """The searches, newest first."""


ADMIN_SEARCH_LOG_SUMMARIZE = ApiOperation(
    "admin/searchLog/summarize", AdminSearchLogSummarizeRequest, AdminSearchLogSummarizeResponse, ADMIN, by_position=()
)
"""Count the searches of every day or week (in UTC, beginning on Monday); `from_` is included, `to` is not.

Days and weeks without searches are among them. More than 400 are refused with BadRequestError."""
ADMIN_STATUS_GET = ApiOperation("admin/status/get", AdminStatusGetRequest, AdminStatusGetResponse, ADMIN)
"""Tell what there is, what is being indexed, and which jobs and syncs go on or failed, at this moment."""
ADMIN_AUDIT_LOG_QUERY = ApiOperation(
    "admin/auditLog/query", AdminAuditLogQueryRequest, AdminAuditLogQueryResponse, ADMIN
)
"""Walk the entries, newest first; `actor` is an email address, `from_` is included, `to` is not.

`query` is a part of the name, as it was then, of what was changed or of who did it. `contained` False omits
entries about files in archives and mails, which `document.unpack` sums up; True leaves those alone, and
`container_id` those of one archive or mail. `ids` leaves the entries of these ids, at most 1000."""
ADMIN_SEARCH_LOG_QUERY = ApiOperation(
    "admin/searchLog/query", AdminSearchLogQueryRequest, AdminSearchLogQueryResponse, ADMIN
)
"""Walk the searches, newest first; `from_` is included, `to` is not.

`without_results` leaves only those that found nothing, `without_words` those of whose words nothing that could
be read has any, `feedback` (THUMBS_UP or THUMBS_DOWN) those that were given it, `ids` those of these ids, at
most 1000."""
