"""Turns and reply jobs as the sender may see them now, with sources or withheld; and a person's conversations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import conversations as wire
from carrel.wire import replies
from carrel.wire.messages import AgentResponse, CompletedJob, FailedJob, FetchAgentResponseResponse, RunningJob
from carrel.wire.places import PassagePlace
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.domains.agents.conversations.reading import queries
from service.domains.agents.conversations.reading.queries import Source, StoredTurn, WalkPosition
from service.domains.agents.definitions.service import unknown_agent
from service.platform.errors import RETRY_SECONDS, NotFound, ServiceError, Unavailable, internal_error, require
from service.runtime import Runtime
from service.schema.conversations import COMPLETED, FAILED, RUNNING
from service.web.pagination import Cursor

WITHHELD_REPLY = (
    "This reply uses documents that were deleted or that you may no longer read. Ask again for a reply from "
    "documents that you may read."
)
WITHHELD_FROM_READER = "This reply uses documents that you may not read."
Status = Literal["RUNNING", "COMPLETED", "FAILED", "WITHHELD"]
Sources = Mapping[int, Source]
"""The visible passages of a turn, by number."""


@dataclass(frozen=True, slots=True)
class SeenTurn:
    """A turn, limited to the parts visible to the caller. While the turn is RUNNING, `text` is the unfinished reply."""

    row: StoredTurn
    status: Status
    text: str | None
    cited: Sequence[replies.ReferencedSource] = ()
    sources: Sequence[replies.ReferencedSource] = ()

    @property
    def turn_id(self) -> UUID:
        """The reply's messageId."""
        return self.row.turn_id

    @property
    def warnings(self) -> list[str]:
        """The warnings about the reply; empty while the turn runs, or when the reply is withheld."""
        return list(self.row.warnings) if self.status == COMPLETED else []

    @property
    def error(self) -> tuple[str, str]:
        """The error code and message of a FAILED turn."""
        code, message = self.row.error_code, self.row.error_message
        assert code is not None  # noqa: S101 - it is kept with the status
        assert message is not None  # noqa: S101 - likewise
        return code, message

    @property
    def audit_log_id(self) -> UUID:
        assert self.row.audit_log_id is not None  # noqa: S101 - it is added with the end
        return self.row.audit_log_id


async def see_turn(
    connection: Connection, caller: Caller, *, turn_id: UUID, agent_ids: Collection[UUID] | None = None
) -> SeenTurn | None:
    """Return a turn of the caller's own, as visible now, with all retrieved passages; None for any other turn."""
    row = await queries.find_turn(connection, caller, turn_id=turn_id, agent_ids=agent_ids)
    if row is None:
        return None
    [seen] = await see_turns(connection, caller, rows=[row], with_text=True)
    return seen


async def see_turns(
    connection: Connection, caller: Caller, *, rows: Sequence[StoredTurn], with_text: bool = False
) -> list[SeenTurn]:
    """Return turns as visible to the caller now; `with_text` adds all retrieved passages."""
    shown = [row.turn_id for row in rows if row.status == COMPLETED and not row.withheld]
    found: dict[UUID, dict[int, Source]] = {turn_id: {} for turn_id in shown}
    if shown:
        for source in await queries.list_sources(connection, caller, turn_ids=shown, with_text=with_text):
            found[source.turn_id][source.passage_no] = source
    return [_to_seen_turn(row, found.get(row.turn_id, {}), with_text=with_text) for row in rows]


def _to_seen_turn(row: StoredTurn, sources: Sources, *, with_text: bool) -> SeenTurn:
    if row.status == RUNNING:
        return SeenTurn(row, RUNNING, None if row.withheld else row.reply)
    if row.status == FAILED:
        return SeenTurn(row, FAILED, None)
    # A source may have become unreadable after the turn was read.
    if row.withheld or any(citation["passageNo"] not in sources for citation in row.citations):
        return SeenTurn(row, "WITHHELD", None)
    return SeenTurn(
        row,
        COMPLETED,
        row.reply,
        cited=[_to_cited_source(sources[citation["passageNo"]], citation) for citation in row.citations],
        sources=[_source(source, source.text, source.place) for source in sources.values()] if with_text else (),
    )


