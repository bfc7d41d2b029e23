"""Searches that people saved; the searches of one person; and whether anything has the words of a search."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, the column and the indexes; of earlier searches it is not known, and the column stays NULL."""
    op.add_column("searches", sa.Column("has_words", sa.Boolean()))
    op.create_index(
        "ix_searches_without_words",
        "searches",
        ["organization_id", "at", "search_id"],
        postgresql_where=sa.text("NOT has_words"),
    )
    op.create_index("ix_searches_principal", "searches", ["organization_id", "principal_id", "at", "search_id"])
    principal_id = sa.ForeignKey("principals.principal_id", ondelete="CASCADE")
    op.create_table(
        "saved_searches",
        sa.Column("principal_id", sa.Uuid(), principal_id, primary_key=True),
        sa.Column("saved_search_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("search_query", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid()),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("metadata_filters", JSONB(), nullable=False),
        sa.Column("saved_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    protect("saved_searches")
