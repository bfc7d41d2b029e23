"""Conversations keep the client or key that began them."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0059", "0058", None


def upgrade() -> None:
    """Add the column, empty for conversations from before."""
    op.add_column("conversations", sa.Column("origin", sa.Uuid()))
