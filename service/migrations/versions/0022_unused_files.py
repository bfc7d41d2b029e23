"""Files that no version refers to any more, the id by which a store knows its deployment, and when it was listed."""

import sqlalchemy as sa
from alembic import op

from service.platform.database import SERVICE_ROLE

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, the columns, and the index that tells whether a content is in use."""
    op.create_table(
        "unused_files",
        sa.Column("sha256", sa.LargeBinary(), primary_key=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.execute(f"GRANT SELECT, INSERT, DELETE ON unused_files TO {SERVICE_ROLE}")
    op.add_column(
        "deployment", sa.Column("store_id", sa.Uuid(), nullable=False, server_default=sa.text("gen_random_uuid()"))
    )
    op.add_column(
        "deployment",
        sa.Column("files_listed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("'-infinity'")),
    )
    op.execute(f"GRANT UPDATE (files_listed_at) ON deployment TO {SERVICE_ROLE}")
    op.create_index("ix_document_versions_file", "document_versions", ["file_sha256", "organization_id"])
