"""Whether a passkey may be synced to other devices, as its authenticator says when it is made or used."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

usable_from = None


def upgrade() -> None:
    """Add the column; of passkeys of before nothing is known until they are used."""
    op.add_column("passkeys", sa.Column("synced", sa.Boolean))
