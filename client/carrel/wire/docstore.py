"""documentCollections/docstore/*: syncs that keep a collection as an outside document database has it (seed, beta)."""

import re
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr

from carrel.wire import common, operations
from carrel.wire.fields import NO_NUL, NO_NUL_SECRET, WRITTEN_OUT, EmailAddress, Instant, Label, StrictFlag

_SEGMENT = re.compile(r"[^.$\0][^.\0]*")


def _refuse_odd_path(path: str) -> str:
    if not all(_SEGMENT.fullmatch(segment) for segment in path.split(".")):
        raise ValueError("must be field names joined by dots, such as content.text")
    return path


FieldPath = Annotated[str, Field(min_length=1, max_length=500), NO_NUL, AfterValidator(_refuse_odd_path)]
"""Where a value lies in a source document: field names joined by dots; a number is a place in a list."""

SourceName = Annotated[str, Field(min_length=1, max_length=255), NO_NUL]
"""The name of a collection in the source's database."""

FilterExpression = Annotated[dict[Annotated[str, Field(max_length=500), NO_NUL], Any], Field(max_length=100)]
"""A MongoDB query in Extended JSON."""

DocstoreUri = Annotated[SecretStr, Field(min_length=1, max_length=4096), NO_NUL_SECRET, WRITTEN_OUT]
"""A connection address: hidden from `repr` and logs; written out only in the request's JSON."""


class SourceFields(common.RequestModel):
    """Which of a source document's fields are what: its text, its name, when it was last changed, its address."""

    body: FieldPath
    """Path of the text."""
    source_name: FieldPath
    """Path of the document's name."""
    source_system_updated: FieldPath | None = None
    """Path of the time of the last change; absent: the source has none."""
    source_url: FieldPath | None = None
    """Path of the document's address; absent: the source has none."""


class DocstoreConfig(common.RequestModel):
    """What is synced, and who may read it; without access members the documents are readable by their owner alone.

    A run that would delete more than the limit deletes nothing and says so."""

    sync_name: Label
    """Name of the sync, as people see it."""
    collection_name: SourceName
    """Name of the collection in the source's database."""
    source_fields: SourceFields
    """Which fields of a source document are what."""
    filter_expression: FilterExpression = Field(default_factory=dict[str, Any])
    """MongoDB query in Extended JSON for the documents to sync; all unless given."""
    allowed_users_email_addresses: Annotated[list[EmailAddress] | None, Field(max_length=10_000)] = None
    """Users who may read the documents, at most 10,000."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Groups that may read the documents, at most 10,000."""
    internal_public: StrictFlag | None = None
    """Whether every active user of the organization may read the documents."""
    delete_missing: StrictFlag = True
    """Whether documents that are no longer in the source are deleted; true unless given."""
    delete_limit_percent: Annotated[int, Field(strict=True, ge=0, le=100)] = 20
    """Most documents that one run may delete, in percent of all, 0 to 100; 20 unless given."""


class CreateDocstoreSyncRequest(common.ActingRequest):
    """Sync a collection of a document database into a collection, and launch the first run."""

    document_collection_id: UUID
    docstore_uri: Annotated[DocstoreUri, Field(alias="docstoreURI")]
    """Address of the document database with its credentials; kept encrypted, never returned."""
    config: DocstoreConfig
    """What is synced, and who may read it."""


class UpdateDocstoreSyncRequest(common.VersionedRequest, common.ActingRequest):
    """Replace a sync's address and config, and launch a run."""

    docstore_credential_id: UUID
    docstore_uri: Annotated[DocstoreUri | None, Field(alias="docstoreURI")] = None
    """Address of the document database with its credentials; kept encrypted, never returned; without it, as before.

    Another `collectionName` needs the address again."""
    config: DocstoreConfig
    """What is synced, and who may read it."""


class LaunchDocstoreSyncRequest(common.ActingRequest):
    """Launch a run of a sync as it is."""

    docstore_credential_id: UUID
    approved_removals: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Ids of held documents that runs may remove whatever the limit, until they are removed or in the source again."""


class DocstoreSyncLaunched(common.ResponseModel):
    """The sync, and whether a run of it was launched."""

    docstore_credential_id: UUID
    resource_id: str
    """Identifier of the sync as a resource."""
    sync_launched: bool
    """Whether a run was launched."""


class CreateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The new sync; its first run goes on in the background."""


class UpdateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The changed sync; its run goes on in the background."""


class LaunchDocstoreSyncResponse(DocstoreSyncLaunched):
    """The sync; its run goes on in the background."""


class DocstoreSyncStatus(StrEnum):
    """PENDING: a run is to begin; FAILED: the last run ended early, and the next goes on where it stopped."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class DocstoreCounts(common.ResponseModel):
    """What the last run did so far."""

    read: int = 0
    """Source documents read."""
    created: int = 0
    """Documents created."""
    updated: int = 0
    """Documents updated."""
    unchanged: int = 0
    """Documents that were up to date already."""
    deleted: int = 0
    """Documents deleted."""
    failed: int = 0
    """Source documents on the list of failures now."""


