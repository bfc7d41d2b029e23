"""A sync keeps its last runs, what its run did with each document, and which removals are held or approved."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0064", "0063", None


def upgrade() -> None:
    """Add the columns, empty for what is there."""
    op.add_column("docstore_syncs", sa.Column("runs", JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")))
    for column in (
        sa.Column("run_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.Text()),
        sa.Column("removal", sa.Text()),
    ):
        op.add_column("docstore_documents", column)
