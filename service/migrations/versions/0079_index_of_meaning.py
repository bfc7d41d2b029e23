"""An index of documents with indexed words and without vectors, for claims."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0079", "0078", None


def upgrade() -> None:
    lacking = "words_version = version AND indexed_version IS DISTINCT FROM version"
    columns = ["organization_id", "is_large", "claimed_until"]
    add_index("ix_space_documents_meaning", "space_documents", columns, postgresql_where=sa.text(lacking))
