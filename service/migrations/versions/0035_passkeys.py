"""Passkeys, and the challenges that were answered with one."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nobody has a passkey."""
    factor = sa.ForeignKey("second_factors.factor_id", ondelete="CASCADE")
    op.create_table(
        "passkeys",
        sa.Column("factor_id", sa.Uuid(), factor, primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("credential_id", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("user_handle", sa.LargeBinary(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
    )
    op.create_index("ix_passkeys_principal", "passkeys", ["organization_id", "principal_id"])
    op.create_table(
        "answered_challenges",
        sa.Column("challenge_hash", sa.LargeBinary(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_answered_challenges_expires", "answered_challenges", ["organization_id", "expires_at"])
    protect("passkeys")
    protect("answered_challenges")
    show_before_authentication("passkeys")
