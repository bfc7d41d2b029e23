"""Organizations say whether searches and agents are reranked that don't say it themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None
# It only adds.
usable_from = None


def upgrade() -> None:
    """Leave reranking off where nobody has switched it on."""
    op.add_column(
        "organizations", sa.Column("enable_reranking", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    )
