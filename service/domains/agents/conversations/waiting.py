"""Waiting for a reply, as v0 does, by reading the turn's status at intervals without holding a connection."""

import asyncio
import time
from uuid import UUID

from fastapi import Request
from starlette.requests import ClientDisconnect

from service.domains.agents.conversations.reading.queries import status_of
from service.platform.errors import Unavailable
from service.runtime import Runtime
from service.schema.conversations import RUNNING
from service.web.dependencies import is_stopping

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.25
PAUSE_GROWTH = 1.5
# What a message may wait for its turn, beside what its reply may take.
QUEUE_SECONDS = 60.0
# A service that is stopping gives its requests half a minute; this is well within it.
STOPPING_SECONDS = 15.0
RETRY_SECONDS = 5


async def wait_until_done(runtime: Runtime, request: Request, *, organization_id: UUID, turn_id: UUID) -> None:
    """Wait until a turn is done, or erased. The turn is answered even if waiting ends early.

    Raises Unavailable after too long or when the service stops, ClientDisconnect when the client has gone away.
    """
    pause = FIRST_PAUSE_SECONDS
    deadline = time.monotonic() + runtime.settings.model_seconds + QUEUE_SECONDS
    stops_at = deadline
    while await _is_running(runtime, organization_id, turn_id):
        if is_stopping(request):
            stops_at = min(stops_at, time.monotonic() + STOPPING_SECONDS)
        if time.monotonic() >= min(deadline, stops_at):
            raise _late()
        if await request.is_disconnected():
            raise ClientDisconnect
        await asyncio.sleep(pause)
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)


async def _is_running(runtime: Runtime, organization_id: UUID, turn_id: UUID) -> bool:
    async with runtime.database.transaction(organization_id, read_only=True) as connection:
        return await status_of(connection, organization_id, turn_id=turn_id) == RUNNING


def _late() -> Unavailable:
    return Unavailable(
        "The reply isn't there yet; it is still being made. Send the same request with the same Idempotency-Key to "
        "wait for it, or look for it in the conversation.",
        retry_after=RETRY_SECONDS,
        code="reply_delayed",
    )
