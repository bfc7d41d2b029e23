"""A collection keeps former names."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0083", "0082", None


def upgrade() -> None:
    """Add the column; existing collections have no former names."""
    names = sa.Column("former_names", sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'"))
    op.add_column("collections", names)
