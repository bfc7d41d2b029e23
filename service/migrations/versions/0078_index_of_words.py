"""An index of documents without indexed words, for claims."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0078", "0077", None


def upgrade() -> None:
    lacking = "words_version IS DISTINCT FROM version AND indexed_version IS DISTINCT FROM version"
    columns = ["organization_id", "is_large", "claimed_until"]
    add_index("ix_space_documents_words", "space_documents", columns, postgresql_where=sa.text(lacking))
