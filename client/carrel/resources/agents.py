"""agents/*: the caller's agents and their replies, waited for or streamed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._connect import UNCHANGED, MaybeTimeout
from carrel._drivers import Flow, Walk
from carrel._operations import FlowOperation, ListOperation, Operation, Raw, Resource, StreamOperation
from carrel._pages import Listing
from carrel._replies import (
    Job,
    Reply,
    ReplyEvent,
    fetch,
    send_and_stream,
    send_and_wait,
    stream_message,
    stream_reply,
    submit_and_wait,
)
from carrel.errors import InvalidArgumentError
from carrel.resources._arguments import Id, as_any, require_id
from carrel.resources._by_hand import REPLY_PATIENCE, message_call
from carrel.resources._choices import AnyVerdict
from carrel.wire import messages as wire
from carrel.wire.agents import LIST_AGENTS, Agent, ListAgentsRequest, ListAgentsResponse

M = TypeVar("M")


class Agents(Resource[M]):
    """Agents deployed to the caller. `send_and_wait`, `stream` and `provide_message_feedback` work with every
    credential; the remaining operations raise ConfigurationError without an access token (v1)."""

    @property
    def with_raw_response(self) -> "Agents[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Agents(self._session.as_raw())

    @FlowOperation
    def send_and_wait(
        self,
        agent_id: Id,
        message: str,
        *,
        conversation_id: Id | None = None,
        user_email: str | None = None,
        timeout: float = REPLY_PATIENCE,
        headers: Mapping[str, str] | None = None,
    ) -> Flow[Reply]:
        """Send a message, in a new conversation unless one is named, and return the reply. `timeout` is in seconds for
        the whole call. ReplyTimeoutError and, for failed connections, ReplyConnectionError name the job, which
        continues (v1). Raises ReplyFailedError when the model gave no reply (after up to four tries of the service, so
        no repetition). Raises ReplyWithheldError for a reply based on documents that the caller may no longer read, and
        NotFoundError for an agent not deployed to the caller. `user_email` (v0) is the person an API key acts for."""
        connection = self._session.connection
        if connection.version == "v0":
            on_v0 = message_call(agent_id, message, conversation_id=conversation_id, user_email=user_email)
            return send_and_wait(on_v0, connection, timeout=timeout)
        _refuse(user_email)
        return submit_and_wait(_message_call(agent_id, message, conversation_id), connection, timeout=timeout)

    @StreamOperation
    def stream(
        self,
        agent_id: Id,
        message: str,
        *,
        conversation_id: Id | None = None,
        user_email: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Walk[ReplyEvent]:
        """Send a message, in a new conversation unless one is named, and stream the reply. Yields TextDelta events, and
        finally the Reply, whose text is authoritative. Restarted follows a crash of the service: discard the text so
        far. A lost connection resumes without loss or repetition. After seven connections in a row without data,
        ReplyConnectionError names the job, which continues (v1), or APIConnectionError is raised (v0). Raises the
        errors of `send_and_wait`; `timeout` is the longest wait between two signs of life. `user_email` (v0) is the
        person an API key acts for."""
        connection = self._session.connection
        if connection.version == "v0":
            on_v0 = message_call(agent_id, message, conversation_id=conversation_id, user_email=user_email)
            return stream_message(replace(on_v0, operation=wire.STREAM_MESSAGE), connection)
        _refuse(user_email)
        return send_and_stream(_message_call(agent_id, message, conversation_id), connection)

    @Operation
    def send_message(
        self,
        agent_id: Id,
        message: str,
        *,
        conversation_id: Id | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[wire.SendAgentMessageResponse]:
        """Send a message, and return its job at once; the reply is produced even if the client doesn't wait. A message
        repeated after a broken connection is answered once."""
        return _message_call(agent_id, message, conversation_id)

    @Operation
    def fetch_response(
        self, job_id: Id, *, timeout: MaybeTimeout = UNCHANGED, headers: Mapping[str, str] | None = None
    ) -> Call[Job]:
        """Return the state of one of the caller's jobs: a RunningJob, CompletedJob or FailedJob; for 24 hours. Raises
        NotFoundError afterwards, and for other people's jobs."""
        return fetch(require_id("job_id", job_id))

    @StreamOperation
    def stream_response(
        self, job_id: Id, *, timeout: MaybeTimeout = UNCHANGED, headers: Mapping[str, str] | None = None
    ) -> Walk[ReplyEvent]:
        """Stream a job's reply from its beginning, like `stream`."""
        return stream_reply(require_id("job_id", job_id), self._session.connection)

    @ListOperation
    def list(
        self,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Listing[Agent, ListAgentsResponse]:
        """List the caller's agents."""
        request = ListAgentsRequest(page_size=page_size, page_token=page_token)
        return Listing(LIST_AGENTS, request, lambda page: page.agents)

    @Operation
    def provide_message_feedback(
        self,
        agent_id: Id,
        message_id: Id,
        feedback: AnyVerdict,
        *,
        descriptive_feedback: str | None = None,
        suggested_answer: str | None = None,
        user_email: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[wire.ProvideMessageFeedbackResponse]:
        """Record POSITIVE or NEGATIVE feedback on a reply, with an optional comment, in the audit log. The reply must
        belong to the caller, or to the user named by `user_email` (v0); admins may judge all replies. An end user
        outside the organization is named in the entry's text."""
        request = wire.ProvideMessageFeedbackRequest(
            agent_id=as_any(UUID, agent_id),
            message_id=as_any(UUID, message_id),
            message_feedback=wire.MessageFeedback(
                feedback=as_any(wire.Verdict, feedback),
                descriptive_feedback=descriptive_feedback,
                suggested_answer=suggested_answer,
            ),
            user_email=user_email,
        )
        if self._session.connection.version == "v0":
            return Call(wire.PROVIDE_MESSAGE_FEEDBACK, request)
        _refuse(user_email)
        return Call(wire.PROVIDE_AGENT_MESSAGE_FEEDBACK, request)


def _message_call(agent_id: Id, message: str, conversation_id: Id | None) -> Call[wire.SendAgentMessageResponse]:
    conversation = wire.NewConversation()
    if conversation_id is not None:
        conversation = wire.ExistingConversation(conversation_id=as_any(UUID, conversation_id))
    request = wire.SendAgentMessageRequest(agent_id=as_any(UUID, agent_id), conversation=conversation, message=message)
    return Call(wire.SEND_AGENT_MESSAGE, request)


def _refuse(user_email: str | None) -> None:
    if user_email is not None:
        raise InvalidArgumentError("user_email: an access token acts for the person who gave it, and for nobody else")
