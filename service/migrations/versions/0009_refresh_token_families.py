"""Whether a family of refresh tokens still lives, found by the family."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLE = "oauth_refresh_tokens"


def upgrade() -> None:
    """Ask for the youngest of a family, and no longer for what has expired whoever's it is."""
    op.drop_index("ix_oauth_refresh_tokens_expires", TABLE)
    op.drop_index("ix_oauth_refresh_tokens_family", TABLE)
    op.create_index("ix_oauth_refresh_tokens_family", TABLE, ["family_id", "expires_at"])
