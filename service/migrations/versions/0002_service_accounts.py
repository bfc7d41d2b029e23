"""Service accounts that can be deleted, and their tokens."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new."""
    op.add_column("principals", sa.Column("deleted_at", sa.DateTime(timezone=True)))
    op.create_check_constraint(op.f("ck_principals_admin_is_user"), "principals", "kind = 'user' OR NOT is_admin")
    op.create_check_constraint(
        op.f("ck_principals_deleted"), "principals", "deleted_at IS NULL OR (kind = 'serviceAccount' AND NOT active)"
    )
    op.create_table(
        "service_account_tokens",
        sa.Column("token_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("service_account_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
    )
    op.create_index(
        "ix_service_account_tokens_account",
        "service_account_tokens",
        ["organization_id", "service_account_id", "token_id"],
    )
    op.create_index("ix_service_account_tokens_organization", "service_account_tokens", ["organization_id", "token_id"])
    protect("service_account_tokens")
    show_before_authentication("service_account_tokens")
