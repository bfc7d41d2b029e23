"""Agents' replies on v0 and v1: waiting, and streaming by server-sent events. Streams resume after lost connections."""

import itertools
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar
from uuid import UUID

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError

from carrel import errors
from carrel._calls import DELAYED, NO_REPLY, Call, Connection, connection_error, perform, send, unreadable
from carrel._drivers import Emit, Events, Flow, Read, Request, Sleep, Walk, Work
from carrel.errors import APIConnectionError
from carrel.wire import messages
from carrel.wire.common import Tabular
from carrel.wire.replies import AiResponseResult, ChunkKind, ReferencedSource, StreamEvent, StreamingChunk, TextDelta

T = TypeVar("T")
Job: TypeAlias = messages.RunningJob | messages.CompletedJob | messages.FailedJob

WITHHELD = "reply_withheld"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Reply(Tabular):
    """An agent's reply: its text and its sources. `[1]` in the text refers to the first of `sources`, whose `quote` is
    verbatim from its document. `warnings` describe omissions. `to_frame` returns the sources as a table."""

    rows_in: ClassVar[str] = "sources"
    text: str
    sources: list[ReferencedSource]
    warnings: list[str]
    conversation_id: UUID
    message_id: UUID
    audit_log_id: UUID


def reply_of_message(answer: messages.SendMessageResponse) -> Reply:
    """Convert the response of v0 to a reply; raises ReplyWithheldError."""
    result = answer.send_chat_result
    if not isinstance(result, AiResponseResult):
        raise errors.ReplyWithheldError(" ".join(result.blocks), code=WITHHELD, conversation_id=result.conversation_id)
    return Reply(
        text=result.response.message,
        sources=result.referenced_sources,
        warnings=result.warnings,
        conversation_id=result.conversation_id,
        message_id=result.message_id,
        audit_log_id=result.inserted_audit_log.id,
    )


def reply_of_job(job: messages.CompletedJob) -> Reply:
    """Convert a completed job of v1 to a reply."""
    result = job.result
    return Reply(
        text=result.agent_response_text,
        sources=result.referenced_sources,
        warnings=result.warnings,
        conversation_id=job.conversation_id,
        message_id=result.message_id,
        audit_log_id=result.audit_log_id,
    )


def failure(
    code: str, message: str, *, job_id: UUID | None = None, conversation_id: UUID | None = None
) -> errors.ReplyError:
    """Build the exception for a message without a reply."""
    kind = errors.ReplyWithheldError if code == WITHHELD else errors.ReplyFailedError
    return kind(message, code=code, conversation_id=conversation_id, message_id=job_id)


def reply_connection_error(
    error: errors.APIConnectionError, *, job_id: UUID, conversation_id: UUID | None = None
) -> errors.ReplyConnectionError:
    """Build the exception for a lost connection while the job continues, with the same cause."""
    kind = errors.ReplyTimeoutError if isinstance(error, errors.APITimeoutError) else errors.ReplyConnectionError
    message = f"{str(error).rstrip('.')}. Fetch or stream the reply later, by its job {job_id}."
    return kind(message, job_id=job_id, conversation_id=conversation_id)


def fetch(job_id: UUID) -> Call[Job]:
    return Call(messages.FETCH_AGENT_RESPONSE, messages.FetchAgentResponseRequest(job_id=job_id))


def send_and_wait(call: Call[messages.SendMessageResponse], connection: Connection, *, timeout: float) -> Flow[Reply]:
    """Send a message to an agent on v0 and wait for the reply. Raises ReplyError, ReplyTimeoutError and APIError."""
    try:
        answer = yield from within(Deadline(timeout), perform(call, connection))
    except errors.APIError as error:
        if error.code == DELAYED:
            raise errors.ReplyTimeoutError("There is no reply yet; the agent continues with it.") from error
        if error.code.startswith(NO_REPLY):
            raise failure(error.code, error.message) from error
        raise
    return reply_of_message(answer.parsed)


def submit_and_wait(
    call: Call[messages.SendAgentMessageResponse], connection: Connection, *, timeout: float
) -> Flow[Reply]:
    """Send a message to an agent on v1 and poll for the reply. Raises ReplyError, ReplyConnectionError and APIError."""
    deadline = Deadline(timeout)
    sent = (yield from within(deadline, perform(call, connection))).parsed
    ids = {"job_id": sent.job_id, "conversation_id": sent.conversation_id}
    try:
        job = yield from within(deadline, _poll_until_end(sent.job_id, connection))
    except errors.APIConnectionError as error:
        raise reply_connection_error(error, **ids) from error.__cause__
    if isinstance(job, messages.FailedJob):
        raise failure(job.error_code, job.error_message, **ids)
    return reply_of_job(job)


