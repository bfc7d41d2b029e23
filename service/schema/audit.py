"""The append-only audit log; free text lies apart, so that retention and erasure can empty it."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import table

# `actor_id` owns the credential that was used; `acting_for_id` is the user it named, if any. Names are as they were
# then; older entries have none. Address and device are of the request, where a person or program sent one.
audit_entries = table(
    "audit_entries",
    sa.Column("audit_log_id", sa.Uuid, primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("actor_id", sa.Uuid),
    sa.Column("acting_for_id", sa.Uuid),
    sa.Column("credential_id", sa.Uuid),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target_type", sa.Text),
    sa.Column("target_id", sa.Text),
    sa.Column("details", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("request_id", sa.Text),
    sa.Column("actor_name", sa.Text),
    sa.Column("acting_for_name", sa.Text),
    sa.Column("target_name", sa.Text),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    sa.Index("ix_audit_entries_at", "organization_id", "at", "audit_log_id"),
    sa.Index("ix_audit_entries_target", "organization_id", "target_id", "at", "audit_log_id"),
    sa.Index(
        "ix_audit_entries_sign_ins",
        "organization_id",
        "actor_id",
        "at",
        postgresql_where=sa.text("action = 'session.begin'"),
    ),
)

# Queries and comments, by the audit entry or search they belong to.
free_texts = table(
    "free_texts", sa.Column("subject_id", sa.Uuid, primary_key=True), sa.Column("text", sa.Text, nullable=False)
)
