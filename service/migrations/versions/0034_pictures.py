"""Pictures within documents, read by machine where that is asked, beside the scanned pages."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, which rewrites no table. A picture has a page below zero, so the key stays as it is."""
    op.add_column(
        "document_versions", sa.Column("reads_pictures", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("scanned_pages", sa.Column("picture_page", sa.Integer()))
    op.add_column("scanned_pages", sa.Column("address", sa.Text()))
    op.add_column("scanned_pages", sa.Column("sheet", sa.Text()))
    op.add_column("scanned_pages", sa.Column("after", sa.Integer()))