def _poll_until_end(job_id: UUID, connection: Connection) -> Flow[messages.CompletedJob | messages.FailedJob]:
    connection = replace(connection, retries=connection.retries.over_a_restart())
    for attempt in itertools.count():
        job = (yield from perform(fetch(job_id), connection)).parsed
        if not isinstance(job, messages.RunningJob):
            return job
        yield Sleep(min(SHORTEST_PAUSE * 1.5 ** min(attempt, 20), LONGEST_PAUSE))
    raise AssertionError  # itertools.count() doesn't end


class Deadline:
    """A moment, given as seconds after creation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """The seconds until the deadline; 0 or less when it has passed."""
        return self._at - time.monotonic()

    def passed(self) -> errors.ReplyTimeoutError:
        """Build the exception for waiting until the deadline."""
        message = f"No reply within {self.seconds:g} seconds; an agent that has the message continues."
        return errors.ReplyTimeoutError(message)


def within(deadline: Deadline, flow: Flow[T]) -> Flow[T]:
    """Run a flow, with its pauses and retries, until the deadline. Raises ReplyTimeoutError."""
    try:
        effect = next(flow)
        while True:
            remaining = deadline.remaining
            if remaining <= 0 or (isinstance(effect, Sleep) and effect.seconds >= remaining):
                raise deadline.passed()
            try:
                result: object = yield _limit_timeouts(effect, remaining)
            except httpx.HTTPError as exc:
                effect = flow.throw(exc)
            else:
                effect = flow.send(result)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
    except errors.ReplyTimeoutError:
        raise
    except errors.APITimeoutError as error:
        if deadline.remaining > 0:
            raise
        raise deadline.passed() from error
    finally:
        flow.close()


def _limit_timeouts(effect: Request | Sleep | Work, remaining: float) -> Request | Sleep | Work:
    if not isinstance(effect, Request):
        return effect
    timeout = {name: remaining if limit is None else min(limit, remaining) for name, limit in effect.timeout.items()}
    return replace(effect, timeout=timeout)


# The service sends a sign of life every fifteen seconds.
SILENCE = 45.0
# v0's event when the sent text is void, because the reply is made again.
RESTARTED = "reply_restarted"


@dataclass(frozen=True, slots=True)
class Restarted:
    """The reply begins again, after a crash of the service: discard the text received so far."""


ReplyEvent: TypeAlias = TextDelta | Restarted | Reply
"""New text, a restart of the reply, or finally the whole reply with its sources."""


def send_and_stream(call: Call[messages.SendAgentMessageResponse], connection: Connection) -> Walk[ReplyEvent]:
    job = (yield from perform(call, connection)).parsed
    yield from stream_reply(job.job_id, connection, conversation_id=job.conversation_id)


def stream_message(call: Call[Any], connection: Connection) -> Walk[ReplyEvent]:
    """Send a message on v0 and stream the reply. The Idempotency-Key ensures that a resent message is answered once."""
    request = connection.request(replace(call, patience=SILENCE))
    connection = replace(connection, retries=connection.retries.over_a_restart())
    yield from _stream_to_the_end(_MessageReading(request), connection)


def stream_reply(job_id: UUID, connection: Connection, *, conversation_id: UUID | None = None) -> Walk[ReplyEvent]:
    """Stream a job's reply across lost connections. Raises ReplyError if the job fails, and ReplyConnectionError."""
    connection = replace(connection, retries=connection.retries.over_a_restart())
    try:
        yield from _stream_to_the_end(_JobReading(job_id, conversation_id), connection)
    except APIConnectionError as error:
        raise reply_connection_error(error, job_id=job_id, conversation_id=conversation_id) from error.__cause__


def _stream_to_the_end(reading: "_Reading", connection: Connection) -> Walk[ReplyEvent]:
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
        """Emit a response's items, and set `done` after the last; return the reason if the stream ends before."""
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
        return APIConnectionError("The stream ended before the reply was complete")

    def _take(self, event: ServerSentEvent) -> Iterable[ReplyEvent]:
        """Convert an event for the caller; empty for a keep-alive or unknown type. Raises ReplyError for a failure."""
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
    """A v0 reply being read: the text given to the caller, and the text received on the current connection."""

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
                return [] if self._given.startswith(self._told) else self._take_new_text()
            case ChunkKind.FINAL:
                self.done = True
                return [*self._take_new_text(), self._reply(chunk)]
            case ChunkKind.BLOCKED:
                raise failure(WITHHELD, " ".join(chunk.blocks or ()), conversation_id=self.conversation_id)
            case ChunkKind.ERROR if chunk.error is not None and chunk.error.code not in {DELAYED, RESTARTED}:
                raise failure(chunk.error.code, chunk.error.message, conversation_id=self.conversation_id)
            case _:
                return []

    def _take_new_text(self) -> list[ReplyEvent]:
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
