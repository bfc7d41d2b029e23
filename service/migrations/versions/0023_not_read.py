"""What reading left out of the file of each version."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which takes a moment however many rows there are; those of before have NULL there: unknown."""
    op.add_column("document_versions", sa.Column("not_read", JSONB()))
