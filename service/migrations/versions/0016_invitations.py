"""Invitations, by which people set a password; and an index that finds a person's last sign-in."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new."""
    op.create_table(
        "invitations",
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    protect("invitations")
    show_before_authentication("invitations")
    op.create_index(
        "ix_audit_entries_sign_ins",
        "audit_entries",
        ["organization_id", "actor_id", "at"],
        postgresql_where=sa.text("action = 'session.begin'"),
    )
