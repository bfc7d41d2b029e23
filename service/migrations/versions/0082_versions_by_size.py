"""An index of document versions by file size, for lists."""

from service.migrations.online import add_index

revision, down_revision, usable_from = "0082", "0081", None


def upgrade() -> None:
    add_index(
        "ix_document_versions_size", "document_versions", ["organization_id", "file_size", "document_id", "version"]
    )
