"""Alerts: rules with receivers, open and ended problems, messages in transit, and expected reports."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# A rule sends alerts with one of `names`, or all alerts if `names` is empty, to `webhook_url` or by mail to
# `recipient_ids`. `sealed_secret` is encrypted with the deployment's secret key; NULL if that key was lost, and for
# mail. In the hour since `hour_began_at`, `sent_count` messages were sent, and `left_out_count` exceeded the limit.
alert_rules = table(
    "alert_rules",
    sa.Column("alert_rule_id", sa.Uuid, primary_key=True),
    sa.Column("kinds", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("names", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("ARRAY[]::text[]")),
    sa.Column("webhook_url", sa.Text),
    sa.Column("sealed_secret", sa.LargeBinary),
    sa.Column("recipient_ids", sa.ARRAY(sa.Uuid), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.text("true")),
    sa.Column("hour_began_at", sa.DateTime(timezone=True)),
    sa.Column("sent_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("left_out_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_alert_rules_organization", "organization_id", "alert_rule_id"),
)

# `state` is the last reported state: while it is unchanged, people are reminded once a day at most.
alerts = table(
    "alerts",
    sa.Column("alert_id", sa.Uuid, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("quarantined_count", sa.Integer),
    # For runs: the kind of run, the number of documents in its source, and its id on the Prefect server.
    sa.Column("flow", sa.Text),
    sa.Column("document_count", sa.Integer),
    sa.Column("flow_run_id", sa.Uuid),
    sa.Column("began_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("told_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("ended_at", sa.DateTime(timezone=True)),
    sa.Column("acknowledged_at", sa.DateTime(timezone=True)),
    sa.Column("acknowledged_by", sa.Uuid),
    sa.Column("snoozed_until", sa.DateTime(timezone=True)),
    sa.Index(
        "uq_alerts_open",
        "organization_id",
        "kind",
        "subject",
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    ),
    sa.Index("ix_alerts_organization", "organization_id", "alert_id"),
)

# `message` is the body of each attempt. `due_at` is the time of the next attempt; NULL after the last.
alert_deliveries = table(
    "alert_deliveries",
    sa.Column("delivery_id", sa.Uuid, primary_key=True),
    sa.Column("alert_rule_id", sa.Uuid, deleted_with("alert_rules.alert_rule_id"), nullable=False),
    sa.Column("alert_id", sa.Uuid, deleted_with("alerts.alert_id")),
    sa.Column("recipient_id", sa.Uuid, sa.ForeignKey("principals.principal_id")),
    sa.Column("message", JSONB, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'PENDING'")),
    sa.Column("attempt_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("attempts", JSONB, nullable=False, server_default=sa.text("'[]'")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("due_at", sa.DateTime(timezone=True)),
    sa.Index("ix_alert_deliveries_organization", "organization_id", "delivery_id"),
    sa.Index("ix_alert_deliveries_rule", "alert_rule_id", "delivery_id"),
    sa.Index("ix_alert_deliveries_alert", "alert_id"),
    sa.Index("ix_alert_deliveries_recipient", "recipient_id"),
)

# Reports to repeat: of a run that continues (RUN_FAILED), of a schedule that is served (SCHEDULE_MISSED). If a report
# is late, `expires_at` passes, and an alert begins; NULL after the run's end. The release before needs `has_begun`.
alert_leases = table(
    "alert_leases",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("run_id", sa.Uuid),
    sa.Column("flow", sa.Text),
    sa.Column("flow_run_id", sa.Uuid),
    sa.Column("has_begun", sa.Boolean, nullable=False, server_default=sa.text("true")),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_alert_leases_expiry", "organization_id", "expires_at"),
)
