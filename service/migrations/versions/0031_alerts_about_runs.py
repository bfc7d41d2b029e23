"""Alerts: what run one is about, and how much each rule has sent in the hour; and pages whose text is not merged."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. What was reported before counts as begun."""
    op.add_column("alert_rules", sa.Column("hour_began_at", sa.DateTime(timezone=True)))
    for name in ("sent_count", "left_out_count"):
        op.add_column("alert_rules", sa.Column(name, sa.Integer(), nullable=False, server_default=sa.text("0")))
    for table in ("alerts", "alert_leases"):
        op.add_column(table, sa.Column("flow", sa.Text()))
        op.add_column(table, sa.Column("flow_run_id", sa.Uuid()))
    op.add_column("alerts", sa.Column("document_count", sa.Integer()))
    begun = sa.Column("has_begun", sa.Boolean(), nullable=False, server_default=sa.text("true"))
    op.add_column("alert_leases", begun)
    op.create_index(
        "ix_scanned_pages_unfinished",
        "scanned_pages",
        ["organization_id", "document_id"],
        postgresql_where=sa.text("state = 'WAITING' OR blocks IS NOT NULL"),
    )
    op.drop_index("ix_scanned_pages_waiting", "scanned_pages")
