"""Domains of sign-in providers: kept once, claimed by any organization, and confirmed for one of them."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Confirm the domains of before, each of which was one organization's; the column of all of them goes."""
    op.add_column("sign_in_domains", sa.Column("confirmed_at", sa.DateTime(timezone=True)))
    op.execute("UPDATE sign_in_domains SET confirmed_at = now()")
    op.drop_constraint("pk_sign_in_domains", "sign_in_domains", type_="primary")
    op.create_primary_key("pk_sign_in_domains", "sign_in_domains", ["organization_id", "domain"])
    confirmed = sa.text("confirmed_at IS NOT NULL")
    op.create_index(
        "uq_sign_in_domains_confirmed", "sign_in_domains", ["domain"], unique=True, postgresql_where=confirmed
    )
    op.drop_column("sign_in_providers", "domains")
