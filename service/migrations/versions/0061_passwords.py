"""An organization can switch passwords off."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0061", "0060", None


def upgrade() -> None:
    """Add the setting: passwords stay on."""
    op.add_column(
        "organizations", sa.Column("passwords_enabled", sa.Boolean(), nullable=False, server_default=sa.text("true"))
    )
