"""Agents, conversations, their turns, and what each reply was made from."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

PROTECTED = ("agent_collections", "agents", "conversations", "turn_passages", "turns")


def upgrade() -> None:
    """Add what is new."""
    _create_agents()
    _create_conversations()
    _create_turns()
    for table in PROTECTED:
        protect(table)


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _time(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), **options)


def _now(name: str) -> sa.Column[Any]:
    return _time(name, server_default=sa.func.now(), nullable=False)


def _json_list(name: str) -> sa.Column[Any]:
    return sa.Column(name, JSONB(), server_default=sa.text("'[]'"), nullable=False)


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("api_access_enabled", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        _now("created_at"),
        _now("updated_at"),
        _time("deleted_at"),
    )
    op.create_index(
        "uq_agents_name",
        "agents",
        ["organization_id", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    collection = sa.ForeignKey("collections.collection_id", ondelete="CASCADE")
    op.create_table(
        "agent_collections",
        sa.Column("agent_id", sa.Uuid(), sa.ForeignKey("agents.agent_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("collection_id", sa.Uuid(), collection, primary_key=True),
        _organization(),
    )
    op.create_index("ix_agent_collections_collection", "agent_collections", ["collection_id"])


def _create_conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("conversation_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("agent_id", sa.Uuid(), sa.ForeignKey("agents.agent_id"), nullable=False),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        _now("created_at"),
        _now("updated_at"),
    )
    op.create_index(
        "ix_conversations_principal",
        "conversations",
        ["organization_id", "principal_id", "updated_at", "conversation_id"],
    )
    op.create_index("ix_conversations_agent", "conversations", ["agent_id"])
    op.create_index("ix_conversations_updated", "conversations", ["organization_id", "updated_at"])


def _create_turns() -> None:
    conversation = sa.ForeignKey("conversations.conversation_id", ondelete="CASCADE")
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("conversation_id", sa.Uuid(), conversation, nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False),
        sa.Column("credential_id", sa.Uuid(), nullable=False),
        sa.Column("acting_through_id", sa.Uuid()),
        sa.Column("request_id", sa.Text()),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'RUNNING'"), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("reply", sa.Text()),
        _json_list("citations"),
        _json_list("warnings"),
        sa.Column("model", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        sa.Column("retry_after", sa.Integer()),
        sa.Column("feedback", sa.Text()),
        sa.Column("audit_log_id", sa.Uuid()),
        _now("created_at"),
        _time("finished_at"),
        sa.CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'FAILED')", name=op.f("ck_turns_status")),
    )
    op.create_index("uq_turns_turn_no", "turns", ["conversation_id", "turn_no"], unique=True)
    running = sa.text("status = 'RUNNING'")
    op.create_index("ix_turns_running", "turns", ["organization_id", "created_at"], postgresql_where=running)
    op.create_table(
        "turn_passages",
        sa.Column("turn_id", sa.Uuid(), sa.ForeignKey("turns.turn_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("passage_no", sa.Integer(), primary_key=True),
        _organization(),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("rests_on", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_turn_passages_document", "turn_passages", ["organization_id", "document_id"])
