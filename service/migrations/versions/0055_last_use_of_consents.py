"""When the tokens of a consent were last used, those that are purged by now too."""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Add the column; what was purged before has left nothing to fill it with."""
    op.add_column("oauth_consents", sa.Column("last_used_at", sa.DateTime(timezone=True)))
