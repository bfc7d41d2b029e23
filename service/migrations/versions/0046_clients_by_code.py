"""A code or refresh token tells the organization of a client that a document describes."""

from service.migrations.row_security import show_before_authentication

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None
usable_from = "0038"


def upgrade() -> None:
    """Show both to who has no organization yet, as access tokens are: they are found by their hash."""
    show_before_authentication("oauth_codes")
    show_before_authentication("oauth_refresh_tokens")
