"""An agent has questions to begin with, and may answer the questions that people search for."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0071", "0070", None


def upgrade() -> None:
    """Add the columns; existing agents have no such questions, and answer no searches."""
    op.add_column("agents", sa.Column("starter_questions", sa.ARRAY(sa.Text())))
    answers = sa.Column("answers_searches", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    op.add_column("agents", answers)
