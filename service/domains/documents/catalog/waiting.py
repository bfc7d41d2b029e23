"""Waiting for the index of an upload, while the client is connected."""

import asyncio
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from carrel.wire.catalog import IndexingStatus
from carrel.wire.uploads import UploadFileResponse
from service.domains.documents.catalog.queries import known_not_read
from service.domains.documents.catalog.uploads import LOOK_SECONDS
from service.domains.documents.catalog.writing import SavedUpload
from service.index.ingestion.indexing import Outcomes
from service.runtime import Runtime
from service.web.dependencies import is_stopping
from service.web.routing import promise_of


async def wait_for_index(
    request: Request, runtime: Runtime, saved: SavedUpload, *, patiently: bool
) -> UploadFileResponse:
    """Return an upload's outcome when words are indexed or the wait is over; ClientDisconnect when the client leaves. A
    patient wait includes the vectors, and ends only if the service stops. DONE: all spaces have words and vectors."""
    # The committed upload counts in the disk's usage, so its promised room is given up.
    promise_of(request).end()
    outcomes = await _wait(request, runtime, saved, patiently=patiently)
    has_words = outcomes is not None and not saved.lacks_words
    is_done = has_words and not saved.is_pending and not any(each.lacks_meaning for each in (outcomes or {}).values())
    file = saved.file
    not_read: Any = known_not_read(file.not_read, file.file_count, file.files_done)
    return UploadFileResponse(
        document_id=saved.document_id,
        document_version=saved.version,
        status=saved.status,
        indexing=IndexingStatus.DONE if is_done else IndexingStatus.RUNNING,
        words_indexed=has_words,
        not_read=not_read,
        text_recognition=saved.text_recognition,
        file_count=file.file_count,
        files_done=file.files_done,
    )


async def _wait(request: Request, runtime: Runtime, saved: SavedUpload, *, patiently: bool) -> Outcomes | None:
    """Return the outcomes, empty if no index is awaited; None after too long, or when the service stops."""
    if saved.waiter is None:
        return {}
    seconds = None if patiently else runtime.settings.inline_indexing_seconds
    waiting = asyncio.ensure_future(runtime.indexer.wait(saved.waiter, seconds=seconds))
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
            if is_stopping(request):
                return None
            if await request.is_disconnected():
                raise ClientDisconnect
        return waiting.result()
    finally:
        waiting.cancel()
