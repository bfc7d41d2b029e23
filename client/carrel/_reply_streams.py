"""Streaming a reply while it is written: server-sent events, resumed after lost connections."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError

from carrel._answers import connection_error, unreadable
from carrel._calls import Call, Connection, perform, send
from carrel._flow import Emit, Events, Read, Request, Sleep, Walk
from carrel._replies import Reply, failure, reply_connection_error, reply_of_job
from carrel.errors import APIConnectionError
from carrel.wire.messages import (
    STREAM_AGENT_RESPONSE,
    CompletedJob,
    FailedJob,
    FetchAgentResponseRequest,
    SendAgentMessageResponse,
)
from carrel.wire.replies import StreamEvent, TextDelta

# The service gives a sign of life every fifteen seconds.
SILENCE = 45.0


@dataclass(frozen=True, slots=True)
class Restarted:
    """The reply begins again, after a crash of the service: discard the text received so far."""


ReplyEvent: TypeAlias = TextDelta | Restarted | Reply
"""What a reply has grown by; that it begins anew; and at last the whole of it, with its sources."""


def send_and_stream(call: Call[SendAgentMessageResponse], connection: Connection) -> Walk[ReplyEvent]:
    """Send a message to an agent and stream the reply."""
    job = (yield from perform(call, connection)).parsed
    yield from stream_reply(job.job_id, connection, conversation_id=job.conversation_id)


def stream_reply(job_id: UUID, connection: Connection, *, conversation_id: UUID | None = None) -> Walk[ReplyEvent]:
    """Stream a job's reply from its beginning to its end, and reconnect after lost connections.

    Raises ReplyError without a reply, ReplyConnectionError when several connections in a row bring nothing.
    """
    connection = replace(connection, retries=connection.retries.over_a_restart())
    try:
        yield from _to_the_end(_Reading(job_id, conversation_id), connection)
    except APIConnectionError as error:
        raise reply_connection_error(error, job_id=job_id, conversation_id=conversation_id) from error.__cause__


def _to_the_end(reading: "_Reading", connection: Connection) -> Walk[ReplyEvent]:
    while not reading.done:
        response = yield from send(reading.request(connection), connection)
        error = yield from reading.read(response)
        if reading.done:
            return
        reading.cuts += 1
        wait = connection.retries.wait_after_cut(cuts=reading.cuts)
        if wait is None:
            raise error
        yield Sleep(wait)


class _Reading:
    """The position in a reply; `cuts` counts the lost connections since the last event."""

    def __init__(self, job_id: UUID, conversation_id: UUID | None) -> None:
        self.job_id = job_id
        self.conversation_id = conversation_id
        self.position: str | None = None
        self.cuts = 0
        self.done = False

    def request(self, connection: Connection) -> Request:
        """Build the request for the rest of the reply."""
        request = connection.request(
            Call(STREAM_AGENT_RESPONSE, FetchAgentResponseRequest(job_id=self.job_id), patience=SILENCE)
        )
        headers = request.headers
        headers.update({"Accept": "text/event-stream", "Cache-Control": "no-store"})
        if self.position is not None:
            headers["Last-Event-ID"] = self.position
        return replace(request, stream=True)

    def read(self, response: httpx.Response) -> Generator[Read | Emit[ReplyEvent], Any, APIConnectionError]:
        """Read the events of one connection; return the error that ended it."""
        events = Events(response)
        try:
            while not self.done and (event := (yield Read(events))) is not None:
                item = self._take(event, response)
                if item is not None:
                    self.cuts = 0
                    yield Emit(item)
        except SSEError as exc:
            raise unreadable(response, "a stream of events") from exc
        except httpx.HTTPError as exc:
            return connection_error(exc)
        return APIConnectionError("The stream ended before the reply did")

    def _take(self, event: ServerSentEvent, response: httpx.Response) -> ReplyEvent | None:
        """Convert an event for the caller; None for a keep-alive, or an event of a newer service."""
        self.position = event.id or self.position
        try:
            match event.event:
                case StreamEvent.DELTA:
                    return TextDelta.model_validate_json(event.data)
                case StreamEvent.RESTARTED:
                    return Restarted()
                case StreamEvent.COMPLETED:
                    self.done = True
                    return reply_of_job(CompletedJob.model_validate_json(event.data))
                case StreamEvent.FAILED:
                    failed = FailedJob.model_validate_json(event.data)
                case _:
                    return None
        except ValidationError as exc:
            raise unreadable(response, "a stream of events of a reply") from exc
        raise failure(failed.error_code, failed.error_message, job_id=self.job_id, conversation_id=self.conversation_id)
