"""catalog/*: uploads and plans for uploads."""

import json
from enum import StrEnum
from typing import Annotated, Any, cast
from uuid import UUID

from pydantic import BeforeValidator, Field

from carrel.wire import fields
from carrel.wire.catalog import IndexingStatus, NotRead, TextRecognition
from carrel.wire.common import RequestModel, ResourceType, ResponseModel, Tabular
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, SHARED, WRITE, ApiOperation


def _parse_flag_part(part: object) -> object:
    if not isinstance(part, str):
        return part
    if part not in {"true", "false"}:
        raise ValueError('must be "true" or "false"')
    return part == "true"


def _parse_list_part(part: object) -> object:
    if not isinstance(part, str):
        return part
    if not part.lstrip().startswith("["):
        return [item.strip() for item in part.split(",") if item.strip()]
    return _parse_json_part(part)


def _parse_json_part(part: object) -> object:
    if not isinstance(part, str):
        return part
    try:
        return json.loads(part)
    except (ValueError, RecursionError) as exc:
        raise ValueError("must be valid JSON") from exc


Flag = Annotated[bool, Field(strict=True), BeforeValidator(_parse_flag_part)]
"""A multipart part, "true" or "false"."""

_FROM_LIST = BeforeValidator(_parse_list_part)
# The other types are for the service's own objects.
_OF_SOURCE = fields.must(
    lambda kind: kind not in {ResourceType.DOCUMENT_COLLECTION, ResourceType.AGENT, ResourceType.DOCSTORE_SYNC},
    "must be the type of a document in its source system",
)


class UploadFileForm(RequestModel):
    """The parts of uploadFile besides `file`. Parts are strings: lists are a JSON array or separated by commas, flags
    "true" or "false", metadata a JSON object, times RFC 3339. This model validates part names and strings; `parts`
    converts back. In an update, absent (None) access parts keep the access; any access part replaces it whole."""

    document_external_id: fields.Identifier
    """The document's identifier in the caller's own system; repeat it to update the document."""
    document_name: fields.DocumentName | None = None
    """Name of the document for people. Absent, or equal to the file's name: the title in the file, else that name."""
    collection_id: UUID | None = None
    """Additional collection for the document; absent: none."""
    upload_as_user_email: fields.EmailAddress | None = None
    allowed_users_email_addresses: Annotated[list[fields.EmailAddress] | None, Field(max_length=10_000), _FROM_LIST] = (
        None
    )
    """Users with read access: a JSON array of addresses, or separated by commas. Absent on an update: unchanged."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000), _FROM_LIST] = None
    """Groups with read access: a JSON array of ids, or separated by commas. Absent on an update: unchanged."""
    internal_public: Flag | None = None
    """"true": every active user of the organization may read the document. Absent on an update: unchanged."""
    document_external_url: fields.Url | None = None
    custom_metadata: Annotated[fields.CustomMetadata | None, BeforeValidator(_parse_json_part)] = None
    """The document's metadata: a JSON object of strings. With `collectionId`, must match the collection's schema."""
    source_system_updated: fields.RequestInstant | None = None
    """When the document last changed in the source system (RFC 3339)."""
    resource_id: fields.Identifier | None = None
    """Identifier of the document in the source system; requires `resourceType`."""
    resource_type: Annotated[ResourceType, _OF_SOURCE] | None = None
    """Kind of the document in the source system; requires `resourceId`."""
    force_update: Flag = False
    """"true": extract the text again even from unchanged bytes; default: "false"."""
    read_pictures: Flag | None = None
    """"true": text in pictures is also read by machine (OCR), after the answer. Absent on an update: unchanged."""
    reindex_collections: Flag = True
    """"false": collections keep the old contents, marked stale until re-indexed; default: "true"."""
    fingerprint: fields.Fingerprint | None = None
    """Opaque string of the caller, changing with all data sent for the document; compared by planUpload."""
    await_vector_store_sync: Flag = False
    """"true": answer only when searchable by words and meaning, however long this takes. Default: "false" (words)."""

    _source_identity_is_whole = fields.must_fit(
        lambda form: (form.resource_id is None) == (form.resource_type is None),
        "resourceId and resourceType are given together or not at all",
    )

    @property
    def names_access(self) -> bool:
        """Whether any access part is present, so that the upload replaces the access."""
        return not (
            self.allowed_users_email_addresses is None
            and self.allowed_group_ids is None
            and self.internal_public is None
        )

    def parts(self) -> dict[str, str]:
        """Return the given parts as strings, in the order of the fields."""
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        members = self.model_dump(mode="json", by_alias=True, include=given)
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}


def _texts_of(metadata: object) -> object:
    if not isinstance(metadata, dict):
        return metadata
    members = cast("dict[object, object]", metadata)
    return {name: json.dumps(value) if isinstance(value, int | float) else value for name, value in members.items()}


class UploadDocumentContentsRequest(UploadFileForm):
    """Create or update a document by external id from text, in JSON; strings in the form of uploadFile also work."""

    document_contents: Annotated[str, Field(min_length=1, max_length=2**30), fields.NO_NUL]
    """The whole text of the document; also limited by the service's maximum for JSON bodies."""
    custom_metadata: Annotated[fields.CustomMetadata | None, BeforeValidator(_texts_of)] = None
    """The document's metadata; numbers and booleans become strings. Must match the schema of `collectionId`."""


