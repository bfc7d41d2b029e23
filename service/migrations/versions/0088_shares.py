"""Resources note the roles that their owner gave."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0088", "0087", None


def upgrade() -> None:
    """Add the column, empty: no owner has shared anything yet."""
    op.add_column("resources", sa.Column("shares", JSONB()))
