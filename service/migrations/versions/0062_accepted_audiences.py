"""A sign-in provider has further audiences that its tokens may name."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0062", "0061", None


def upgrade() -> None:
    """Add the column, empty for each provider."""
    op.add_column(
        "sign_in_providers",
        sa.Column("accepted_audiences", sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("ARRAY[]::text[]")),
    )
