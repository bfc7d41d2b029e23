"""Conversations, their turns (a message and its reply), the passages of each reply, and the question log."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from carrel.wire.places import PassagePlace
from service.platform.sql import ModelJson
from service.schema.tables import deleted_with, table

RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"

# A conversation belongs to the principal that acted when it began, and to its agent. `origin` is the OAuth client that
# began it, or the owner of the key that did; NULL for conversations from before it was kept. `title`: the
# person's own.
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

# The people who may read a conversation, besides the person it belongs to; deleted with the conversation.
conversation_readers = table(
    "conversation_readers",
    sa.Column("conversation_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, primary_key=True),
    sa.Index("ix_conversation_readers_principal", "organization_id", "principal_id", "conversation_id"),
)

# `turn_id` is the reply's messageId and, on v1, the jobId. While it is RUNNING, `reply` is the text so far, and
# `attempt` tells the worker that makes it from one that was given up: only the latest may write.
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
    # What the sender's consent narrowed the message to; NULL: to nothing.
    sa.Column("collection_ids", sa.ARRAY(sa.Uuid)),
    sa.CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'FAILED')", name="status"),
    sa.Index("uq_turns_turn_no", "conversation_id", "turn_no", unique=True),
    sa.Index("ix_turns_running", "organization_id", "created_at", postgresql_where=sa.text("status = 'RUNNING'")),
)

# `rests_on`: words of the passage may be in the reply, so only readers of its document may read that.
# Without a text it was carried over from earlier turns, whose replies the model was shown.
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

# The question log: a row for each turn. It stays when the turn, which has the words, is erased.
# `outcome` is the turn's status, and whether a reply cites anything; `feedback` is the newest on the reply.
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
