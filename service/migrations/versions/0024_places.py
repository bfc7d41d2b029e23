"""Where chunks, and the passages of replies, stand in their documents."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

DIMENSIONS = (384, 768, 1024, 1536)


def upgrade() -> None:
    """Add the columns, which takes a moment however many rows there are; those of before have NULL there: unknown."""
    for table in (*(f"chunks_{dimensions}" for dimensions in DIMENSIONS), "turn_passages"):
        op.add_column(table, sa.Column("place", JSONB()))
