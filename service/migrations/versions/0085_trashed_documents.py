"""The trash: deleted documents that can be restored."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0085", "0084", None


def upgrade() -> None:
    op.create_table(
        "trashed_documents",
        sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("trashed_document_id", sa.Uuid, primary_key=True),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("resource_type", sa.Text, nullable=False),
        sa.Column("resource_id", sa.Text, nullable=False),
        sa.Column("readers", JSONB, nullable=False),
        sa.Column("collections", JSONB, nullable=False),
        sa.Column("deleted_by", sa.Uuid, nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Index("ix_trashed_documents_deleted", "organization_id", "deleted_at", "trashed_document_id"),
    )
    protect("trashed_documents")
