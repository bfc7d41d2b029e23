"""Alerts are acknowledged and snoozed."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0063", "0062", None


def upgrade() -> None:
    """Add the columns, empty for what is there."""
    for name, kind in (("acknowledged_at", sa.DateTime(timezone=True)), ("acknowledged_by", sa.Uuid())):
        op.add_column("alerts", sa.Column(name, kind))
    op.add_column("alerts", sa.Column("snoozed_until", sa.DateTime(timezone=True)))
