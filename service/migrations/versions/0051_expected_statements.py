"""What the reply to a question of an evaluation set must say, and whether nothing answers it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the columns; before, a question had judged documents alone."""
    none, answered = sa.text("'[]'"), sa.text("false")
    op.add_column("evaluation_cases", sa.Column("statements", JSONB(), server_default=none, nullable=False))
    op.add_column(
        "evaluation_cases", sa.Column("nothing_answers", sa.Boolean(), server_default=answered, nullable=False)
    )
