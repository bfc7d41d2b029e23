"""Second factors of people who sign in with a password, recovery codes, and who must have one."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect, show_before_authentication

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nobody has to have a second factor."""
    op.add_column(
        "organizations", sa.Column("second_factor", sa.Text(), nullable=False, server_default=sa.text("'NOBODY'"))
    )
    _create_second_factors()
    op.create_table(
        "recovery_codes",
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), primary_key=True),
        sa.Column("code_hash", sa.LargeBinary(), primary_key=True),
        _organization(),
    )
    _create_pending_sign_ins()
    for table in ("second_factors", "recovery_codes", "pending_sign_ins"):
        protect(table)
    show_before_authentication("pending_sign_ins")


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _principal() -> sa.Column[Any]:
    return sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False)


def _create_second_factors() -> None:
    op.create_table(
        "second_factors",
        sa.Column("factor_id", sa.Uuid(), primary_key=True),
        _organization(),
        _principal(),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary()),
        sa.Column("last_step", sa.BigInteger()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_second_factors_principal", "second_factors", ["organization_id", "principal_id"])
    op.create_index(
        "uq_second_factors_totp",
        "second_factors",
        ["principal_id"],
        unique=True,
        postgresql_where=sa.text("kind = 'totp'"),
    )


def _create_pending_sign_ins() -> None:
    op.create_table(
        "pending_sign_ins",
        sa.Column("secret_hash", sa.LargeBinary(), primary_key=True),
        _organization(),
        _principal(),
        sa.Column("password_mark", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_pending_sign_ins_expires", "pending_sign_ins", ["organization_id", "expires_at"])
    op.create_index("ix_pending_sign_ins_principal", "pending_sign_ins", ["principal_id"])
