"""Consent that is narrowed to collections."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the column; what was allowed before is not narrowed."""
    op.add_column("oauth_consents", sa.Column("collection_ids", sa.ARRAY(sa.Uuid())))
