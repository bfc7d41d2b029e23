"""The scanned pages of documents: those that wait for text recognition, and what it came to."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; documents of before have no rows there: their pages stay unread until they are uploaded again."""
    op.create_table(
        "scanned_pages",
        sa.Column("document_id", sa.Uuid(), sa.ForeignKey("documents.document_id"), primary_key=True),
        sa.Column("page", sa.Integer(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("file_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("blocks", sa.LargeBinary()),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint("state IN ('WAITING', 'READ', 'FAILED')", name="state"),
    )
    op.create_index(
        "ix_scanned_pages_waiting",
        "scanned_pages",
        ["organization_id"],
        postgresql_where=sa.text("state = 'WAITING'"),
    )
    protect("scanned_pages")