def _to_cited_source(row: Source, citation: Mapping[str, Any]) -> replies.ReferencedSource:
    place = PassagePlace.model_validate(citation["place"]) if citation.get("place") else row.place
    chunk = {
        "document_collection_id": citation.get("collectionId"),
        "chunk_index": citation.get("chunkNo"),
        "document_version": citation.get("version"),
        "unsupported": citation.get("unsupported") or None,
    }
    return _source(row, citation["quote"], place, **chunk)


def _source(row: Source, quote: Any, place: PassagePlace | None, **chunk: Any) -> replies.ReferencedSource:
    return replies.ReferencedSource(
        id=row.document_id,
        name=row.name,
        url=row.external_url,
        external_resource_id=replies.ExternalResourceId(
            external_resource_id=row.resource_id, resource_type=row.resource_type
        ),
        quote=quote,
        place=place,
        **chunk,
    )


def result_of(turn: SeenTurn) -> replies.SendChatResult:
    """Convert a finished turn to the result of a message; raise the error of a failed turn."""
    if turn.status == "FAILED":
        raise _failure(turn)
    entry = replies.InsertedAuditLog(id=turn.audit_log_id)
    if turn.status == "WITHHELD":
        return replies.BlockedResult(
            conversation_id=turn.row.conversation_id,
            blocks=[WITHHELD_REPLY],
            warnings=turn.warnings,
            inserted_audit_log=entry,
        )
    return replies.AiResponseResult(
        conversation_id=turn.row.conversation_id,
        message_id=turn.turn_id,
        response=replies.ReplyMessage(message=turn.text or ""),
        referenced_sources=list(turn.cited),
        sources_in_data_context=list(turn.sources),
        warnings=turn.warnings,
        inserted_audit_log=entry,
    )


def _failure(turn: SeenTurn) -> ServiceError:
    """Build the error of a failed turn. Clients can retry all errors except an unknown agent or an internal error."""
    code, message = turn.error
    for known in (unknown_agent(), internal_error()):
        if code == known.code:
            return known
    return Unavailable(message, code=code, retry_after=turn.row.retry_after or RETRY_SECONDS)


KEPT = timedelta(hours=24)


async def see_job(runtime: Runtime, connection: Connection, caller: Caller, *, job_id: UUID) -> SeenTurn:
    """Return the turn of the caller's job. NotFound for other people's jobs and agents, and after 24 hours."""
    turn = await see_turn(connection, caller, turn_id=job_id, agent_ids=messageable_agents(caller))
    now = await runtime.clock.now(connection)
    if turn is None or turn.row.created_at <= now - KEPT:
        message = "You have no such job. Send the jobId that sendMessage gave you; it is valid for 24 hours."
        raise NotFound(message, code="job_not_found")
    return turn


def job_of(turn: SeenTurn) -> FetchAgentResponseResponse:
    """Return the state of a turn's job; a withheld reply counts as failed."""
    if turn.status == "RUNNING":
        return RunningJob(partial_text=turn.text or None)
    if turn.status == "FAILED":
        code, message = turn.error
        return FailedJob(error_message=message, error_code=code)
    if turn.status == "WITHHELD":
        return FailedJob(error_message=WITHHELD_REPLY, error_code="reply_withheld")
    result = AgentResponse(
        agent_response_text=turn.text or "",
        message_id=turn.turn_id,
        referenced_sources=list(turn.cited),
        warnings=turn.warnings,
        audit_log_id=turn.audit_log_id,
    )
    return CompletedJob(result=result, conversation_id=turn.row.conversation_id)


TITLE_CHARACTERS = 80


