"""Agents have options of their own for what they look up."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None
# It only adds.
usable_from = None


def upgrade() -> None:
    """Leave all options as they are for searches that don't say them."""
    op.add_column("agents", sa.Column("retrieval", JSONB(), nullable=False, server_default=sa.text("'{}'")))
