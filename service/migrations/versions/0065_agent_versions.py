"""Settings of agents keep their versions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0065", "0064", None


def upgrade() -> None:
    """Add the table; an agent's first change adds the settings that it had before, too."""
    op.create_table(
        "agent_versions",
        sa.Column("agent_id", sa.Uuid(), sa.ForeignKey("agents.agent_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("version_no", sa.Integer(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("settings", JSONB(), nullable=False),
        sa.Column("saved_by", sa.Uuid()),
        sa.Column("saved_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_agent_versions_saved_by", "agent_versions", ["saved_by"])
    protect("agent_versions")
