"""Store whether the file, an upload or a rename gave a document its name."""

from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the column; rows of before keep NULL, and their uploads compare the name with the file's."""
    op.execute("ALTER TABLE documents ADD COLUMN named_by TEXT")
