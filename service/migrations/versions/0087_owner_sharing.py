"""Organizations say whether owners may share."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0087", "0085", None


def upgrade() -> None:
    """Add the setting; in organizations that exist, owners can't share, as before."""
    enabled = sa.Column("owner_sharing_enabled", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    op.add_column("organizations", enabled)
