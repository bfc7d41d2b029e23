"""Address, device and names on audit entries; failed sign-ins; where and when sessions were last used."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

ORIGIN = ("address", "device")


def upgrade() -> None:
    """Add what is new; rows of before have NULL there, and nothing is rewritten."""
    _add_texts("audit_entries", "actor_name", "acting_for_name", "target_name", *ORIGIN)
    _add_texts("turns", *ORIGIN)
    _add_texts("oauth_codes", *ORIGIN)
    for table in ("browser_sessions", "oauth_token_families"):
        _add_texts(table, *ORIGIN)
        op.add_column(table, _moment("last_used_at"))
    op.add_column("oauth_access_tokens", _moment("last_used_at"))
    op.create_index("ix_browser_sessions_principal", "browser_sessions", ["organization_id", "principal_id"])
    _create_failed_sign_ins()
    protect("failed_sign_ins")


def _add_texts(table: str, *names: str) -> None:
    for name in names:
        op.add_column(table, sa.Column(name, sa.Text()))


def _moment(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _create_failed_sign_ins() -> None:
    op.create_table(
        "failed_sign_ins",
        sa.Column("audit_log_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        _moment("began_at", nullable=False),
        _moment("last_at", nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
    )
    columns = ["organization_id", "principal_id", "began_at", "network"]
    op.create_index("uq_failed_sign_ins_began", "failed_sign_ins", columns, unique=True)
