"""A search keeps the thumb of each result."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0067", "0066", None


def upgrade() -> None:
    """Add the column; for searches from before, `feedback` is the only thumb."""
    op.add_column("searches", sa.Column("thumbs", JSONB(), nullable=False, server_default=sa.text("'{}'")))
