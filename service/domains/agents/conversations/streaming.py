"""Send a job's progress as server-sent events. An event's id is `<attempt>-<characters sent>`."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect

from carrel.wire.messages import STREAM_AGENT_RESPONSE
from carrel.wire.replies import ChunkError, ChunkKind, StreamEvent, StreamingChunk, TextDelta
from service.auth.authorization import authorize
from service.domains.agents.conversations.reading.queries import status_of
from service.domains.agents.conversations.reading.turns import WITHHELD_REPLY, SeenTurn, job_of, see_job
from service.platform.errors import BadRequest, ServiceError, Unavailable
from service.platform.logs import logger
from service.runtime import Runtime
from service.schema.conversations import RUNNING
from service.web.dependencies import is_stopping, reauthenticate

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.25
PAUSE_GROWTH = 1.5
# How long a message may wait in the queue, without the time for its reply.
QUEUE_SECONDS = 60.0
# Less than the half minute that a stopping service gives its requests.
STOPPING_SECONDS = 15.0
RETRY_SECONDS = 5


async def wait_until_done(runtime: Runtime, request: Request, *, organization_id: UUID, turn_id: UUID) -> None:
    """Wait until a turn is done or erased. Raises Unavailable after too long, ClientDisconnect without a client."""
    pause = FIRST_PAUSE_SECONDS
    deadline = time.monotonic() + runtime.settings.model_seconds + QUEUE_SECONDS
    stops_at = deadline
    while True:
        async with runtime.database.transaction(organization_id, read_only=True) as connection:
            if await status_of(connection, organization_id, turn_id=turn_id) != RUNNING:
                return
        if is_stopping(request):
            stops_at = min(stops_at, time.monotonic() + STOPPING_SECONDS)
        if time.monotonic() >= min(deadline, stops_at):
            raise Unavailable(
                "The reply is not ready yet. Send the same request with the same "
                "Idempotency-Key to wait for it, or look for it in the conversation.",
                retry_after=RETRY_SECONDS,
                code="reply_delayed",
            )
        if await request.is_disconnected():
            raise ClientDisconnect
        await asyncio.sleep(pause)
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)


MEDIA_TYPE = "text/event-stream"
# Proxies must pass each event on at once.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LAST_EVENT_ID = "Last-Event-ID"
EVENT_ID = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
LOOK_SECONDS = 0.25
AGAIN = "Send the request again, with the same Idempotency-Key if it had one, to get the whole reply."
HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Position:
    """A client's position in the stream: an attempt and the number of characters received. `is_last` means the end."""

    attempt: int = 0
    sent: int = 0
    is_last: bool = False

    @classmethod
    def read(cls, request: Request) -> "Position":
        """Read Last-Event-ID (default: the beginning); raises BadRequest for a value other than an event's id."""
        value = request.headers.get(LAST_EVENT_ID)
        if not value:
            return cls()
        match = EVENT_ID.fullmatch(value)
        if match is None:
            message = f"{LAST_EVENT_ID} is the id of an event of this stream. Leave it out to begin with the first."
            raise BadRequest(message, code="invalid_last_event_id")
        return cls(int(match[1]), int(match[2]))

    @property
    def event_id(self) -> str:
        return f"{self.attempt}-{self.sent}"


Look = Callable[[], Awaitable[SeenTurn]]
Tell = Callable[[SeenTurn, Position], tuple[list[bytes], Position]]


async def read_job(runtime: Runtime, request: Request, *, job_id: UUID) -> SeenTurn:
    """Authenticate the caller again and read the job again; raise an error when the caller may no longer see it."""
    async with reauthenticate(request, runtime) as (connection, caller):
        authorize(caller, STREAM_AGENT_RESPONSE.requires)
        return await see_job(runtime, connection, caller, job_id=job_id)


