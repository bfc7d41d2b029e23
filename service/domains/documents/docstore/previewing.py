"""A preview of a document database before a sync is saved: fields, and the first documents as mapped."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from pydantic import SecretStr

from carrel.wire import docstore as wire
from service.domains.documents.docstore.mapping import MappingError, Target, map_document
from service.domains.documents.docstore.mongodb import open_mongodb
from service.domains.documents.docstore.sources import SourceDocument, SourceError
from service.domains.documents.docstore.values import extended_text
from service.platform.networks import AllowedHosts
from service.runtime import Runtime

_DOCUMENTS, _MOST_FIELDS, _DEEPEST, _TEXT = 5, 200, 4, 300


async def preview(
    runtime: Runtime, uri: SecretStr, request: wire.PreviewDocstoreSyncRequest
) -> wire.PreviewDocstoreSyncResponse:
    """Return a document database's contents for a config, or the reason it can't be read."""
    settings, allowed = runtime.settings, AllowedHosts.of(runtime.settings.docstore_allowed_hosts)
    seconds, longest = settings.docstore_connect_seconds, settings.docstore_query_seconds
    opened = open_mongodb(uri, request.config, allowed=allowed, seconds=longest, connect_seconds=seconds)
    try:
        async with asyncio.timeout(seconds) as limit, opened as source:
            found = await source.read_first(_DOCUMENTS)
            limit.reschedule(None)
            number = None
            with suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, longest / 2)):  # this limit ends before the database's own
                    number = await source.count()
    except SourceError as error:
        return refusal(error.code, error.message)
    except TimeoutError:
        return refusal("source_unreachable", "The document database does not answer at its host and port.")
    target = Target("preview", request.document_collection_id, request.config)
    fields = dict.fromkeys(path for document in found for path in _field_paths(document.fields or {}))
    shown = await asyncio.to_thread(lambda: [_preview_document(document, target) for document in found])
    return wire.PreviewDocstoreSyncResponse(document_count=number, fields=list(fields)[:_MOST_FIELDS], documents=shown)


def refusal(code: str, message: str) -> wire.PreviewDocstoreSyncResponse:
    return wire.PreviewDocstoreSyncResponse(problem=wire.DocstoreError(code=code, message=message))


def _preview_document(document: SourceDocument, target: Target) -> wire.DocstorePreviewDocument:
    source_id = json.loads(extended_text(document.source_id.value))
    try:
        mapped = map_document(document, target)
    except MappingError as error:
        return wire.DocstorePreviewDocument(source_id=source_id, problem=error.message)
    text = mapped.content[: _TEXT * 4].decode(errors="replace")[:_TEXT]
    return wire.DocstorePreviewDocument(source_id=source_id, name=mapped.form.document_name, text=text)


def _field_paths(fields: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[str]:
    """Yield dotted paths of values, at most _DEEPEST names deep; of a list, the paths in the first item."""
    for name, value in fields.items():
        first = value[0] if isinstance(value, list) and value else value  # pyright: ignore[reportUnknownVariableType]
        if isinstance(first, Mapping) and first and depth < _DEEPEST:
            yield from _field_paths(cast("Mapping[str, Any]", first), f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}"
