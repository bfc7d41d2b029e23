"""Replies of agents: whole, as results of jobs, and streamed. Results of v0 have the names that clients expect."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, computed_field

from carrel.wire.common import ResponseModel
from carrel.wire.places import PassagePlace


class ExternalResourceId(ResponseModel):
    """A resource's identity in its source system, as written in replies."""

    external_resource_id: str
    """Identifier of the resource in its source system."""
    resource_type: str


class ReferencedSource(ResponseModel):
    """A document and a quote from it that supports a reply."""

    id: UUID
    """Id of the document."""
    name: str
    """Name of the document."""
    url: str | None = None
    """URL of the document in its source system."""
    external_resource_id: ExternalResourceId
    """The document's identity in its source system."""
    quote: str
    """Verbatim quote from the document that supports the reply."""
    place: PassagePlace | None = None
    """Place of the quoted passage in the document; absent: unknown."""
    document_collection_id: UUID | None = None
    """Id of the collection with the passage; absent in older replies, and without a quote."""
    chunk_index: int | None = None
    """Position of the passage's chunk in the collection, in reading order, counted from 0; see getDocumentChunks."""
    document_version: int | None = None
    """Number of the cited version; getDocument shows newer versions."""
    unsupported: list[str] | None = None
    """Numbers and names in the reply with this citation, but missing from its cited passages; absent: none."""


class ReplyMessage(ResponseModel):
    """The agent's text."""

    message: str
    """Text of the reply."""

    @computed_field
    @property
    def data_chunk(self) -> str:
        """Alias of the reply's text, required by clients of v0 since 0.0.10."""
        return self.message


class InsertedAuditLog(ResponseModel):
    """The audit entry of an exchange."""

    id: UUID
    """Id of the entry in the audit log."""


class WebSearchResult(ResponseModel):
    """Never used: agents don't search the web."""


class PolicyTrigger(ResponseModel):
    """Never used: messages have no policies."""


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
    """Sources given to the agent."""
    web_search_results: list[WebSearchResult] = Field(default_factory=list[WebSearchResult])
    """Always empty: agents don't search the web."""
    warnings: list[str]
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")


class BlockedResult(ResponseModel):
    """A withheld reply, and the reason: the caller may no longer read its sources."""

    type: Literal["blocked_result"] = "blocked_result"
    """A withheld reply."""
    conversation_id: UUID
    blocks: list[str]
    """Why the reply is withheld."""
    warnings: list[str]
    """Warnings for the caller."""
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")


SendChatResult = Annotated[AiResponseResult | BlockedResult, Field(discriminator="type")]


class ChunkKind(StrEnum):
    """The server-sent events of v0's streamMessage: `initial`, then any number of `data_chunk`, `end_of_message` and
    `final_chunk`. `blocked` (reply withheld) and `error_chunk` (no reply) come last, and void all earlier text."""

    INITIAL = "initial"
    DATA = "data_chunk"
    END_OF_MESSAGE = "end_of_message"
    FINAL = "final_chunk"
    BLOCKED = "blocked"
    ERROR = "error_chunk"


class ChunkError(ResponseModel):
    """Reason for the missing reply."""

    message: str
    """Reason for the missing reply, and what to do."""
    code: str


class StreamingChunk(ResponseModel):
    """The `data` of an event of v0's streamMessage; the members depend on the kind."""

    event: ChunkKind
    """Kind of the event."""
    conversation_id: UUID | None = None
    """Id of the conversation; in `initial` and `blocked`."""
    chunk: str | None = None
    """Text to append to the earlier text; in `data_chunk`."""
    warnings: list[str] | None = None
    """Warnings for readers of the reply, in `initial` (empty while incomplete), `final_chunk` and `blocked`."""
    web_search_results: list[WebSearchResult] | None = None
    """Always empty, in `initial`: agents don't search the web."""
    sources: list[ReferencedSource] | None = None
    """Sources of the reply; in `final_chunk`."""
    message_id: UUID | None = None
    """Id of the message and its reply, used for feedback; in `final_chunk`."""
    audit_log_id: UUID | None = None
    """Id of the audit-log entry of the exchange; in `final_chunk`."""
    blocks: list[str] | None = None
    """Why the reply is withheld; in `blocked`."""
    error: ChunkError | None = None
    """Reason for the missing reply; in `error_chunk`."""


class StreamEvent(StrEnum):
    """The server-sent events of streamAgentResponse, with JSON: `delta` has a `TextDelta`; `restarted`, after a crash,
    voids all earlier text; `completed` (a `CompletedJob`) and `failed` (a `FailedJob`) are the last event."""

    DELTA = "delta"
    RESTARTED = "restarted"
    COMPLETED = "completed"
    FAILED = "failed"


class TextDelta(ResponseModel):
    """New text of a reply."""

    text: str
    """Text to append to the earlier text."""
