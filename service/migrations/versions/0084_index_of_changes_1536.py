"""An index by which a search reads the code pages of 1536 dimensions that were written after a snapshot."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0084", "0083", None


def upgrade() -> None:
    noted = sa.text("changed_in IS NOT NULL")
    add_index("ix_code_pages_1536_changed", "code_pages_1536", ["space_id", "changed_in"], postgresql_where=noted)
