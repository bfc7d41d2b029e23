"""documentCollections/docstore/*: syncs that update a collection from an outside document database (seed, beta)."""

import re
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, SecretStr

from carrel.wire import common, operations
from carrel.wire.fields import NO_NUL, NO_NUL_SECRET, WRITTEN_OUT, EmailAddress, Instant, Label, StrictFlag, must

_SEGMENT = re.compile(r"[^.$\0][^.\0]*")


FieldPath = Annotated[
    str,
    Field(min_length=1, max_length=500),
    NO_NUL,
    must(
        lambda path: all(map(_SEGMENT.fullmatch, path.split("."))),
        "must be field names joined by dots, such as content.text",
    ),
]
"""Path of a value in a source document: field names joined by dots; a number is a position in a list."""

SourceName = Annotated[str, Field(min_length=1, max_length=255), NO_NUL]
"""The name of a collection in the source's database."""

FilterExpression = Annotated[dict[Annotated[str, Field(max_length=500), NO_NUL], Any], Field(max_length=100)]
"""A MongoDB query in Extended JSON."""

DocstoreUri = Annotated[SecretStr, Field(min_length=1, max_length=4096), NO_NUL_SECRET, WRITTEN_OUT]
"""A connection address: hidden from `repr` and logs; written only to the request's JSON."""


class SourceFields(common.RequestModel):
    """The fields of a source document for text, name, last change and address."""

    body: FieldPath
    source_name: FieldPath
    source_system_updated: FieldPath | None = None
    """Path of the time of the last change; absent: the source has none."""
    source_url: FieldPath | None = None
    """Path of the document's address; absent: the source has none."""


class DocstoreConfig(common.RequestModel):
    """Source, access and deletion options of a sync. Without access members, only the owner may read the documents. A
    run that would delete more than the limit deletes nothing and reports this."""

    sync_name: Label
    collection_name: SourceName
    """Name of the collection in the source's database."""
    source_fields: SourceFields
    filter_expression: FilterExpression = Field(default_factory=dict[str, Any])
    """MongoDB query in Extended JSON for the documents to sync; all unless given."""
    allowed_users_email_addresses: Annotated[list[EmailAddress] | None, Field(max_length=10_000)] = None
    """Users with read access to the documents, at most 10,000."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Groups with read access to the documents, at most 10,000."""
    internal_public: StrictFlag | None = None
    delete_missing: StrictFlag = True
    """Whether to delete documents missing from the source; default: true."""
    delete_limit_percent: Annotated[int, Field(strict=True, ge=0, le=100)] = 20
    """Most documents deleted by a run, in percent of all, 0 to 100; default: 20."""


class CreateDocstoreSyncRequest(common.ActingRequest):
    """Sync a collection of a document database into a collection, and launch the first run."""

    document_collection_id: UUID
    docstore_uri: Annotated[DocstoreUri, Field(alias="docstoreURI")]
    """Address of the document database with credentials; encrypted at rest, never returned."""
    config: DocstoreConfig


class UpdateDocstoreSyncRequest(common.VersionedRequest, common.ActingRequest):
    """Replace a sync's address and config, and launch a run."""

    docstore_credential_id: UUID
    docstore_uri: Annotated[DocstoreUri | None, Field(alias="docstoreURI")] = None
    """Address with credentials, encrypted, never returned. Absent: unchanged, if `collectionName` is unchanged."""
    config: DocstoreConfig


class LaunchDocstoreSyncRequest(common.ActingRequest):
    """Launch a run of a sync without changes."""

    docstore_credential_id: UUID
    approved_removals: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Ids of blocked documents that runs may remove despite the limit, until removed or back in the source."""


class DocstoreSyncLaunched(common.ResponseModel):
    """The sync, and whether a run was launched."""

    docstore_credential_id: UUID
    resource_id: str
    """Identifier of the sync as a resource."""
    sync_launched: bool
    """Whether a run was launched."""


class CreateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The new sync; its first run continues in the background."""


class UpdateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The changed sync; its run continues in the background."""


class LaunchDocstoreSyncResponse(DocstoreSyncLaunched):
    """The sync; its run continues in the background."""


class DocstoreSyncStatus(StrEnum):
    """PENDING: a run is about to begin; FAILED: the last run ended early, and the next run continues from there."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class DocstoreCounts(common.ResponseModel):
    """Counts of the last run so far."""

    read: int = 0
    """Source documents read."""
    created: int = 0
    """Documents created."""
    updated: int = 0
    """Documents updated."""
    unchanged: int = 0
    """Documents already up to date."""
    deleted: int = 0
    """Documents deleted."""
    failed: int = 0
    """Source documents on the list of failures now."""


