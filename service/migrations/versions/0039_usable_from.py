"""From which schema on the code of a release can use the database: kept with the schema that it has."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

usable_from = "0038"


def upgrade() -> None:
    """Add the column."""
    op.add_column("alembic_version", sa.Column("usable_from", sa.Text()))
