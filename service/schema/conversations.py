"""Conversations, their turns (a message and its reply), the passages of each reply, and the question log."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from carrel.wire.places import PassagePlace
from service.platform.sql import ModelJson
from service.schema.tables import deleted_with, table

RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"

# A conversation belongs to an agent and to the principal that began it. `origin` is the OAuth client, or the owner of
# the key, that began it; NULL for conversations of earlier releases. `title` was given by the person.
conversations = table(
    "conversations",
    sa.Column("conversation_id", sa.Uuid, primary_key=True),
    sa.Column("agent_id", sa.Uuid, sa.ForeignKey("agents.agent_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("origin", sa.Uuid),
    sa.Column("title", sa.Text),
    sa.Index("ix_conversations_principal", "organization_id", "principal_id", "updated_at", "conversation_id"),
    sa.Index("ix_conversations_agent", "agent_id"),
    sa.Index("ix_conversations_updated", "organization_id", "updated_at"),
)

# The people who may read a conversation besides its owner; deleted with the conversation.
conversation_readers = table(
    "conversation_readers",
    sa.Column("conversation_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, primary_key=True),
    sa.Index("ix_conversation_readers_principal", "organization_id", "principal_id", "conversation_id"),
)

# `turn_id` is the reply's messageId and, on v1, the jobId. While the turn is RUNNING, `reply` is the text so far, and
# only the worker with the latest `attempt` may write.
turns = table(
    "turns",
    sa.Column("turn_id", sa.Uuid, primary_key=True),
    sa.Column("conversation_id", sa.Uuid, deleted_with("conversations.conversation_id"), nullable=False),
    sa.Column("turn_no", sa.Integer, nullable=False),
    sa.Column("credential_id", sa.Uuid, nullable=False),
    sa.Column("acting_through_id", sa.Uuid),
    sa.Column("request_id", sa.Text),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'RUNNING'")),
    sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("reply", sa.Text),
    sa.Column("citations", JSONB, nullable=False, server_default=sa.text("'[]'")),
    sa.Column("warnings", JSONB, nullable=False, server_default=sa.text("'[]'")),
    sa.Column("model", sa.Text),
    sa.Column("error_code", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("retry_after", sa.Integer),
    sa.Column("feedback", sa.Text),
    sa.Column("audit_log_id", sa.Uuid),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    # The collections to which the sender's consent limits the message; NULL: no limit.
    sa.Column("collection_ids", sa.ARRAY(sa.Uuid)),
    sa.CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'FAILED')", name="status"),
    sa.Index("uq_turns_turn_no", "conversation_id", "turn_no", unique=True),
    sa.Index("ix_turns_running", "organization_id", "created_at", postgresql_where=sa.text("status = 'RUNNING'")),
)

# `rests_on`: the reply may quote the passage, so only readers of its document may read the reply. A row without text
# comes from earlier turns, whose replies were shown to the model.
turn_passages = table(
    "turn_passages",
    sa.Column("turn_id", sa.Uuid, primary_key=True),
    sa.Column("passage_no", sa.Integer, primary_key=True),
    sa.Column("document_id", sa.Uuid, nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("place", ModelJson(PassagePlace)),
    sa.Column("rests_on", sa.Boolean, nullable=False),
    sa.ForeignKeyConstraint(["turn_id"], ["turns.turn_id"], ondelete="CASCADE"),
    sa.Index("ix_turn_passages_document", "organization_id", "document_id"),
)

# The question log has a row for each turn, which stays when the turn with its texts is erased. `outcome` is the turn's
# status, and whether a reply has citations; `feedback` is the newest on the reply.
questions = table(
    "questions",
    sa.Column("turn_id", sa.Uuid, primary_key=True),
    sa.Column("conversation_id", sa.Uuid, nullable=False),
    sa.Column("agent_id", sa.Uuid, sa.ForeignKey("agents.agent_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("feedback", sa.Text),
    sa.CheckConstraint("outcome IN ('RUNNING', 'ANSWERED', 'UNANSWERED', 'FAILED')", name="outcome"),
    sa.Index("ix_questions_conversation", "conversation_id"),
    sa.Index("ix_questions_at", "organization_id", "at", "turn_id"),
    sa.Index("ix_questions_agent", "organization_id", "agent_id", "at", "turn_id"),
    sa.Index("ix_questions_principal", "organization_id", "principal_id", "at", "turn_id"),
    sa.Index("ix_questions_outcome", "organization_id", "outcome", "at", "turn_id"),
    sa.Index(
        "ix_questions_feedback",
        "organization_id",
        "feedback",
        "at",
        "turn_id",
        postgresql_where=sa.text("feedback IS NOT NULL"),
    ),
)
