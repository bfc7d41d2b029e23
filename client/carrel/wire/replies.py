"""Replies of agents: whole, as results of jobs, and as they are streamed. The results of v0 have the names that
published clients of this API parse, the snake_case one too."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, computed_field

from carrel.wire.common import ResponseModel
from carrel.wire.places import PassagePlace


class ExternalResourceId(ResponseModel):
    """A resource's identity in its source system, as replies name it."""

    external_resource_id: str
    """Identifier of the resource in its source system."""
    resource_type: str


class ReferencedSource(ResponseModel):
    """A document and the words of it that a reply rests on."""

    id: UUID
    """Id of the document."""
    name: str
    """Name of the document."""
    url: str | None = None
    """Address of the document in its source system."""
    external_resource_id: ExternalResourceId
    """The document's identity in its source system."""
    quote: str
    """Words of the document that the reply rests on, exactly as they are there."""
    place: PassagePlace | None = None
    """Where the passage with these words stands in the document; absent where that is unknown."""
    document_collection_id: UUID | None = None
    """Id of the collection that the passage was found in; absent in replies of before, and where no words are cited."""
    chunk_index: int | None = None
    """Place of the passage's chunk in that collection, in reading order, counted from 0; getDocumentChunks has it."""
    document_version: int | None = None
    """Number of the version that was cited; getDocument tells whether there is a newer one."""
    unsupported: list[str] | None = None
    """Numbers and names that the reply says with this citation and that no passage cited for them has; absent: none."""


class ReplyMessage(ResponseModel):
    """What the agent says."""

    message: str
    """Text of the reply."""

    @computed_field
    @property
    def data_chunk(self) -> str:
        """Text of the reply again: clients of v0 since 0.0.10 need it under this name as well."""
        return self.message


class InsertedAuditLog(ResponseModel):
    """The audit entry of an exchange."""

    id: UUID
    """Id of the entry in the audit log."""


class WebSearchResult(ResponseModel):
    """Agents search no web, so there is never one."""


class PolicyTrigger(ResponseModel):
    """No policy is applied to messages, so there is never one."""


class AiResponseResult(ResponseModel):
    """An agent's reply."""

    type: Literal["ai_response_result"] = "ai_response_result"
    """A reply."""
    conversation_id: UUID
    message_id: UUID
    response: ReplyMessage
    """The reply."""
    referenced_sources: list[ReferencedSource]
    sources_in_data_context: list[ReferencedSource]
    """Sources that the agent was given to read."""
    web_search_results: list[WebSearchResult] = Field(default_factory=list[WebSearchResult])
    """Always empty: agents don't search the web."""
    warnings: list[str]
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    """Always empty; clients of v0 up to 0.0.30 need it."""
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")
    """The audit-log entry of the exchange."""


class BlockedResult(ResponseModel):
    """A reply that is withheld, and why: the caller may no longer read what it rests on."""

    type: Literal["blocked_result"] = "blocked_result"
    """A reply that is withheld."""
    conversation_id: UUID
    blocks: list[str]
    """Why the reply is withheld."""
    warnings: list[str]
    """What else the caller should know."""
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    """Always empty; clients of v0 up to 0.0.30 need it."""
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")
    """The audit-log entry of the exchange."""


SendChatResult = Annotated[AiResponseResult | BlockedResult, Field(discriminator="type")]


class ChunkKind(StrEnum):
    """The server-sent events of v0's streamMessage.

    A reply is `initial`, then `data_chunk` as often as it grows, `end_of_message` and `final_chunk`. `blocked` and
    `error_chunk` are the last: the reply is withheld, or there is none, and what was sent of it is void."""

    INITIAL = "initial"
    DATA = "data_chunk"
    END_OF_MESSAGE = "end_of_message"
    FINAL = "final_chunk"
    BLOCKED = "blocked"
    ERROR = "error_chunk"


class ChunkError(ResponseModel):
    """Why there is no reply."""

    message: str
    """Why there is no reply, and what to do."""
    code: str
    """Stable code of the problem, for programs."""


class StreamingChunk(ResponseModel):
    """The `data` of one event of v0's streamMessage; its members depend on its kind."""

    event: ChunkKind
    """Kind of the event."""
    conversation_id: UUID | None = None
    """Id of the conversation; in `initial` and `blocked`."""
    chunk: str | None = None
    """Text that follows what was sent before; in `data_chunk`."""
    warnings: list[str] | None = None
    """What the reader of the reply should know; in `initial` (empty while the reply is made), `final_chunk` and
    `blocked`."""
    web_search_results: list[WebSearchResult] | None = None
    """Always empty, in `initial`: agents don't search the web."""
    sources: list[ReferencedSource] | None = None
    """Sources that the reply rests on; in `final_chunk`."""
    message_id: UUID | None = None
    """Id of the message and of the reply to it, which feedback names; in `final_chunk`."""
    audit_log_id: UUID | None = None
    """Id of the audit-log entry of the exchange; in `final_chunk`."""
    blocks: list[str] | None = None
    """Why the reply is withheld; in `blocked`."""
    error: ChunkError | None = None
    """Why there is no reply; in `error_chunk`."""


class StreamEvent(StrEnum):
    """The server-sent events of streamAgentResponse; each one's data is JSON.

    `delta` has a `TextDelta`; `restarted` says that what was sent so far is void, since the job began again after a
    crash; `completed` (a `CompletedJob`) and `failed` (a `FailedJob`) are the last."""

    DELTA = "delta"
    RESTARTED = "restarted"
    COMPLETED = "completed"
    FAILED = "failed"


class TextDelta(ResponseModel):
    """What a reply has grown by."""

    text: str
    """Text that follows what was sent before."""