class SourceFieldsInfo(common.ResponseModel):
    """The field mapping of a sync."""

    body: str
    """Path of the text."""
    source_name: str
    """Path of the document's name."""
    source_system_updated: str | None = None
    """Path of the time of the last change."""
    source_url: str | None = None
    """Path of the document's address."""


class DocstoreConfigInfo(common.ResponseModel):
    """The config of a sync, as it was given."""

    sync_name: str
    """Name of the sync, as people see it."""
    name = property(attrgetter("sync_name"))
    collection_name: str
    """Name of the collection in the source's database."""
    source_fields: SourceFieldsInfo
    """Which fields of a source document are what."""
    filter_expression: dict[str, Any]
    """MongoDB query in Extended JSON for the documents to sync."""
    allowed_users_email_addresses: list[str] | None = None
    """Users who may read the documents."""
    allowed_group_ids: list[UUID] | None = None
    """Groups that may read the documents."""
    internal_public: bool | None = None
    """Whether every active user of the organization may read the documents."""
    delete_missing: bool
    """Whether documents that are no longer in the source are deleted."""
    delete_limit_percent: int
    """Most documents that one run may delete, in percent of all."""


class DocstoreError(common.ResponseModel):
    """Why the last run failed, or what it left undone; `code` is stable."""

    code: str
    """Stable code of the problem, for programs."""
    message: str
    """What went wrong and what to do, for people."""


class DocstoreSync(common.Versioned):
    """A sync and how its last run went; never its address."""

    edited = ("config",)

    docstore_credential_id: UUID
    resource_id: str
    """Identifier of the sync as a resource."""
    document_collection_id: UUID
    config: DocstoreConfigInfo
    """What is synced, and who may read it."""
    status: DocstoreSyncStatus
    """How far the sync is."""
    counts: DocstoreCounts
    """What the last run did so far."""
    document_count: int
    """Number of documents that the sync brought and that exist."""
    cursor: dict[str, Any] | None = None
    """How far the source was read, in Extended JSON."""
    warning: DocstoreError | None = None
    """What a run that came to its end left out or undone."""
    last_error: DocstoreError | None = None
    """Why the last run ended early."""
    created_at: Instant
    updated_at: Instant
    wanted_at: Instant | None = None
    """Since when the run is wanted that is to begin."""
    started_at: Instant | None = None
    """When the last run began; absent: there was none."""
    finished_at: Instant | None = None
    """When the last run ended; absent while it goes on."""


class GetDocstoreSyncRequest(common.ActingRequest):
    """Ask for a sync."""

    docstore_credential_id: UUID


class GetDocstoreSyncResponse(DocstoreSync):
    """The sync."""


class ListDocstoreSyncsRequest(common.ActingRequest, common.PagedRequest):
    """List the syncs into collections that the caller may edit, or into one of them."""

    document_collection_id: UUID | None = None
    """Only syncs into the collection of this id."""


class ListDocstoreSyncsResponse(common.PagedResponse):
    """One page of syncs."""

    docstore_syncs: list[DocstoreSync]
    """The syncs."""


class ListDocstoreFailuresRequest(common.ActingRequest, common.PagedRequest):
    """List the source documents that a sync could not take."""

    docstore_credential_id: UUID


class DocstoreFailure(common.ResponseModel):
    """A source document that could not be taken; every run tries it again."""

    source_id: Any
    """The source document's `_id`, in Extended JSON."""
    document_external_id: str
    """External id that the document has, or would have, in the catalog."""
    code: str
    """Stable code of the problem, for programs."""
    message: str
    """Why the document could not be taken, for people."""
    failed_at: Instant
    """When it failed last."""


class ListDocstoreFailuresResponse(common.PagedResponse):
    """One page of failures."""

    failures: list[DocstoreFailure]
    """The failures."""


class ListDocstoreHeldRemovalsRequest(ListDocstoreFailuresRequest):
    """List the documents that a sync would remove and that its limit holds."""


class DocstoreHeldRemoval(common.ResponseModel):
    """A document that is no longer in the source, and that no run may remove without an approval."""

    document_id: UUID
    document_external_id: str
    """External id of the document."""
    document_name: str
    """Name of the document."""
    approved: bool
    """Whether the next run may remove it."""


class ListDocstoreHeldRemovalsResponse(common.PagedResponse):
    """One page of held removals."""

    held_removals: list[DocstoreHeldRemoval]
    """The held removals."""
    held_count: int | None = None
    """Number of held removals on all pages."""


class ListDocstoreRunsRequest(GetDocstoreSyncRequest):
    """List the last runs of a sync."""


class DocstoreRun(common.ResponseModel):
    """A run that ended."""

    status: DocstoreSyncStatus
    """How it ended."""
    counts: DocstoreCounts
    """What it did."""
    warning: DocstoreError | None = None
    """What it left out or undone."""
    last_error: DocstoreError | None = None
    """Why it ended early."""
    started_at: Instant
    """When it began."""
    finished_at: Instant
    """When it ended."""