class SourceFieldsInfo(common.ResponseModel):
    """The field mapping of a sync."""

    body: str
    source_name: str
    source_system_updated: str | None = None
    """Path of the time of the last change."""
    source_url: str | None = None
    """Path of the document's address."""


class DocstoreConfigInfo(common.ResponseModel):
    """The config of a sync."""

    sync_name: str
    name = property(attrgetter("sync_name"))
    collection_name: str
    """Name of the collection in the source's database."""
    source_fields: SourceFieldsInfo
    filter_expression: dict[str, Any]
    """MongoDB query in Extended JSON for the documents to sync."""
    allowed_users_email_addresses: list[str] | None = None
    """Users with read access to the documents."""
    allowed_group_ids: list[UUID] | None = None
    """Groups with read access to the documents."""
    internal_public: bool | None = None
    delete_missing: bool
    """Whether documents missing from the source are deleted."""
    delete_limit_percent: int
    """Most documents deleted by a run, in percent of all."""


class DocstoreError(common.ResponseModel):
    """Reason for the last run's failure or remaining work; `code` is stable."""

    code: str
    message: str
    """The problem and its solution, for people."""


class DocstoreSync(common.Versioned):
    """A sync and the result of the last run. The address is left out, because it may contain a password."""

    edited = ("config",)

    docstore_credential_id: UUID
    resource_id: str
    """Identifier of the sync as a resource."""
    document_collection_id: UUID
    config: DocstoreConfigInfo
    status: DocstoreSyncStatus
    """How far the sync is."""
    counts: DocstoreCounts
    """Counts of the last run so far."""
    document_count: int
    """Number of existing documents from the sync."""
    cursor: dict[str, Any] | None = None
    """How far the source was read, in Extended JSON."""
    warning: DocstoreError | None = None
    """Work or documents that a completed run left out."""
    last_error: DocstoreError | None = None
    """Why the last run ended early."""
    created_at: Instant
    updated_at: Instant
    wanted_at: Instant | None = None
    """When the pending run was requested."""
    started_at: Instant | None = None
    """When the last run began; absent: never."""
    finished_at: Instant | None = None
    """When the last run ended; absent during the run."""


class GetDocstoreSyncRequest(common.ActingRequest):
    """Ask for a sync."""

    docstore_credential_id: UUID


class GetDocstoreSyncResponse(DocstoreSync):
    """The sync."""


class ListDocstoreSyncsRequest(common.ActingRequest, common.PagedRequest):
    """List the syncs into collections that the caller may edit; optionally only one collection."""

    document_collection_id: UUID | None = None
    """Only syncs into this collection."""


class ListDocstoreSyncsResponse(common.PagedResponse):
    """A page of syncs."""

    docstore_syncs: list[DocstoreSync]


class ListDocstoreFailuresRequest(common.ActingRequest, common.PagedRequest):
    """List the source documents that failed to sync."""

    docstore_credential_id: UUID


class DocstoreFailure(common.ResponseModel):
    """A source document that failed to sync; every run retries it."""

    source_id: Any
    """The source document's `_id`, in Extended JSON."""
    document_external_id: str
    """External id of the document, existing or not, in the catalog."""
    code: str
    message: str
    """Why the document could not be taken, for people."""
    failed_at: Instant
    """When the document last failed."""


class ListDocstoreFailuresResponse(common.PagedResponse):
    """A page of failures."""

    failures: list[DocstoreFailure]


class ListDocstoreHeldRemovalsRequest(ListDocstoreFailuresRequest):
    """List the documents whose removal the sync's limit blocked."""


class DocstoreHeldRemoval(common.ResponseModel):
    """A document missing from the source, whose removal needs an approval."""

    document_id: UUID
    document_external_id: str
    document_name: str
    approved: bool
    """Whether the next run may remove the document."""


class ListDocstoreHeldRemovalsResponse(common.PagedResponse):
    """A page of blocked removals."""

    held_removals: list[DocstoreHeldRemoval]
    held_count: int | None = None
    """Number of blocked removals on all pages."""


class ListDocstoreRunsRequest(GetDocstoreSyncRequest):
    """List the last runs of a sync."""


class DocstoreRun(common.ResponseModel):
    """An ended run."""

    status: DocstoreSyncStatus
    """Final status of the run."""
    counts: DocstoreCounts
    warning: DocstoreError | None = None
    """Work or documents left out."""
    last_error: DocstoreError | None = None
    """Reason for an early end."""
    started_at: Instant
    """When the run began."""
    finished_at: Instant
    """When the run ended."""


