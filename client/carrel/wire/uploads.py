"""catalog/*: uploads and plans for uploads."""

import json
from enum import StrEnum
from typing import Annotated, Any, Self, cast
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from carrel.wire import fields
from carrel.wire.catalog import IndexingStatus, NotRead, TextRecognition
from carrel.wire.common import RequestModel, ResourceType, ResponseModel, Tabular, refuse_reserved_type
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, SHARED, WRITE, ApiOperation


def _flag_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    if part not in {"true", "false"}:
        raise ValueError('must be "true" or "false"')
    return part == "true"


def _list_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    if not part.lstrip().startswith("["):
        return [item.strip() for item in part.split(",") if item.strip()]
    return _json_of(part)


def _json_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    try:
        return json.loads(part)
    except (ValueError, RecursionError) as exc:
        raise ValueError("must be valid JSON") from exc


Flag = Annotated[bool, Field(strict=True), BeforeValidator(_flag_of)]
"""A multipart part that is "true" or "false"."""

_FROM_LIST = BeforeValidator(_list_of)


class UploadFileForm(RequestModel):
    """The parts of uploadFile beside `file`.

    Parts are strings on the wire: lists a JSON array or separated by commas, flags "true" or "false", metadata a JSON
    object, times RFC 3339. The service validates a mapping of part names to strings with this model; `parts` is the
    way back. Access parts that are absent (None) on an update leave the access as it was; any of them present
    replaces all of it."""

    document_external_id: fields.Identifier
    """The document's identifier in the caller's own system; the same one again updates the document."""
    document_name: fields.DocumentName | None = None
    """Name of the document, as people see it. Absent, or the name of the file: the title in the file, then its name."""
    collection_id: UUID | None = None
    """Collection that the document is added to as well; absent: none."""
    upload_as_user_email: fields.EmailAddress | None = None
    """Address of the user to upload for; only an API key that may act for users takes it."""
    allowed_users_email_addresses: Annotated[list[fields.EmailAddress] | None, Field(max_length=10_000), _FROM_LIST] = (
        None
    )
    """Users who may read the document: a JSON array of addresses, or separated by commas. Absent on an update:
    unchanged."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000), _FROM_LIST] = None
    """Groups that may read the document: a JSON array of ids, or separated by commas. Absent on an update:
    unchanged."""
    internal_public: Flag | None = None
    """"true": every active user of the organization may read the document. Absent on an update: unchanged."""
    document_external_url: fields.Url | None = None
    custom_metadata: Annotated[fields.CustomMetadata | None, BeforeValidator(_json_of)] = None
    """The document's metadata: a JSON object of strings. With `collectionId` it must match that collection's schema."""
    source_system_updated: fields.RequestInstant | None = None
    """When the document last changed in its source system (RFC 3339)."""
    resource_id: fields.Identifier | None = None
    """Identifier of the document in its source system; given together with `resourceType`."""
    resource_type: Annotated[ResourceType, AfterValidator(refuse_reserved_type)] | None = None
    """Kind of the document in its source system; given together with `resourceId`."""
    force_update: Flag = False
    """"true": extract the text again even if the bytes are the same; "false" unless given."""
    read_pictures: Flag | None = None
    """"true": text in pictures within the file is read by machine (OCR), too, after the answer. Absent on an update:
    unchanged."""
    reindex_collections: Flag = True
    """"false": collections keep the old contents, which are stale there until re-indexed; "true" unless given."""
    fingerprint: fields.Fingerprint | None = None
    """Opaque string of the caller's that changes with everything it would send for the document; planUpload
    compares it."""
    await_vector_store_sync: Flag = False
    """"true": answer only when the document is searchable by its words and by its meaning, however long it takes;
    "false" unless given: answer when it is searchable by its words."""

    @model_validator(mode="after")
    def _source_identity_is_whole(self) -> Self:
        if (self.resource_id is None) != (self.resource_type is None):
            raise ValueError("resourceId and resourceType are given together or not at all")
        return self

    @property
    def names_access(self) -> bool:
        """Whether any access part is present, and so replaces who may read the document."""
        return not (
            self.allowed_users_email_addresses is None
            and self.allowed_group_ids is None
            and self.internal_public is None
        )

    def parts(self) -> dict[str, str]:
        """Return the parts as strings, in the order of the fields; only what was given."""
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        members = self.model_dump(mode="json", by_alias=True, include=given)
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}


def _texts_of(metadata: object) -> object:
    if not isinstance(metadata, dict):
        return metadata
    members = cast("dict[object, object]", metadata)
    return {name: json.dumps(value) if isinstance(value, int | float) else value for name, value in members.items()}


class UploadDocumentContentsRequest(UploadFileForm):
    """Create or update the document of an external id from its text, in JSON.

    Lists, flags and metadata are JSON's own; the strings that uploadFile takes for them are taken as well."""

    document_contents: Annotated[str, Field(min_length=1, max_length=2**30), fields.NO_NUL]
    """The whole text of the document; the service's limit of a JSON body bounds it further."""
    custom_metadata: Annotated[fields.CustomMetadata | None, BeforeValidator(_texts_of)] = None
    """The document's metadata; numbers and booleans become strings. With `collectionId` it must match that collection's
    schema."""