class ListDocstoreRunsResponse(common.ResponseModel):
    """The last 50 runs, newest first."""

    runs: list[DocstoreRun]
    """The runs."""


class PreviewDocstoreSyncRequest(common.ActingRequest):
    """Connect to a document database, and map some documents; nothing is kept."""

    document_collection_id: UUID
    """Id of the collection that the sync is to be for, or is for."""
    docstore_credential_id: UUID | None = None
    """Id of a sync whose address is used where none is given, for the collection that the sync names."""
    docstore_uri: Annotated[DocstoreUri | None, Field(alias="docstoreURI")] = None
    """Address of the document database with its credentials."""
    config: DocstoreConfig
    """What would be synced."""


class DocstorePreviewDocument(common.ResponseModel):
    """A source document as it would be brought."""

    source_id: Any
    """The source document's `_id`, in Extended JSON."""
    name: str | None = None
    """Name that the document would have."""
    text: str | None = None
    """Beginning of its text."""
    problem: str | None = None
    """Why the document could not be taken."""


class PreviewDocstoreSyncResponse(common.ResponseModel):
    """What the database has for a sync, or why it can't be read."""

    problem: DocstoreError | None = None
    """Why the database can't be read, with the code that a run would end with."""
    document_count: int | None = None
    """Number of documents that the filter chooses; absent if the database does not count them in time."""
    fields: list[str] = Field(default_factory=list[str])
    """Paths of the fields in the documents that were looked at."""
    documents: list[DocstorePreviewDocument] = Field(default_factory=list[DocstorePreviewDocument])
    """The first documents."""


class DeleteDocstoreSyncRequest(common.ActingRequest):
    """Delete a sync and its address; the documents that it brought stay."""

    docstore_credential_id: UUID


class DeleteDocstoreSyncResponse(common.ResponseModel):
    """The sync that is gone."""

    docstore_credential_id: UUID


CREATE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/createDocstoreSync",
    CreateDocstoreSyncRequest,
    CreateDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Keep a collection as a collection of a document database has it, and launch the first run.

`docstore_uri` is mongodb://user:password@host:port/database or mongodb+srv://…; it is encrypted at rest and
never returned. `config` is `{"sync_name": …, "collection_name": …, "source_fields": {"body": …,
"source_name": …}}`, and what else `carrel.wire.docstore.DocstoreConfig` has."""
UPDATE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/updateDocstoreSync",
    UpdateDocstoreSyncRequest,
    UpdateDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND | operations.CONFLICT | operations.SHARED,
    by_position=("docstore_credential_id",),
)
"""Replace a sync's config, and its address if one is given, and launch a run; for the sync's maker, and admins.

The run reads everything, unless the name of the sync and its options of deletion alone were changed."""
LAUNCH_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/launchDocstoreSync",
    LaunchDocstoreSyncRequest,
    LaunchDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.ADDS_DATA | operations.NOT_FOUND,
)
"""Launch a run that goes on where the last one stopped; `sync_launched` is False while one goes on.

`approved_removals` are for the sync's maker, and admins."""
GET_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/getDocstoreSync",
    GetDocstoreSyncRequest,
    GetDocstoreSyncResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""Show a sync: its config, its status, the counts of its last run, and what went wrong."""
LIST_DOCSTORE_SYNCS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreSyncs",
    ListDocstoreSyncsRequest,
    ListDocstoreSyncsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""Walk the syncs into collections that the caller may edit, or into one of them."""
LIST_DOCSTORE_FAILURES = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreFailures",
    ListDocstoreFailuresRequest,
    ListDocstoreFailuresResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""Walk the source documents that a sync could not take, each with its reason."""
LIST_DOCSTORE_HELD_REMOVALS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreHeldRemovals",
    ListDocstoreHeldRemovalsRequest,
    ListDocstoreHeldRemovalsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""Walk the documents that a sync would remove and that its limit holds; for the sync's maker, and admins."""
LIST_DOCSTORE_RUNS = operations.ApiOperation(
    "documentCollections/docstore/listDocstoreRuns",
    ListDocstoreRunsRequest,
    ListDocstoreRunsResponse,
    operations.DOCSTORE_READ,
    operations.NOT_FOUND,
)
"""List the last 50 runs of a sync that ended, newest first."""
PREVIEW_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/previewDocstoreSync",
    PreviewDocstoreSyncRequest,
    PreviewDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Connect to a document database as a sync would, and show its fields and the first documents; nothing is kept.

Without an address, the sync's own address is used, by its maker and admins, for the sync's own collection."""
DELETE_DOCSTORE_SYNC = operations.ApiOperation(
    "documentCollections/docstore/deleteDocstoreSync",
    DeleteDocstoreSyncRequest,
    DeleteDocstoreSyncResponse,
    operations.DOCSTORE_WRITE,
    operations.KEYED | operations.NOT_FOUND,
)
"""Delete a sync and its address; the documents that it brought stay."""
