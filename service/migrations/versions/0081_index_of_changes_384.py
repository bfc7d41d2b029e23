"""An index by which a search reads the code pages of 384 dimensions that were written after a snapshot."""

import sqlalchemy as sa

from service.migrations.online import add_index

revision, down_revision, usable_from = "0081", "0080", None


def upgrade() -> None:
    noted = sa.text("changed_in IS NOT NULL")
    add_index("ix_code_pages_384_changed", "code_pages_384", ["space_id", "changed_in"], postgresql_where=noted)
