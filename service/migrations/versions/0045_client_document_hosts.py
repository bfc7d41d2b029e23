"""Hosts whose documents describe clients that an organization's people may allow."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the column; before, there were none."""
    none = sa.text("ARRAY[]::text[]")
    column = sa.Column("client_document_hosts", sa.ARRAY(sa.Text()), server_default=none, nullable=False)
    op.add_column("organizations", column)
