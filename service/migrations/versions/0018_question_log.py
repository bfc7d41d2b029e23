"""The question log: who asked which agent, when, and what came of it; kept when the words are erased."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the log, and fill it with the turns that there are."""
    op.create_table(
        "questions",
        sa.Column("turn_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("conversation_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), sa.ForeignKey("agents.agent_id"), nullable=False),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("feedback", sa.Text()),
        sa.CheckConstraint(
            "outcome IN ('RUNNING', 'ANSWERED', 'UNANSWERED', 'FAILED')",
            name=op.f("ck_questions_outcome"),
        ),
    )
    _fill()
    for name in ("agent_id", "principal_id", "outcome"):
        index = f"ix_questions_{name.removesuffix('_id')}"
        op.create_index(index, "questions", ["organization_id", name, "at", "turn_id"])
    op.create_index("ix_questions_conversation", "questions", ["conversation_id"])
    op.create_index("ix_questions_at", "questions", ["organization_id", "at", "turn_id"])
    op.create_index(
        "ix_questions_feedback",
        "questions",
        ["organization_id", "feedback", "at", "turn_id"],
        postgresql_where=sa.text("feedback IS NOT NULL"),
    )
    protect("questions")


def _fill() -> None:
    # Row-level security holds back an owner who is no superuser, unless it is told otherwise.
    for table in ("turns", "conversations"):
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(
        """
        INSERT INTO questions
        SELECT t.turn_id, t.organization_id, t.conversation_id, c.agent_id, c.principal_id, t.created_at,
               CASE WHEN t.status <> 'COMPLETED' THEN t.status
                    WHEN jsonb_array_length(t.citations) = 0 THEN 'UNANSWERED' ELSE 'ANSWERED' END,
               t.feedback
        FROM turns t JOIN conversations c ON c.conversation_id = t.conversation_id
        """
    )
    for table in ("turns", "conversations"):
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
