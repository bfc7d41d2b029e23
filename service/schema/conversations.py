"""Conversations, their turns (a message and its reply), the passages of each reply, and the question log."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from carrel.wire.places import PassagePlace
from service.platform.database import metadata
from service.platform.sql import ModelJson

RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"

# A conversation belongs to the principal that acted when it began, and to its agent. `origin` is the OAuth client that
# began it, or the owner of the key that did; NULL for conversations from before it was kept.
conversations = Table(
    "conversations",
    metadata,
    Column("conversation_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("agent_id", Uuid, ForeignKey("agents.agent_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("origin", Uuid),
    Index("ix_conversations_principal", "organization_id", "principal_id", "updated_at", "conversation_id"),
    Index("ix_conversations_agent", "agent_id"),
    Index("ix_conversations_updated", "organization_id", "updated_at"),
)

# `turn_id` is the reply's messageId and, on v1, the jobId. While it is RUNNING, `reply` is the text so far, and
# `attempt` tells the worker that makes it from one that was given up: only the latest may write.
turns = Table(
    "turns",
    metadata,
    Column("turn_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("conversation_id", Uuid, ForeignKey("conversations.conversation_id", ondelete="CASCADE"), nullable=False),
    Column("turn_no", Integer, nullable=False),
    Column("credential_id", Uuid, nullable=False),
    Column("acting_through_id", Uuid),
    Column("request_id", Text),
    Column("message", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'RUNNING'")),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("reply", Text),
    Column("citations", JSONB, nullable=False, server_default=text("'[]'")),
    Column("warnings", JSONB, nullable=False, server_default=text("'[]'")),
    Column("model", Text),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("retry_after", Integer),
    Column("feedback", Text),
    Column("audit_log_id", Uuid),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("finished_at", DateTime(timezone=True)),
    Column("address", Text),
    Column("device", Text),
    # What the sender's consent narrowed the message to; NULL: to nothing.
    Column("collection_ids", ARRAY(Uuid)),
    CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'FAILED')", name="status"),
    Index("uq_turns_turn_no", "conversation_id", "turn_no", unique=True),
    Index("ix_turns_running", "organization_id", "created_at", postgresql_where=text("status = 'RUNNING'")),
)

# `rests_on`: words of the passage may be in the reply, so whoever may no longer read its document may not read that.
# Without a text it was carried over from earlier turns, whose replies the model was shown.
turn_passages = Table(
    "turn_passages",
    metadata,
    Column("turn_id", Uuid, primary_key=True),
    Column("passage_no", Integer, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("document_id", Uuid, nullable=False),
    Column("text", Text),
    Column("place", ModelJson(PassagePlace)),
    Column("rests_on", Boolean, nullable=False),
    ForeignKeyConstraint(["turn_id"], ["turns.turn_id"], ondelete="CASCADE"),
    Index("ix_turn_passages_document", "organization_id", "document_id"),
)

# The question log: a row for each turn. It stays when the turn, which has the words, is erased.
# `outcome` is the turn's status, and whether a reply cites anything; `feedback` is the newest on the reply.
questions = Table(
    "questions",
    metadata,
    Column("turn_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("conversation_id", Uuid, nullable=False),
    Column("agent_id", Uuid, ForeignKey("agents.agent_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("outcome", Text, nullable=False),
    Column("feedback", Text),
    CheckConstraint("outcome IN ('RUNNING', 'ANSWERED', 'UNANSWERED', 'FAILED')", name="outcome"),
    Index("ix_questions_conversation", "conversation_id"),
    Index("ix_questions_at", "organization_id", "at", "turn_id"),
    Index("ix_questions_agent", "organization_id", "agent_id", "at", "turn_id"),
    Index("ix_questions_principal", "organization_id", "principal_id", "at", "turn_id"),
    Index("ix_questions_outcome", "organization_id", "outcome", "at", "turn_id"),
    Index(
        "ix_questions_feedback",
        "organization_id",
        "feedback",
        "at",
        "turn_id",
        postgresql_where=text("feedback IS NOT NULL"),
    ),
)
