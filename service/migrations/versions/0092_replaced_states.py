"""What changes of many documents replaced, to undo such a change within 24 hours."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0092", "0091", None


def upgrade() -> None:
    op.create_table(
        "replaced_states",
        sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("document_change_id", sa.Uuid, primary_key=True),
        sa.Column("document_id", sa.Uuid, primary_key=True),
        sa.Column("before", JSONB),
        sa.Column("after", JSONB),
    )
    protect("replaced_states")
