"""Results of runs over evaluation sets say why a question could not be measured."""

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None
# It only adds.
usable_from = None


def upgrade() -> None:
    """Add the column; before, a question that failed was not kept."""
    op.add_column("evaluation_results", sa.Column("error", sa.Text()))