class ListDocstoreRunsResponse(common.ResponseModel):
    """The last 50 runs, newest first."""

    runs: list[DocstoreRun]


class PreviewDocstoreSyncRequest(common.ActingRequest):
    """Connect to a document database, and map a few documents; nothing is saved."""

    document_collection_id: UUID
    """Id of the sync's collection, existing or planned."""
    docstore_credential_id: UUID | None = None
    """Id of a sync with an address to use by default, for the collection named in the sync."""
    docstore_uri: Annotated[DocstoreUri | None, Field(alias="docstoreURI")] = None
    """Address of the document database with credentials."""
    config: DocstoreConfig
    """Source, access and deletion options to try."""


class DocstorePreviewDocument(common.ResponseModel):
    """A source document as a sync would map it."""

    source_id: Any
    """The source document's `_id`, in Extended JSON."""
    name: str | None = None
    """Name of the document after a sync."""
    text: str | None = None
    """Beginning of the text."""
    problem: str | None = None
    """Why the document could not be taken."""


class PreviewDocstoreSyncResponse(common.ResponseModel):
    """Fields and documents in the database, or the reason for a failure to read them."""

    problem: DocstoreError | None = None
    """Reason for the failure, with the error code of a run."""
    document_count: int | None = None
    """Number of documents matching the filter; absent if the database doesn't count them in time."""
    fields: list[str] = Field(default_factory=list[str])
    """Paths of the fields in the examined documents."""
    documents: list[DocstorePreviewDocument] = Field(default_factory=list[DocstorePreviewDocument])
    """The first documents."""


class DeleteDocstoreSyncRequest(common.ActingRequest):
    """Delete a sync and its address; synced documents stay."""

    docstore_credential_id: UUID


class DeleteDocstoreSyncResponse(common.ResponseModel):
    """The deleted sync."""

    docstore_credential_id: UUID


CREATE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/createDocstoreSync",
    CreateDocstoreSyncRequest,
    CreateDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Keep a collection up to date with a collection of a document database, and launch the first run.
`docstore_uri` is mongodb://user:password@host:port/database or mongodb+srv://…; it is encrypted at rest and
never returned. `config` is `{"sync_name": …, "collection_name": …, "source_fields": {"body": …, "source_name":
…}}`, with more optional members in `carrel.wire.docstore.DocstoreConfig`."""
UPDATE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/updateDocstoreSync",
    UpdateDocstoreSyncRequest,
    UpdateDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND | operations.CONFLICT | operations.SHARED,
    by_position=("docstore_credential_id",),
)
"""Replace a sync's config, and optionally its address, and launch a run; for the sync's maker and admins. The
run reads everything, unless only the name of the sync and its deletion options changed."""
LAUNCH_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/launchDocstoreSync",
    LaunchDocstoreSyncRequest,
    LaunchDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND,
)
"""Launch a run that continues where the last run stopped; `sync_launched` is False while a run is in progress.
`approved_removals` are for the sync's maker and admins."""
GET_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/getDocstoreSync",
    GetDocstoreSyncRequest,
    GetDocstoreSyncResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""Return a sync: its config, status, last run's counts, and errors."""
LIST_DOCSTORE_SYNCS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreSyncs",
    ListDocstoreSyncsRequest,
    ListDocstoreSyncsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""List the syncs into collections that the caller may edit; optionally only one collection."""
LIST_DOCSTORE_FAILURES = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreFailures",
    ListDocstoreFailuresRequest,
    ListDocstoreFailuresResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""List the source documents that failed to sync, each with its reason."""
LIST_DOCSTORE_HELD_REMOVALS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreHeldRemovals",
    ListDocstoreHeldRemovalsRequest,
    ListDocstoreHeldRemovalsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""List the documents whose removal the sync's limit blocked; for the sync's maker and admins."""
LIST_DOCSTORE_RUNS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreRuns",
    ListDocstoreRunsRequest,
    ListDocstoreRunsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""List the last 50 ended runs of a sync, newest first."""
PREVIEW_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/previewDocstoreSync",
    PreviewDocstoreSyncRequest,
    PreviewDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Connect to a document database like a sync, and return its fields and first documents; nothing is saved. The
default address is the sync's own, for its maker and admins and the sync's own collection."""
DELETE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/deleteDocstoreSync",
    DeleteDocstoreSyncRequest,
    DeleteDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.NOT_FOUND,
)
"""Delete a sync and its address; synced documents stay."""
