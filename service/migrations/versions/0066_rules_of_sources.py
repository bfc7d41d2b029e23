"""Alert rules are about named sources, syncs or schedules."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0066", "0065", None


def upgrade() -> None:
    """Add the column; a rule from before is about all."""
    names = sa.Column("names", sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("ARRAY[]::text[]"))
    op.add_column("alert_rules", names)
