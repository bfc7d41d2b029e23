"""Organizations say whether the language model reads queries."""

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None
# It only adds.
usable_from = None


def upgrade() -> None:
    """Leave queries to the rules where nobody has switched the model on."""
    op.add_column(
        "organizations", sa.Column("enable_query_model", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    )
