"""OAuth clients, consents, codes and tokens; signing in with a browser."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

PROTECTED = (
    "browser_sessions",
    "oauth_access_tokens",
    "oauth_clients",
    "oauth_codes",
    "oauth_consents",
    "oauth_refresh_tokens",
    "oauth_token_families",
    "sign_in_attempts",
    "upstream_identities",
)


def upgrade() -> None:
    """Add what is new."""
    _create_clients()
    _create_families()
    _create_codes()
    _create_tokens()
    _create_sign_in()
    for table in PROTECTED:
        protect(table)
    show_before_authentication("browser_sessions")
    show_before_authentication("oauth_access_tokens")
    show_before_authentication("oauth_clients")


def _organization(**options: Any) -> sa.Column[Any]:
    return sa.Column(
        "organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False, **options
    )


def _principal(name: str = "principal_id", **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False, **options)


def _client(**options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey("oauth_clients.client_id", ondelete="CASCADE")
    return sa.Column("client_id", sa.Uuid(), key, nullable=False, **options)


def _family(*, nullable: bool = False) -> sa.Column[Any]:
    key = sa.ForeignKey("oauth_token_families.family_id", ondelete="CASCADE")
    return sa.Column("family_id", sa.Uuid(), key, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _secret() -> sa.Column[Any]:
    return sa.Column("secret_hash", sa.LargeBinary(), nullable=False, unique=True)


def _create_clients() -> None:
    op.create_table(
        "oauth_clients",
        sa.Column("client_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("redirect_uris", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        _principal("requested_by"),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint("status IN ('pending', 'approved')", name=op.f("ck_oauth_clients_status")),
    )
    op.create_index("ix_oauth_clients_organization", "oauth_clients", ["organization_id", "client_id"])
    op.create_table(
        "oauth_consents",
        _principal(primary_key=True),
        _client(primary_key=True),
        _organization(),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        _time("granted_at"),
    )
    op.create_index("ix_oauth_consents_client", "oauth_consents", ["client_id"])


def _create_families() -> None:
    op.create_table(
        "oauth_token_families",
        sa.Column("family_id", sa.Uuid(), primary_key=True),
        _organization(),
        _client(),
        _principal(),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        _time("created_at"),
        _time("revoked_at", nullable=True),
    )
    op.create_index(
        "ix_oauth_token_families_principal", "oauth_token_families", ["organization_id", "principal_id", "client_id"]
    )
    op.create_index("ix_oauth_token_families_client", "oauth_token_families", ["client_id"])


def _create_codes() -> None:
    op.create_table(
        "oauth_codes",
        sa.Column("code_id", sa.Uuid(), primary_key=True),
        _organization(),
        _client(),
        _principal(),
        _secret(),
        sa.Column("redirect_uri", sa.Text(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("code_challenge", sa.Text(), nullable=False),
        _time("expires_at"),
        _time("used_at", nullable=True),
        _family(nullable=True),
    )
    op.create_index("ix_oauth_codes_client", "oauth_codes", ["client_id"])
    op.create_index("ix_oauth_codes_principal", "oauth_codes", ["organization_id", "principal_id", "client_id"])
    op.create_index("ix_oauth_codes_family", "oauth_codes", ["family_id"])
    op.create_index("ix_oauth_codes_expires", "oauth_codes", ["organization_id", "expires_at"])


def _create_tokens() -> None:
    op.create_table(
        "oauth_refresh_tokens",
        sa.Column("token_id", sa.Uuid(), primary_key=True),
        _organization(),
        _family(),
        _secret(),
        _time("expires_at"),
        _time("used_at", nullable=True),
    )
    op.create_index("ix_oauth_refresh_tokens_family", "oauth_refresh_tokens", ["family_id"])
    op.create_index("ix_oauth_refresh_tokens_expires", "oauth_refresh_tokens", ["organization_id", "expires_at"])
    op.create_table(
        "oauth_access_tokens",
        sa.Column("token_id", sa.Uuid(), primary_key=True),
        _organization(),
        _family(),
        _client(),
        _principal(),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        _secret(),
        _time("expires_at"),
        _time("revoked_at", nullable=True),
    )
    op.create_index("ix_oauth_access_tokens_family", "oauth_access_tokens", ["family_id"])
    op.create_index("ix_oauth_access_tokens_client", "oauth_access_tokens", ["client_id"])
    op.create_index("ix_oauth_access_tokens_expires", "oauth_access_tokens", ["organization_id", "expires_at"])


def _create_sign_in() -> None:
    op.create_table(
        "browser_sessions",
        sa.Column("session_id", sa.Uuid(), primary_key=True),
        _organization(),
        _principal(),
        _secret(),
        sa.Column("password_mark", sa.LargeBinary()),
        _time("created_at"),
        _time("expires_at"),
    )
    op.create_index("ix_browser_sessions_expires", "browser_sessions", ["organization_id", "expires_at"])
    op.create_table(
        "sign_in_attempts",
        _organization(primary_key=True),
        sa.Column("subject", sa.LargeBinary(), primary_key=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        _time("blocked_until"),
        _time("forgotten_at"),
    )
    op.create_table(
        "upstream_identities",
        _organization(primary_key=True),
        sa.Column("issuer", sa.Text(), primary_key=True),
        sa.Column("subject", sa.Text(), primary_key=True),
        _principal(),
        _time("bound_at"),
    )
    op.create_index(
        "uq_upstream_identities_principal",
        "upstream_identities",
        ["organization_id", "issuer", "principal_id"],
        unique=True,
    )
