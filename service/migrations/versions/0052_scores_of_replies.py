"""Means of what a run over an evaluation set measured on replies, and which agent it asked."""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the columns; runs of before have none of these."""
    for name in ("statements_said", "refused", "groundedness"):
        op.add_column("evaluation_runs", sa.Column(name, sa.Double()))
    op.add_column("evaluation_runs", sa.Column("agent_id", sa.Uuid()))
