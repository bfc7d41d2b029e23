"""The language by which the words of a document are stemmed where it is indexed."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which takes a moment however many rows there are; what is indexed has NULL there: English."""
    op.add_column("space_documents", sa.Column("language", sa.Text()))
