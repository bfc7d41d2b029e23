"""The search log keeps the client or key of each search."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0060", "0059", None


def upgrade() -> None:
    """Add the column, empty for searches from before."""
    op.add_column("searches", sa.Column("origin", sa.Uuid()))
