"""A person can give a conversation a title."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0084", "0083", None


def upgrade() -> None:
    """Add the column; without a title, a conversation shows the first message."""
    op.add_column("conversations", sa.Column("title", sa.Text()))
