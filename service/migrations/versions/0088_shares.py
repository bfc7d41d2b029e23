"""An owner gives others access to a resource."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0088", "0087", None


def upgrade() -> None:
    """Add the column; no owner has shared anything."""
    op.add_column("resources", sa.Column("shares", JSONB()))
