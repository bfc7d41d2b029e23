"""Alerts are acknowledged and snoozed, rules are about named sources, and a search keeps the thumb of each result."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision, down_revision, usable_from = "0063", "0062", None


def upgrade() -> None:
    """Add the columns; for searches from before, `feedback` is the only thumb."""
    for name, kind in (("acknowledged_at", sa.DateTime(timezone=True)), ("acknowledged_by", sa.Uuid())):
        op.add_column("alerts", sa.Column(name, kind))
    op.add_column("alerts", sa.Column("snoozed_until", sa.DateTime(timezone=True)))
    names = sa.Column("names", sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("ARRAY[]::text[]"))
    op.add_column("alert_rules", names)
    op.add_column("searches", sa.Column("thumbs", JSONB(), nullable=False, server_default=sa.text("'{}'")))
