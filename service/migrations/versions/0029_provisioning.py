"""Provisioning (SCIM): its tokens, people whom an identity provider has deleted, and external ids of each kind."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new. A person and a group may have the same external id from now on, two people never."""
    op.create_table(
        "scim_tokens",
        sa.Column("token_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_scim_tokens_organization", "scim_tokens", ["organization_id", "token_id"])
    protect("scim_tokens")
    show_before_authentication("scim_tokens")
    op.add_column("principals", sa.Column("released_at", sa.DateTime(timezone=True)))
    op.create_index(
        "uq_principals_kind_external_id", "principals", ["organization_id", "kind", "external_id"], unique=True
    )
    op.drop_index("uq_principals_external_id", "principals")