class UploadDocumentFileForm(RequestModel):
    """Parts of the deprecated uploadDocumentFile in addition to `document`: none."""


class UploadStatus(StrEnum):
    """Effect of an upload; UNCHANGED: bytes and fields were already up to date."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    UNCHANGED = "UNCHANGED"


class UploadFileResponse(ResponseModel):
    """The document an upload made or updated; versions count from 1."""

    document_id: UUID
    document_version: int
    status: UploadStatus
    """Effect of the upload."""
    indexing: IndexingStatus
    """Whether the document is searchable by words and by meaning."""
    words_indexed: bool = False
    """Whether the document is searchable by words; search by meaning follows."""
    not_read: list[NotRead] | None = None
    """Parts of the file not read; absent: unknown (its format or age), or files inside are still being read."""
    text_recognition: TextRecognition | None = None
    """Progress of reading the file's scanned pages and pictures, mostly after the answer; absent: none."""
    file_count: int | None = None
    """Number of files in it; each becomes a document after the answer. Absent: none."""
    files_done: int | None = None
    """Number of contained files already documents or unreadable; all of them for an existing file."""


class UploadDocumentFileResponse(UploadFileResponse):
    """As for uploadFile."""


class PlannedUpload(RequestModel):
    """A document of a plan; `fingerprint` covers all data that the caller would send."""

    document_external_id: fields.Identifier
    fingerprint: fields.Fingerprint
    """Opaque string of the caller, changing with all data sent for the document; compared by planUpload."""


class PlanUploadRequest(RequestModel):
    """Preview uploads of up to 1000 documents."""

    documents: Annotated[list[PlannedUpload], Field(min_length=1, max_length=1000)]
    """The documents, 1 to 1000."""
    upload_as_user_email: fields.EmailAddress | None = None
    allowed_users_email_addresses: Annotated[list[fields.EmailAddress] | None, Field(max_length=10_000)] = None
    """Planned users with read access; an unknown address is refused."""
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000)] = None
    """Planned groups with read access; an unknown id is refused."""


class PlanAction(StrEnum):
    """Effect of a planned upload; FORBIDDEN: the external id belongs to another owner."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    UNCHANGED = "UNCHANGED"
    FORBIDDEN = "FORBIDDEN"


class UploadPlan(ResponseModel):
    """The answer for a document of a plan."""

    document_external_id: str
    action: PlanAction
    """Effect of the upload."""
    document_id: UUID | None = None
    """Id of the document, if it exists and the caller may update it."""
    shared: bool | None = None
    """Whether people other than the owner may read the document; present with `document_id`."""


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
"""Preview the upload of up to 1000 documents, by fingerprint."""
UPLOAD_DOCUMENT_CONTENTS = ApiOperation(
    "catalog/uploadDocumentContents",
    UploadDocumentContentsRequest,
    UploadFileResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
    version="v0",
    successor="uploadFile",
)
