"""An index of documents by the folders that their external ids begin with, for lists."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0082", "0081", None


def upgrade() -> None:
    columns = ["organization_id", sa.text('"left"(lower(external_id), 400) COLLATE "C"')]
    add_index("ix_documents_path", "documents", columns, postgresql_where=sa.text("deleted_at IS NULL"))
