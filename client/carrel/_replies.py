"""Replies of agents, equal for v0 and v1, and waiting for them."""

import itertools
import time
from dataclasses import replace
from typing import ClassVar, TypeAlias, TypeVar
from uuid import UUID

import httpx

from carrel import errors
from carrel._calls import Call, Connection, perform
from carrel._flow import Flow, Request, Sleep, Work
from carrel._retries import DELAYED, NO_REPLY
from carrel.wire import messages
from carrel.wire.common import Tabular
from carrel.wire.replies import AiResponseResult, ReferencedSource

T = TypeVar("T")
Job: TypeAlias = messages.RunningJob | messages.CompletedJob | messages.FailedJob

WITHHELD = "reply_withheld"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Reply(Tabular):
    """An agent's reply: its text and its sources.

    `[1]` in the text stands for the first of `sources`, whose `quote` is in its document word for word; `warnings` say
    what was left out. `to_frame` gives the sources as a table."""

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
    """Build the exception for a message that got no reply."""
    kind = errors.ReplyWithheldError if code == WITHHELD else errors.ReplyFailedError
    return kind(message, code=code, conversation_id=conversation_id, message_id=job_id)


def reply_connection_error(
    error: errors.APIConnectionError, *, job_id: UUID, conversation_id: UUID | None = None
) -> errors.ReplyConnectionError:
    """Build the exception for a lost connection to a job that continues, to be raised with the same cause."""
    kind = errors.ReplyTimeoutError if isinstance(error, errors.APITimeoutError) else errors.ReplyConnectionError
    message = f"{str(error).rstrip('.')}. Fetch or stream the reply later, by its job {job_id}."
    return kind(message, job_id=job_id, conversation_id=conversation_id)


def fetch(job_id: UUID) -> Call[Job]:
    """Return the call that fetches the state of a job."""
    return Call(messages.FETCH_AGENT_RESPONSE, messages.FetchAgentResponseRequest(job_id=job_id))


def send_and_wait(call: Call[messages.SendMessageResponse], connection: Connection, *, timeout: float) -> Flow[Reply]:
    """Send a message to an agent on v0 and wait for the reply."""
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
    """Send a message to an agent on v1 and poll until the reply is there."""
    deadline = Deadline(timeout)
    sent = (yield from within(deadline, perform(call, connection))).parsed
    ids = {"job_id": sent.job_id, "conversation_id": sent.conversation_id}
    try:
        job = yield from within(deadline, _finished(sent.job_id, connection))
    except errors.APIConnectionError as error:
        raise reply_connection_error(error, **ids) from error.__cause__
    if isinstance(job, messages.FailedJob):
        raise failure(job.error_code, job.error_message, **ids)
    return reply_of_job(job)


def _finished(job_id: UUID, connection: Connection) -> Flow[messages.CompletedJob | messages.FailedJob]:
    connection = replace(connection, retries=connection.retries.over_a_restart())
    for attempt in itertools.count():
        job = (yield from perform(fetch(job_id), connection)).parsed
        if not isinstance(job, messages.RunningJob):
            return job
        yield Sleep(min(SHORTEST_PAUSE * 1.5 ** min(attempt, 20), LONGEST_PAUSE))
    raise AssertionError  # itertools.count() doesn't end


class Deadline:
    """The moment a number of seconds after its creation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """The seconds until the deadline; 0 or less when it has passed."""
        return self._at - time.monotonic()

    def passed(self) -> errors.ReplyTimeoutError:
        """Build the exception for waiting until the deadline."""
        said = f"No reply within {self.seconds:g} seconds; an agent that has the message continues."
        return errors.ReplyTimeoutError(said)


def within(deadline: Deadline, flow: Flow[T]) -> Flow[T]:
    """Run a flow until the deadline, with its pauses and retries; raises ReplyTimeoutError."""
    try:
        effect = next(flow)
        while True:
            remaining = deadline.remaining
            if remaining <= 0 or (isinstance(effect, Sleep) and effect.seconds >= remaining):
                raise deadline.passed()
            try:
                result: object = yield _bounded(effect, remaining)
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


def _bounded(effect: Request | Sleep | Work, remaining: float) -> Request | Sleep | Work:
    if not isinstance(effect, Request):
        return effect
    timeout = {name: remaining if limit is None else min(limit, remaining) for name, limit in effect.timeout.items()}
    return replace(effect, timeout=timeout)
