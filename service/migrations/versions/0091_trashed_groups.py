"""The trash of groups: deleted groups that admins can restore."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0091", "0090", None


def upgrade() -> None:
    op.create_table(
        "trashed_groups",
        sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("group_id", sa.Uuid, primary_key=True),
        sa.Column("kept", JSONB, nullable=False),
        sa.Column("deleted_by", sa.Uuid),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Index("ix_trashed_groups_organization", "organization_id", "group_id"),
    )
    protect("trashed_groups")
