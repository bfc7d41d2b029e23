"""An index of documents by their last change, for lists."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0081", "0080", None


def upgrade() -> None:
    columns = ["organization_id", "updated_at", "document_id"]
    add_index("ix_documents_updated", "documents", columns, postgresql_where=sa.text("deleted_at IS NULL"))
