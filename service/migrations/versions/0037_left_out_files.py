"""The files in archives and mails that became no documents of their own, each with its reason."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; of what was loaded before, only the number of such files is known, until it is loaded again."""
    op.create_table(
        "left_out_files",
        sa.Column("document_id", sa.Uuid(), sa.ForeignKey("documents.document_id"), primary_key=True),
        sa.Column("file_no", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("path", sa.Text()),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
    )
    protect("left_out_files")
