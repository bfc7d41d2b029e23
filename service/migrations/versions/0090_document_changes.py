"""Changes of all documents that match filters."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0090", "0089", None


def upgrade() -> None:
    op.create_table(
        "document_changes",
        sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("document_change_id", sa.Uuid, primary_key=True),
        sa.Column("principal_id", sa.Uuid, nullable=False),
        sa.Column("origin", JSONB, nullable=False),
        sa.Column("request", JSONB, nullable=False),
        sa.Column("position", sa.Uuid),
        sa.Column("state", JSONB, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Index("ix_document_changes_started", "organization_id", "started_at"),
    )
    protect("document_changes")
