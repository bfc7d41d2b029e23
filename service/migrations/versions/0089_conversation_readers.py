"""A person can share a conversation with readers."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0089", "0088", None


def upgrade() -> None:
    op.create_table(
        "conversation_readers",
        sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("conversation_id", sa.Uuid, primary_key=True),
        sa.Column("principal_id", sa.Uuid, primary_key=True),
        sa.Index("ix_conversation_readers_principal", "organization_id", "principal_id", "conversation_id"),
    )
    protect("conversation_readers")
