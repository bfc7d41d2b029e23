"""Mapping a source document to an upload by the sync's field mapping."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from pydantic import ValidationError

from carrel.wire.docstore import DocstoreConfig
from carrel.wire.fields import format_instant
from carrel.wire.uploads import UploadFileForm
from service.domains.documents.docstore.sources import SourceDocument, SyncError
from service.domains.documents.docstore.values import SourceId, plain_value, time_of, value_at
from service.platform.errors import ServiceError
from service.platform.files import clean_file_name

# A part of every fingerprint: a new version of the mapping writes all documents again.
_MAPPING_VERSION = 1
_LONGEST_STEM = 200
# The members of sourceFields for the fields of an upload.
_MEMBERS = {
    "document_name": "sourceName",
    "document_external_url": "sourceUrl",
    "source_system_updated": "sourceSystemUpdated",
}


class MappingError(SyncError):
    """The document can't be mapped; `message` names the member of sourceFields, without the value."""


@dataclass(frozen=True, slots=True)
class Target:
    """The settings that a sync's documents share: the prefix of their external ids, the collection and the mapping."""

    resource_id: str
    collection_id: UUID
    config: DocstoreConfig

    def external_id(self, source_id: SourceId) -> str:
        return f"{self.resource_id}:{source_id.kind}:{source_id.text}"


@dataclass(frozen=True, slots=True)
class MappedDocument:
    """The upload mapped from a source document; `form.fingerprint` covers all of it."""

    form: UploadFileForm
    file_name: str
    content: bytes


def map_document(document: SourceDocument, target: Target) -> MappedDocument:
    """Map a source document to an upload; MappingError when a mapped member is missing or of a wrong type."""
    if document.fields is None:
        raise MappingError("undecodable", "The document is not valid BSON. Correct it in its database.")
    try:
        return _map(document.source_id, document.fields, target)
    except RecursionError:
        raise MappingError("too_deep", "The document is nested deeper than MongoDB allows.") from None


def _map(source_id: SourceId, values: Mapping[str, Any], target: Target) -> MappedDocument:
    """Map decoded values to an upload with the config's readers; MappingError for a missing or wrong member."""
    fields = target.config.source_fields
    name = _name_at(values, fields.source_name)
    content, suffix = _body_and_suffix(values, fields.body)
    url = None if fields.source_url is None else value_at(values, fields.source_url)
    if url is not None and not isinstance(url, str):
        raise MappingError("wrong_type", "sourceUrl: the field must hold text.")
    updated = None
    if fields.source_system_updated is not None:
        updated = time_of(value_at(values, fields.source_system_updated))
    try:
        form = UploadFileForm(
            document_external_id=target.external_id(source_id),
            document_name=name,
            collection_id=target.collection_id,
            document_external_url=url or None,
            source_system_updated=updated,
            # The config decides the readers; omitted fields mean no readers.
            allowed_users_email_addresses=target.config.allowed_users_email_addresses,
            allowed_group_ids=target.config.allowed_group_ids,
            internal_public=target.config.internal_public or False,
        )
        file_name = clean_file_name(f"{name[:_LONGEST_STEM].replace('/', ' ')}{suffix}")
    except ValidationError as error:
        raise _invalid_value(error) from None
    except ServiceError as error:
        raise MappingError(error.code, error.message) from error
    form = form.model_copy(update={"fingerprint": _fingerprint(form, file_name, content)})
    return MappedDocument(form, file_name, content)


def _invalid_value(error: ValidationError) -> MappingError:
    """Build an error naming the member of sourceFields with an impossible value, but not the value."""
    first = error.errors(include_context=False, include_url=False, include_input=False)[0]
    member = _MEMBERS.get(str(first["loc"][0]), "_id")
    return MappingError("invalid_value", f"{member}: {first['msg'].removeprefix('Value error, ')}")


def _fingerprint(form: UploadFileForm, file_name: str, content: bytes) -> str:
    updated = form.source_system_updated
    everything = [
        _MAPPING_VERSION,
        form.document_name,
        form.document_external_url,
        None if updated is None else format_instant(updated),
        str(form.collection_id),
        sorted(form.allowed_users_email_addresses or ()),
        sorted(map(str, form.allowed_group_ids or ())),
        form.internal_public,
        file_name,
        hashlib.sha256(content).hexdigest(),
    ]
    return f"docstore:{hashlib.sha256(json.dumps(everything).encode()).hexdigest()}"


def _body_and_suffix(fields: Mapping[str, Any], path: str) -> tuple[bytes, str]:
    """Return bytes as they are, else text, or JSON for nested values, with the file's suffix; MappingError if empty."""
    value = value_at(fields, path)
    if isinstance(value, bytes):
        return bytes(value), ""
    if isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in cast("list[Any]", value)):
        texts = [_as_text(item) for item in cast("list[Any]", value)]
        value = "\n\n".join(text for text in texts if text)
    if isinstance(value, Mapping | list):
        return json.dumps(plain_value(value), ensure_ascii=False, indent=1).encode("utf-8", "replace"), ".json"
    text = _as_text(value)
    if not text.strip():
        raise MappingError("missing_value", f"body: the document has no text in {path}.")
    return text.encode("utf-8", "replace"), ".txt"


def _name_at(fields: Mapping[str, Any], path: str) -> str:
    """Return the text at a path, without outer white space; MappingError for several values or an empty text."""
    value = value_at(fields, path)
    if isinstance(value, Mapping | list):
        raise MappingError("wrong_type", f"sourceName: {path} is not a single value.")
    text = _as_text(value).strip()
    if not text:
        raise MappingError("missing_value", f"sourceName: the document has no value in {path}.")
    return text


def _as_text(value: Any) -> str:
    plain = plain_value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
