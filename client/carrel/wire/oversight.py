"""admin/status/get and admin/searchLog/summarize: how an organization is doing, in numbers; extensions, for admins."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from carrel.wire.common import Instant, RequestInstant, RequestModel, ResponseModel, Tabular


class Bucket(StrEnum):
    """How long a bucket is, in UTC; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"


class AdminSearchLogSummarizeRequest(RequestModel):
    """Count searches by day or week; `from_` is included, `to` is not. At most 400 buckets."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket


class SearchesInBucket(ResponseModel):
    """Searches of the day or week that begins at `from_`; of the first and the last only what was asked for.

    `thumbs_up` and `thumbs_down`: how many were given that feedback, each with its newest.
    """

    from_: Annotated[Instant, Field(alias="from")]
    searches: int
    without_results: int
    thumbs_up: int
    thumbs_down: int


class AdminSearchLogSummarizeResponse(Tabular):
    """Every bucket in its order, those without searches, too."""

    rows_in: ClassVar[str] = "buckets"
    buckets: list[SearchesInBucket]


class AdminStatusGetRequest(RequestModel):
    """Ask how the organization is doing."""


class IndexingState(ResponseModel):
    """How many documents are indexed in the catalog, as `catalog/listDocuments` says it of each.

    `oldest_waiting_at`: since when the one that has waited longest is to be indexed, of those that are RUNNING.
    `waiting_documents`: how many are to be indexed, in the catalog or in a collection, those that are being indexed
    included; `waiting_chunks`: about how many chunks of theirs have no vector yet; `chunks_per_second`: how many the
    organization gets of late of the process that answers, 0 while nothing of it is to be indexed. So the rest takes
    about as many seconds as the one divided by the other; while more waits than the service takes on, uploads are
    answered 503 `indexing_backlog` with a Retry-After.
    """

    done: int
    running: int
    failed: int
    oldest_waiting_at: Instant | None = None
    waiting_documents: int | None = None
    waiting_chunks: int | None = None
    chunks_per_second: float | None = None


class JobsState(ResponseModel):
    """Jobs of the organization: replies of agents, and runs of syncs.

    `failed`: how many replies failed in the last 24 hours; a run that failed is told by its sync.
    """

    waiting: int
    running: int
    failed: int
    oldest_waiting_at: Instant | None = None


class SyncsState(ResponseModel):
    """Syncs that are going on, or are about to; and those whose last run failed."""

    running: int
    failed: int


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
    free_bytes: int
    total_bytes: int
    low_below_bytes: int
    level: StorageLevel


class AdminStatusGetResponse(ResponseModel):
    """How the organization is doing, at one moment.

    `chunk_count` is of the catalog; `rebuilds_running` counts indexes that are made anew; `embedding_model` is the
    catalog's; `language_model` is the agents' default, or `built-in`; `storage` are the disks of the process that
    answers, without those of an outside database or a bucket.
    """

    version: str
    document_count: int
    collection_count: int
    chunk_count: int
    indexing: IndexingState
    jobs: JobsState
    syncs: SyncsState
    rebuilds_running: int
    embedding_model: str
    language_model: str
    storage: list[StorageState] = Field(default_factory=list[StorageState])
