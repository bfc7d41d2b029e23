"""Runs over evaluation sets say how many questions failed and were planned, and how the agent was set."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None
# It only adds.
usable_from = None


def upgrade() -> None:
    """Add the columns; runs of before had no failed question, were kept at their end, and don't tell settings."""
    op.add_column("evaluation_runs", sa.Column("failed_count", sa.Integer(), server_default="0", nullable=False))
    op.add_column("evaluation_runs", sa.Column("planned_count", sa.Integer()))
    op.add_column("evaluation_runs", sa.Column("settings", JSONB()))
