"""What a run over an evaluation set measured on a reply."""

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the columns; results of before have none of these."""
    op.add_column("evaluation_results", sa.Column("statements_said", sa.Double()))
    op.add_column("evaluation_results", sa.Column("refused", sa.Boolean()))
    op.add_column("evaluation_results", sa.Column("groundedness", sa.Double()))
