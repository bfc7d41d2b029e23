"""documentCollections/docstore/*: syncs that keep a collection as an outside document database has it (seed, beta)."""

import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import AfterValidator, Field, PlainSerializer, SecretStr

from carrel.wire.admin import StrictFlag
from carrel.wire.common import (
    NO_NUL,
    ActingRequest,
    EmailAddress,
    Instant,
    Label,
    PagedRequest,
    PagedResponse,
    RequestModel,
    ResponseModel,
)

_SEGMENT = re.compile(r"[^.$\0][^.\0]*")


def _refuse_odd_path(path: str) -> str:
    if not all(_SEGMENT.fullmatch(segment) for segment in path.split(".")):
        msg = "must be field names joined by dots, such as content.text"
        raise ValueError(msg)
    return path


def _revealed(secret: SecretStr) -> str:
    return secret.get_secret_value()


def _refuse_nul(secret: SecretStr) -> SecretStr:
    if "\0" in secret.get_secret_value():
        msg = "must not contain NUL characters"
        raise ValueError(msg)
    return secret


FieldPath = Annotated[str, Field(min_length=1, max_length=500), NO_NUL, AfterValidator(_refuse_odd_path)]
"""Where a value lies in a source document: field names joined by dots; a number is a place in a list."""

SourceName = Annotated[str, Field(min_length=1, max_length=255), NO_NUL]
"""The name of a collection in the source's database."""

FilterExpression = Annotated[dict[Annotated[str, Field(max_length=500), NO_NUL], Any], Field(max_length=100)]
"""A MongoDB query in Extended JSON."""

DocstoreUri = Annotated[
    SecretStr,
    Field(min_length=1, max_length=4096),
    AfterValidator(_refuse_nul),
    PlainSerializer(_revealed, return_type=str, when_used="json"),
]
"""A connection address: hidden from `repr` and logs; written out only in the request's JSON."""


class SourceFields(RequestModel):
    """Which of a source document's fields are what: its text, its name, when it was last changed, its address."""

    body: FieldPath
    source_name: FieldPath
    source_system_updated: FieldPath | None = None
    source_url: FieldPath | None = None


class DocstoreConfig(RequestModel):
    """What is synced, and who may read it; without access members the documents are readable by their owner alone.

    `collection_name` is the source's collection, `filter_expression` a MongoDB query in Extended JSON. With
    `delete_missing`, documents that vanish from the source, or leave the filter, are removed, unless they are more than
    `delete_limit_percent` of all.
    """

    sync_name: Label
    collection_name: SourceName
    source_fields: SourceFields
    filter_expression: FilterExpression = Field(default_factory=dict[str, Any])
    allowed_users_email_addresses: Annotated[list[EmailAddress] | None, Field(max_length=10_000)] = None
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    internal_public: StrictFlag | None = None
    delete_missing: StrictFlag = True
    delete_limit_percent: Annotated[int, Field(strict=True, ge=0, le=100)] = 20


class CreateDocstoreSyncRequest(ActingRequest):
    """Sync a collection of a document database into a collection, and launch the first run; extension."""

    document_collection_id: UUID
    docstore_uri: Annotated[DocstoreUri, Field(alias="docstoreURI")]
    config: DocstoreConfig


class UpdateDocstoreSyncRequest(ActingRequest):
    """Replace a sync's address and config, and launch a run (seed, beta)."""

    docstore_credential_id: UUID
    docstore_uri: Annotated[DocstoreUri, Field(alias="docstoreURI")]
    config: DocstoreConfig


class LaunchDocstoreSyncRequest(ActingRequest):
    """Launch a run of a sync as it is; extension."""

    docstore_credential_id: UUID


class DocstoreSyncLaunched(ResponseModel):
    """The sync, and whether a run of it was launched."""

    docstore_credential_id: UUID
    resource_id: str
    sync_launched: bool


class CreateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The new sync; its first run goes on in the background."""


class UpdateDocstoreSyncResponse(DocstoreSyncLaunched):
    """The changed sync; its run goes on in the background (seed)."""


class LaunchDocstoreSyncResponse(DocstoreSyncLaunched):
    """The sync; its run goes on in the background."""


class DocstoreSyncStatus(StrEnum):
    """PENDING: a run is to begin; FAILED: the last run ended early, and the next goes on where it stopped."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class DocstoreCounts(ResponseModel):
    """What the last run did so far; `failed` is how many documents are on the list of failures now."""

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0


class SourceFieldsInfo(ResponseModel):
    """The field mapping of a sync."""

    body: str
    source_name: str
    source_system_updated: str | None = None
    source_url: str | None = None


class DocstoreConfigInfo(ResponseModel):
    """The config of a sync, as it was given."""

    sync_name: str
    collection_name: str
    source_fields: SourceFieldsInfo
    filter_expression: dict[str, Any]
    allowed_users_email_addresses: list[str] | None = None
    allowed_group_ids: list[UUID] | None = None
    internal_public: bool | None = None
    delete_missing: bool
    delete_limit_percent: int


class DocstoreError(ResponseModel):
    """Why the last run failed, or what it left undone; `code` is stable."""

    code: str
    message: str


class DocstoreSync(ResponseModel):
    """A sync and how its last run went; never its address.

    `document_count` is how many documents that the sync brought exist; what could not be taken is in `counts.failed`.
    `cursor` is how far the source was read, in Extended JSON (of an `_id`, its text); `warning` what a run that came to
    its end left out or left undone; `wanted_at` since when the run is wanted that is to begin.
    """

    docstore_credential_id: UUID
    resource_id: str
    document_collection_id: UUID
    config: DocstoreConfigInfo
    status: DocstoreSyncStatus
    counts: DocstoreCounts
    document_count: int
    cursor: dict[str, Any] | None = None
    warning: DocstoreError | None = None
    last_error: DocstoreError | None = None
    created_at: Instant
    updated_at: Instant
    wanted_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None


class GetDocstoreSyncRequest(ActingRequest):
    """Ask for a sync; extension."""

    docstore_credential_id: UUID


class GetDocstoreSyncResponse(DocstoreSync):
    """The sync."""


class ListDocstoreSyncsRequest(ActingRequest, PagedRequest):
    """List the syncs into collections that the caller may edit, or into one of them; extension."""

    document_collection_id: UUID | None = None


class ListDocstoreSyncsResponse(PagedResponse):
    """One page of syncs."""

    rows_in: ClassVar[str] = "docstore_syncs"
    docstore_syncs: list[DocstoreSync]


class ListDocstoreFailuresRequest(ActingRequest, PagedRequest):
    """List the source documents that a sync could not take; extension."""

    docstore_credential_id: UUID


class DocstoreFailure(ResponseModel):
    """A source document that could not be taken: its `_id` in Extended JSON, and why; every run tries it again."""

    source_id: Any
    document_external_id: str
    code: str
    message: str
    failed_at: Instant


class ListDocstoreFailuresResponse(PagedResponse):
    """One page of failures."""

    rows_in: ClassVar[str] = "failures"
    failures: list[DocstoreFailure]


class DeleteDocstoreSyncRequest(ActingRequest):
    """Delete a sync and its address; the documents that it brought stay; extension."""

    docstore_credential_id: UUID


class DeleteDocstoreSyncResponse(ResponseModel):
    """The sync that is gone."""

    docstore_credential_id: UUID
