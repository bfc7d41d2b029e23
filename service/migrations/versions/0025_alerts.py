"""Alerts: rules, what is wrong or was, deliveries, and reports that are waited for."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

PROTECTED = ("alert_rules", "alerts", "alert_deliveries", "alert_leases")


def upgrade() -> None:
    """Add what is new."""
    _create_rules()
    _create_alerts()
    _create_deliveries()
    _create_leases()
    for table in PROTECTED:
        protect(table)


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _create_rules() -> None:
    op.create_table(
        "alert_rules",
        sa.Column("alert_rule_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("kinds", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("webhook_url", sa.Text()),
        sa.Column("sealed_secret", sa.LargeBinary()),
        sa.Column("recipient_ids", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        _time("created_at"),
    )
    op.create_index("ix_alert_rules_organization", "alert_rules", ["organization_id", "alert_rule_id"])


def _create_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Uuid(), primary_key=True),
        _organization(),
        *_texts("kind", "subject", "name", "code", "state"),
        sa.Column("quarantined_count", sa.Integer()),
        _time("began_at"),
        _time("told_at"),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
    )
    op.create_index(
        "uq_alerts_open",
        "alerts",
        ["organization_id", "kind", "subject"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_alerts_organization", "alerts", ["organization_id", "alert_id"])


def _create_deliveries() -> None:
    rule = sa.ForeignKey("alert_rules.alert_rule_id", ondelete="CASCADE")
    op.create_table(
        "alert_deliveries",
        sa.Column("delivery_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("alert_rule_id", sa.Uuid(), rule, nullable=False),
        sa.Column("alert_id", sa.Uuid(), sa.ForeignKey("alerts.alert_id", ondelete="CASCADE")),
        sa.Column("recipient_id", sa.Uuid(), sa.ForeignKey("principals.principal_id")),
        sa.Column("message", JSONB(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, server_default=sa.text("'PENDING'")),
        sa.Column("attempt_count", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("attempts", JSONB(), nullable=False, server_default=sa.text("'[]'")),
        _time("created_at"),
        sa.Column("due_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_alert_deliveries_organization", "alert_deliveries", ["organization_id", "delivery_id"])
    op.create_index("ix_alert_deliveries_rule", "alert_deliveries", ["alert_rule_id", "delivery_id"])
    op.create_index("ix_alert_deliveries_alert", "alert_deliveries", ["alert_id"])
    op.create_index("ix_alert_deliveries_recipient", "alert_deliveries", ["recipient_id"])


def _create_leases() -> None:
    principal = sa.ForeignKey("principals.principal_id")
    op.create_table(
        "alert_leases",
        sa.Column("principal_id", sa.Uuid(), principal, primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("subject", sa.Text(), primary_key=True),
        _organization(),
        *_texts("name"),
        sa.Column("run_id", sa.Uuid()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        _time("reported_at"),
    )
    op.create_index("ix_alert_leases_expiry", "alert_leases", ["organization_id", "expires_at"])
