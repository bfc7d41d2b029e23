"""A sync keeps its last runs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0064", "0063", None


def upgrade() -> None:
    """Add the column, empty for what is there."""
    op.add_column("docstore_syncs", sa.Column("runs", JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")))
