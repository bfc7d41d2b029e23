"""Messages to agents by somebody whose consent is narrowed to collections."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the column; messages of before are not narrowed."""
    op.add_column("turns", sa.Column("collection_ids", sa.ARRAY(sa.Uuid())))
