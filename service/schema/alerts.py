"""Alerts: rules about whom to tell, what is wrong or was, messages on their way, and reports that are waited for."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

# A rule is about alerts with one of `names`, or about all alerts if it has none. It posts to `webhook_url`, or sends
# mail to the people of `recipient_ids`. `sealed_secret` is encrypted under the deployment's secret key; NULL once that
# key was lost, and of mail. `sent_count` messages were sent in the hour since `hour_began_at`, and `left_out_count`
# were not, because a rule sends no more in an hour.
alert_rules = Table(
    "alert_rules",
    metadata,
    Column("alert_rule_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("kinds", ARRAY(Text), nullable=False),
    Column("names", ARRAY(Text), nullable=False, server_default=text("ARRAY[]::text[]")),
    Column("webhook_url", Text),
    Column("sealed_secret", LargeBinary),
    Column("recipient_ids", ARRAY(Uuid), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("hour_began_at", DateTime(timezone=True)),
    Column("sent_count", Integer, nullable=False, server_default=text("0")),
    Column("left_out_count", Integer, nullable=False, server_default=text("0")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_alert_rules_organization", "organization_id", "alert_rule_id"),
)

# `state` is what was told last: while it is the same, people are told again after a day at the earliest.
alerts = Table(
    "alerts",
    metadata,
    Column("alert_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("quarantined_count", Integer),
    # Of a run: what kind of run it was, how many documents its source has, and its id on the Prefect server.
    Column("flow", Text),
    Column("document_count", Integer),
    Column("flow_run_id", Uuid),
    Column("began_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("told_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("ended_at", DateTime(timezone=True)),
    Column("acknowledged_at", DateTime(timezone=True)),
    Column("acknowledged_by", Uuid),
    Column("snoozed_until", DateTime(timezone=True)),
    Index(
        "uq_alerts_open", "organization_id", "kind", "subject", unique=True, postgresql_where=text("ended_at IS NULL")
    ),
    Index("ix_alerts_organization", "organization_id", "alert_id"),
)

# `message` is the body as every attempt sends it. `due_at` is when the next attempt is, NULL once there is none.
alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("delivery_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("alert_rule_id", Uuid, ForeignKey("alert_rules.alert_rule_id", ondelete="CASCADE"), nullable=False),
    Column("alert_id", Uuid, ForeignKey("alerts.alert_id", ondelete="CASCADE")),
    Column("recipient_id", Uuid, ForeignKey("principals.principal_id")),
    Column("message", JSONB, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'PENDING'")),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("attempts", JSONB, nullable=False, server_default=text("'[]'")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("due_at", DateTime(timezone=True)),
    Index("ix_alert_deliveries_organization", "organization_id", "delivery_id"),
    Index("ix_alert_deliveries_rule", "alert_rule_id", "delivery_id"),
    Index("ix_alert_deliveries_alert", "alert_id"),
    Index("ix_alert_deliveries_recipient", "recipient_id"),
)

# What is reported again and again: a run that has not ended (RUN_FAILED), a schedule that is served (SCHEDULE_MISSED).
# When it isn't, `expires_at` passes, and an alert of that kind begins. Of a run that has ended it is NULL. `has_begun`
# is for the release before.
alert_leases = Table(
    "alert_leases",
    metadata,
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("run_id", Uuid),
    Column("flow", Text),
    Column("flow_run_id", Uuid),
    Column("has_begun", Boolean, nullable=False, server_default=text("true")),
    Column("expires_at", DateTime(timezone=True)),
    Column("reported_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_alert_leases_expiry", "organization_id", "expires_at"),
)