async def stream_events(
    request: Request, *, turn: SeenTurn, position: Position, look: Look, tell: Tell, cut: bytes = b""
) -> AsyncGenerator[bytes]:
    """Yield a job's events until the job ends, the service stops (with `cut`), or rights end; `look` reads the job."""
    quiet_since = time.monotonic()
    while True:
        news, position = tell(turn, position)
        if news:
            yield b"".join(news)
            quiet_since = time.monotonic()
        if turn.status != "RUNNING" or position.is_last:
            return
        if is_stopping(request):
            break
        if time.monotonic() - quiet_since >= HEARTBEAT_SECONDS:
            yield KEEPALIVE_COMMENT
            quiet_since = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)
        try:
            turn = await look()
        except (ServiceError, SQLAlchemyError) as error:
            logger.info("stream_ended", kind=type(error).__name__)
            break
    if cut:
        yield cut


def job_events(turn: SeenTurn, position: Position) -> tuple[list[bytes], Position]:
    """Return v1's events up to a turn, and the position afterwards. After RESTARTED, void text is sent anew."""
    attempt = turn.row.attempt
    text, news = turn.text, list[bytes]()
    if text is not None and (position.attempt != attempt or position.sent > len(text)):
        is_void, position = position.sent > 0, Position(attempt)
        if is_void:
            news.append(_event(StreamEvent.RESTARTED, None, position))
    if text is not None and len(text) > position.sent:
        delta, position = TextDelta(text=text[position.sent :]), Position(attempt, len(text))
        news.append(_event(StreamEvent.DELTA, delta, position))
    if turn.status != "RUNNING":
        kind = StreamEvent.COMPLETED if turn.status == "COMPLETED" else StreamEvent.FAILED
        news.append(_event(kind, job_of(turn), position))
    return news, position


def _event(kind: StreamEvent, data: BaseModel | None, position: Position) -> bytes:
    body = "{}" if data is None else data.model_dump_json(by_alias=True, exclude_none=True)
    return format_sse_event(data_str=body, event=kind.value, id=position.event_id)


def v0_events(turn: SeenTurn, position: Position) -> tuple[list[bytes], Position]:
    """Return v0's chunks up to a turn, and the position afterwards. The stream ends when sent text becomes void."""
    attempt = turn.row.attempt
    if turn.status == "WITHHELD":
        return [_chunk(ChunkKind.BLOCKED, **_opening(turn), blocks=[WITHHELD_REPLY])], position
    if turn.status == "FAILED":
        return [_error(*turn.error)], position
    if turn.text is None and turn.status == "RUNNING":
        return [], position
    text = turn.text or ""
    if position.sent and (position.attempt != attempt or position.sent > len(text)):
        void = f"The reply is being made again, so the text sent so far is void. {AGAIN}"
        return [_error("reply_restarted", void)], replace(position, is_last=True)
    news = list[bytes]()
    if not position.attempt and (text or turn.status == "COMPLETED"):
        news.append(_chunk(ChunkKind.INITIAL, **_opening(turn), web_search_results=[]))
    if len(text) > position.sent:
        news.append(_chunk(ChunkKind.DATA, chunk=text[position.sent :]))
    if turn.status == "COMPLETED":
        ids = {"message_id": turn.turn_id, "audit_log_id": turn.audit_log_id}
        final = _chunk(ChunkKind.FINAL, sources=list(turn.cited), warnings=turn.warnings, **ids)
        news += [_chunk(ChunkKind.END_OF_MESSAGE), final]
    return news, Position(attempt, len(text)) if news else position


def _opening(turn: SeenTurn) -> dict[str, Any]:
    return {"conversation_id": turn.row.conversation_id, "warnings": turn.warnings}


def _error(code: str, message: str) -> bytes:
    return _chunk(ChunkKind.ERROR, error=ChunkError(message=message, code=code))


def _chunk(kind: ChunkKind, **members: Any) -> bytes:
    data = StreamingChunk(event=kind, **members)
    return format_sse_event(data_str=data.model_dump_json(by_alias=True, exclude_none=True))


V0_CUT = _error("reply_delayed", f"The stream was cut. {AGAIN}")
