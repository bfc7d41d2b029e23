"""When somebody has last proven who they are, in a session and to an application."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what began before counts as not confirmed."""
    for table in ("browser_sessions", "oauth_codes", "oauth_token_families"):
        op.add_column(table, sa.Column("confirmed_at", sa.DateTime(timezone=True)))