async def list_conversations(
    connection: Connection, caller: Caller, *, request: wire.ListConversationsRequest
) -> wire.ListConversationsResponse:
    """List the caller's own conversations, without those begun by programs, or those shared with the caller."""
    cursor = Cursor.read(caller, operation=wire.LIST_CONVERSATIONS.path, request=request)
    rows = await queries.list_conversations(
        connection,
        caller,
        agent_ids=_limit_agents(caller, request.agent_id),
        shared=bool(request.shared),
        words=(request.query or "").split(),
        position=_read_position(cursor),
        limit=cursor.limit,
    )
    began = cursor.after[0] if cursor.after else rows[0].touched.isoformat() if rows else ""
    page = cursor.page(rows, position=lambda row: [began, row.touched.isoformat(), str(row.conversation_id)])
    return wire.ListConversationsResponse(
        conversations=[shorten_title(row) for row in page.items], next_page_token=page.next_page_token
    )


async def get_conversation(
    connection: Connection, caller: Caller, *, conversation_id: UUID, request: wire.GetConversationRequest
) -> wire.GetConversationResponse:
    """Return a page of a conversation's messages; NotFound unless it is the caller's or shared with the caller."""
    cursor = Cursor.of(
        caller,
        operation=wire.GET_CONVERSATION.path,
        parameters={"conversationId": str(conversation_id)},
        page_size=request.page_size,
        page_token=request.page_token,
    )
    conversation = await require_own(connection, caller, conversation_id, or_shared=True)
    is_own, after = conversation.shared_by is None, int(cursor.after[0]) if cursor.after else 0
    rows = await queries.list_turns(
        connection, caller, conversation_id=conversation_id, after=after, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.turn_no)])
    return wire.GetConversationResponse(
        conversation=shorten_title(conversation),
        messages=[_to_message(turn, is_own=is_own) for turn in await see_turns(connection, caller, rows=page.items)],
        next_page_token=page.next_page_token,
    )


async def require_own(
    connection: Connection, caller: Caller, conversation_id: UUID, *, or_shared: bool = False
) -> wire.Conversation:
    """Return the caller's, or with `or_shared` a shared conversation with an agent open to the caller; else 404."""
    allowed = messageable_agents(caller)
    conversation = await queries.find_conversation(
        connection, caller, conversation_id=conversation_id, agent_ids=allowed, or_shared=or_shared
    )
    return require(conversation, unknown_conversation())


def _limit_agents(caller: Caller, agent_id: UUID | None) -> Sequence[UUID] | frozenset[UUID] | None:
    """Return the requested agent, none if not open to the caller; without a request all open agents (None: any)."""
    allowed = messageable_agents(caller)
    if agent_id is None:
        return allowed
    return [agent_id] if allowed is None or agent_id in allowed else []


def _read_position(cursor: Cursor) -> WalkPosition | None:
    if not cursor.after:
        return None
    began, touched, last_id = cursor.after
    return WalkPosition(datetime.fromisoformat(began), datetime.fromisoformat(touched), UUID(last_id))


def shorten_title(conversation: wire.Conversation) -> wire.Conversation:
    line = " ".join(conversation.title.split())
    title = line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"
    return conversation.model_copy(update={"title": title})


def _to_message(turn: SeenTurn, *, is_own: bool) -> wire.ConversationMessage:
    status = wire.MessageStatus(turn.status)
    withheld, error, feedback = WITHHELD_REPLY, turn.row.error_message, turn.row.feedback
    if not is_own:  # a reader can't act on the reason for a missing reply
        withheld, error, feedback = WITHHELD_FROM_READER, None, None
    return wire.ConversationMessage(
        message_id=turn.turn_id,
        created_at=turn.row.created_at,
        message=turn.row.message,
        status=status,
        agent_response_text=turn.text if status is wire.MessageStatus.COMPLETED else None,
        referenced_sources=list(turn.cited),
        warnings=turn.warnings,
        error_message=withheld if status is wire.MessageStatus.WITHHELD else error,
        feedback=feedback,
    )


def unknown_conversation() -> NotFound:
    """Return the same error for a conversation that is unknown, another person's, or with another agent."""
    return NotFound(
        "You have no such conversation with this agent. Check the conversationId, or leave it out to begin a new one.",
        code="conversation_not_found",
    )
