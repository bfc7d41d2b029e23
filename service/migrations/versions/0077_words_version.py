"""A document in a space has a version whose words are indexed, beside the version that is indexed as a whole."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0077", "0076", None


def upgrade() -> None:
    """Add the column. It is empty for what is there, and where an earlier release writes words and vectors at once."""
    op.add_column("space_documents", sa.Column("words_version", sa.Integer()))
