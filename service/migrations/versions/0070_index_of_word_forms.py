"""An index by which a search asks whether any document of a space is indexed by earlier forms of words."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0070", "0069", None


def upgrade() -> None:
    entries = sa.text("chunk_count > 0")
    add_index("ix_space_documents_forms", "space_documents", ["space_id", "forms"], postgresql_where=entries)
