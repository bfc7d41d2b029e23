"""The documents that each search found, so that feedback can name only these."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of earlier searches it is not known what they found, and it stays NULL."""
    op.add_column("searches", sa.Column("document_ids", sa.ARRAY(sa.Uuid())))