class UploadDocumentFileForm(RequestModel):
    """The parts of the deprecated uploadDocumentFile beside `document`: none."""


class UploadStatus(StrEnum):
    """What an upload did; UNCHANGED: the same bytes and fields were there already."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    UNCHANGED = "UNCHANGED"


class UploadFileResponse(ResponseModel):
    """The document an upload made or updated; versions count from 1."""

    document_id: UUID
    document_version: int
    """Number of the version, counted from 1."""
    status: UploadStatus
    """What the upload did."""
    indexing: IndexingStatus
    """Whether the document is searchable yet, by its words and by its meaning."""
    words_indexed: bool = False
    """Whether the document is searchable by its words; its meaning follows."""
    not_read: list[NotRead] | None = None
    """What the file holds that was not read; absent: unknown, by its format, its age, or since the files in
    it are not read yet (`filesDone` is less than `fileCount`)."""
    text_recognition: TextRecognition | None = None
    """How far the file's scanned pages and pictures are read, most of them after this answer; absent: it has none."""
    file_count: int | None = None
    """Number of files in it, which become documents of their own after this answer; absent: none."""
    files_done: int | None = None
    """How many of those are documents by now or could not be read: all, if the file was there before."""


class UploadDocumentFileResponse(UploadFileResponse):
    """As for uploadFile."""


class PlannedUpload(RequestModel):
    """One document of a plan: `fingerprint` covers everything the caller would send for it."""

    document_external_id: fields.Identifier
    fingerprint: fields.Fingerprint
    """Opaque string of the caller's that changes with everything it would send for the document; planUpload
    compares it."""


class PlanUploadRequest(RequestModel):
    """Ask what uploads would do, for up to 1000 documents."""

    documents: Annotated[list[PlannedUpload], Field(min_length=1, max_length=1000)]
    """The documents, 1 to 1000."""
    upload_as_user_email: fields.EmailAddress | None = None
    """Address of the user to upload for; only an API key that may act for users takes it."""
    allowed_users_email_addresses: Annotated[list[fields.EmailAddress] | None, Field(max_length=10_000)] = None
    """Users who are to read the documents: an unknown address is refused."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Groups who are to read the documents: an unknown id is refused."""


class PlanAction(StrEnum):
    """What an upload would do; FORBIDDEN: the external id is another's document."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    UNCHANGED = "UNCHANGED"
    FORBIDDEN = "FORBIDDEN"


class UploadPlan(ResponseModel):
    """The answer for one document of a plan."""

    document_external_id: str
    action: PlanAction
    """What an upload would do."""
    document_id: UUID | None = None
    """Id of the document, when it exists and the caller may update it."""
    shared: bool | None = None
    """Whether others than its owner may read the document; given where `document_id` is."""


class PlanUploadResponse(Tabular):
    """The plan, in the order asked."""

    documents: list[UploadPlan]
    """The plan for each document, in the order asked."""


UPLOAD_FILE: ApiOperation[Any, UploadFileResponse] = ApiOperation(
    "catalog/uploadFile", None, UploadFileResponse, WRITE, ADDS_DATA | NOT_FOUND | CONFLICT | SHARED
)
UPLOAD_DOCUMENT_FILE: ApiOperation[Any, UploadDocumentFileResponse] = ApiOperation(
    "catalog/uploadDocumentFile",
    None,
    UploadDocumentFileResponse,
    WRITE,
    KEYED | ADDS_DATA | CONFLICT | SHARED,
    successor="uploadFile",
)
PLAN_UPLOAD = ApiOperation("catalog/planUpload", PlanUploadRequest, PlanUploadResponse, WRITE)
"""Ask what uploading each of up to 1000 documents would do, by the fingerprints of what would be sent."""
UPLOAD_DOCUMENT_CONTENTS = ApiOperation(
    "catalog/uploadDocumentContents",
    UploadDocumentContentsRequest,
    UploadFileResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
    version="v0",
    successor="uploadFile",
)
