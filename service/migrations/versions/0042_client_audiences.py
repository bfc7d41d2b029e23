"""What the tokens of an OAuth client are for, and clients that a document describes."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the columns; clients of before are for v1."""
    op.add_column("oauth_clients", sa.Column("audience", sa.Text(), server_default=sa.text("'api'"), nullable=False))
    op.add_column("oauth_clients", sa.Column("is_public", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("oauth_clients", sa.Column("document_url", sa.Text()))
    op.add_column("oauth_clients", sa.Column("document_fresh_until", sa.DateTime(timezone=True)))
