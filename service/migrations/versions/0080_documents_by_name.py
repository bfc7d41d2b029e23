"""An index of documents by lower-case name, for lists."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0080", "0079", "0079"


def upgrade() -> None:
    columns = ["organization_id", sa.text('"left"(lower(name), 200)'), "document_id"]
    add_index("ix_documents_name", "documents", columns, postgresql_where=sa.text("deleted_at IS NULL"))
