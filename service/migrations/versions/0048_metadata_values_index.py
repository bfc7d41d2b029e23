"""The index of documents by the values in their metadata."""

from sqlalchemy import text

from service.migrations.online import add_index

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Build the index. New entries lie in a list of at most 64 KB first, which every look-up reads to its end."""
    add_index(
        "ix_space_documents_values",
        "space_documents",
        [text("metadata_keys(space_id, custom_metadata)")],
        postgresql_using="gin",
        postgresql_with={"gin_pending_list_limit": 64},
    )
