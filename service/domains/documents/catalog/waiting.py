"""Waiting for the index of an upload, for as long as somebody wants the answer."""

import asyncio

from fastapi import Request
from starlette.requests import ClientDisconnect

from service.domains.documents.catalog.saved import SavedUpload, Uploaded
from service.runtime import Runtime
from service.web.dependencies import is_stopping
from service.web.routing import promise_of

LOOK_SECONDS = 1.0


async def wait_for_index(request: Request, runtime: Runtime, saved: SavedUpload, *, patiently: bool) -> Uploaded:
    """Return what an upload came to, once its document is indexed or the wait is over; indexing goes on either way.

    A wait that is patient (`awaitVectorStoreSync`) has no limit, but ends when the service stops. Raises
    ClientDisconnect when the client has gone away.
    """
    # What was saved is on the disk, and seen there.
    promise_of(request).end()
    if saved.waiter is None:
        return saved.to_uploaded(is_indexed=True)
    seconds = None if patiently else runtime.settings.inline_indexing_seconds
    waiting = asyncio.ensure_future(runtime.indexer.wait(saved.waiter, seconds=seconds))
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
            if is_stopping(request):
                return saved.to_uploaded(is_indexed=False)
            if await request.is_disconnected():
                raise ClientDisconnect
        return saved.to_uploaded(is_indexed=waiting.result() is not None)
    finally:
        waiting.cancel()
