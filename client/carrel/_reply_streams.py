"""Streaming a reply while it is written: server-sent events, resumed after lost connections."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError

from carrel._answers import connection_error, unreadable
from carrel._calls import Call, Connection, perform, send
from carrel._flow import Emit, Events, Read, Request, Sleep, Walk
from carrel._replies import WITHHELD, Reply, failure, fetch, reply_connection_error, reply_of_job
from carrel._retries import DELAYED
from carrel.errors import APIConnectionError
from carrel.wire import messages
from carrel.wire.replies import ChunkKind, StreamEvent, StreamingChunk, TextDelta

# The service gives a sign of life every fifteen seconds.
SILENCE = 45.0
# What v0 says when text that was sent is void, since the reply is made anew.
RESTARTED = "reply_restarted"


@dataclass(frozen=True, slots=True)
class Restarted:
    """The reply begins again, after a crash of the service: discard the text received so far."""


ReplyEvent: TypeAlias = TextDelta | Restarted | Reply
"""What a reply has grown by; that it begins anew; and at last the whole of it, with its sources."""


def send_and_stream(call: Call[messages.SendAgentMessageResponse], connection: Connection) -> Walk[ReplyEvent]:
    """Send a message to an agent and stream the reply."""
    job = (yield from perform(call, connection)).parsed
    yield from stream_reply(job.job_id, connection, conversation_id=job.conversation_id)


def stream_message(call: Call[Any], connection: Connection) -> Walk[ReplyEvent]:
    """Send a message on v0 and stream the reply; sent again with the same Idempotency-Key, it is answered once."""
    request = connection.request(replace(call, patience=SILENCE))
    connection = replace(connection, retries=connection.retries.over_a_restart())
    yield from _to_the_end(_MessageReading(request), connection)


def stream_reply(job_id: UUID, connection: Connection, *, conversation_id: UUID | None = None) -> Walk[ReplyEvent]:
    """Stream a job's reply over lost connections; raises ReplyError without one, and ReplyConnectionError."""
    connection = replace(connection, retries=connection.retries.over_a_restart())
    try:
        yield from _to_the_end(_JobReading(job_id, conversation_id), connection)
    except APIConnectionError as error:
        raise reply_connection_error(error, job_id=job_id, conversation_id=conversation_id) from error.__cause__


def _to_the_end(reading: "_Reading", connection: Connection) -> Walk[ReplyEvent]:
    while not reading.done:
        response = yield from send(reading.request(connection), connection)
        error = yield from reading.read(response)
        if reading.done:
            return
        reading.cuts += 1
        if (wait := connection.retries.wait_after_cut(cuts=reading.cuts)) is None:
            raise error
        yield Sleep(wait)


class _Reading:
    def __init__(self) -> None:
        self.conversation_id: UUID | None = None
        self.cuts = 0
        self.done = False

    def request(self, connection: Connection) -> Request:
        raise NotImplementedError

    def read(self, response: httpx.Response) -> Generator[Read | Emit[ReplyEvent], Any, APIConnectionError]:
        events = Events(response)
        try:
            while not self.done and (event := (yield Read(events))) is not None:
                for item in self._take(event):
                    self.cuts = 0
                    yield Emit(item)
        except SSEError as exc:
            raise unreadable(response, "a stream of events") from exc
        except ValidationError as exc:
            raise unreadable(response, "a stream of events of a reply") from exc
        except httpx.HTTPError as exc:
            return connection_error(exc)
        return APIConnectionError("The stream ended before the reply did")

    def _take(self, event: ServerSentEvent) -> Iterable[ReplyEvent]:
        """Convert an event for the caller; nothing for a keep-alive, or an event of a newer service."""
        raise NotImplementedError


class _JobReading(_Reading):
    def __init__(self, job_id: UUID, conversation_id: UUID | None) -> None:
        super().__init__()
        self.job_id = job_id
        self.conversation_id = conversation_id
        self.position: str | None = None

    def request(self, connection: Connection) -> Request:
        call = replace(fetch(self.job_id), operation=messages.STREAM_AGENT_RESPONSE, patience=SILENCE)
        request = _of_events(connection.request(call))
        if self.position is not None:
            request.headers["Last-Event-ID"] = self.position
        return request

    def _take(self, event: ServerSentEvent) -> Iterable[ReplyEvent]:
        self.position = event.id or self.position
        match event.event:
            case StreamEvent.DELTA:
                return [TextDelta.model_validate_json(event.data)]
            case StreamEvent.RESTARTED:
                return [Restarted()]
            case StreamEvent.COMPLETED:
                self.done = True
                return [reply_of_job(messages.CompletedJob.model_validate_json(event.data))]
            case StreamEvent.FAILED:
                failed = messages.FailedJob.model_validate_json(event.data)
                ids = {"job_id": self.job_id, "conversation_id": self.conversation_id}
                raise failure(failed.error_code, failed.error_message, **ids)
            case _:
                return []


class _MessageReading(_Reading):
    """The text of a reply of v0: what the caller has of it, and what this connection, from the beginning, has told."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = _of_events(request)
        self._given = ""
        self._told = ""

    def request(self, connection: Connection) -> Request:
        del connection
        self._told = ""
        return self._request

    def _take(self, event: ServerSentEvent) -> Iterable[ReplyEvent]:
        chunk = StreamingChunk.model_validate_json(event.data)
        self.conversation_id = chunk.conversation_id or self.conversation_id
        match chunk.event:
            case ChunkKind.DATA:
                self._told += chunk.chunk or ""
                return [] if self._given.startswith(self._told) else self._grown()
            case ChunkKind.FINAL:
                self.done = True
                return [*self._grown(), self._reply(chunk)]
            case ChunkKind.BLOCKED:
                raise failure(WITHHELD, " ".join(chunk.blocks or ()), conversation_id=self.conversation_id)
            case ChunkKind.ERROR if chunk.error is not None and chunk.error.code not in {DELAYED, RESTARTED}:
                raise failure(chunk.error.code, chunk.error.message, conversation_id=self.conversation_id)
            case _:
                return []

    def _grown(self) -> list[ReplyEvent]:
        before, self._given = self._given, self._told
        if not self._told.startswith(before):
            return [Restarted(), TextDelta(text=self._told)]
        return [TextDelta(text=self._told.removeprefix(before))] if self._told != before else []

    def _reply(self, final: StreamingChunk) -> Reply:
        members = final.model_dump(include={"sources", "warnings", "message_id", "audit_log_id"})
        return Reply.model_validate({**members, "text": self._told, "conversation_id": self.conversation_id})


def _of_events(request: Request) -> Request:
    headers = request.headers.copy()
    headers.update({"Accept": "text/event-stream", "Cache-Control": "no-store"})
    return replace(request, headers=headers, stream=True)
