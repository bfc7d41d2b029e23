"""Providers that an organization's people sign in with, their domains, and the memberships that they brought."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

PROTECTED = ("sign_in_providers", "sign_in_domains", "provider_memberships")


def upgrade() -> None:
    """Add what is new. Sessions that have begun are of no provider."""
    _create_providers()
    op.create_table(
        "sign_in_domains",
        sa.Column("domain", sa.Text(), primary_key=True),
        _organization(),
        _provider(primary_key=False),
    )
    op.create_index("ix_sign_in_domains_provider", "sign_in_domains", ["provider_id"])
    _create_memberships()
    for table in PROTECTED:
        protect(table)
    show_before_authentication("sign_in_domains")
    op.add_column("browser_sessions", sa.Column("provider_id", sa.Uuid()))
    op.add_column("browser_sessions", sa.Column("provider_session", sa.Text()))
    op.add_column("browser_sessions", sa.Column("sealed_id_token", sa.LargeBinary()))


def _organization(*, primary_key: bool = False) -> sa.Column[Any]:
    reference = sa.ForeignKey("organizations.organization_id")
    return sa.Column("organization_id", sa.Uuid(), reference, primary_key=primary_key, nullable=False)


def _provider(*, primary_key: bool) -> sa.Column[Any]:
    reference = sa.ForeignKey("sign_in_providers.provider_id", ondelete="CASCADE")
    return sa.Column("provider_id", sa.Uuid(), reference, primary_key=primary_key, nullable=False)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.text("false"))


def _create_providers() -> None:
    op.create_table(
        "sign_in_providers",
        sa.Column("provider_id", sa.Uuid(), primary_key=True),
        _organization(),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "issuer", "client_id")),
        sa.Column("sealed_secret", sa.LargeBinary()),
        sa.Column("domains", sa.ARRAY(sa.Text()), nullable=False),
        _flag("trust_addresses"),
        sa.Column("groups_claim", sa.Text(), nullable=False, server_default=sa.text("'NONE'")),
        _flag("create_accounts"),
        _flag("sign_out_there"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("uq_sign_in_providers_issuer", "sign_in_providers", ["organization_id", "issuer"], unique=True)


def _create_memberships() -> None:
    op.create_table(
        "provider_memberships",
        _organization(primary_key=True),
        sa.Column("group_id", sa.Uuid(), primary_key=True),
        sa.Column("member_id", sa.Uuid(), primary_key=True),
        _provider(primary_key=True),
        sa.ForeignKeyConstraint(
            ["organization_id", "group_id", "member_id"],
            ["group_members.organization_id", "group_members.group_id", "group_members.member_id"],
            name="fk_provider_memberships_membership",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_provider_memberships_provider", "provider_memberships", ["provider_id", "member_id"])
