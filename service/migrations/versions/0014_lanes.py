"""Lanes of small and of large texts that wait to be indexed, so that the first of each is found in an index."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = ("space_documents", "document_contents", "caller_chunks")


def upgrade() -> None:
    """Add the lane, which takes a moment however many rows there are, fill it for what waits, and find that by it."""
    op.add_column(
        "space_documents", sa.Column("is_large", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    _fill()
    op.drop_index("ix_space_documents_pending")
    op.create_index(
        "ix_space_documents_pending",
        "space_documents",
        ["organization_id", "is_large", "claimed_until"],
        postgresql_where=sa.text("indexed_version IS DISTINCT FROM version"),
    )


def _fill() -> None:
    # Row-level security holds back an owner who is no superuser, unless it is told otherwise.
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(
        """
        UPDATE space_documents SET is_large = true FROM document_contents
        WHERE indexed_version IS DISTINCT FROM space_documents.version AND NOT caller_chunks
          AND document_contents.document_id = space_documents.document_id AND octet_length(blocks) >= 16384
        """
    )
    op.execute(
        """
        UPDATE space_documents SET is_large = true FROM caller_chunks
        WHERE indexed_version IS DISTINCT FROM version AND space_documents.caller_chunks
          AND caller_chunks.document_id = space_documents.document_id
          AND caller_chunks.space_id = space_documents.space_id AND octet_length(chunks) >= 16384
        """
    )
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
