"""The append-only audit log; free text lies apart, so that retention and erasure can empty it."""

from sqlalchemy import Column, DateTime, ForeignKey, Index, Table, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

# `actor_id` owns the credential that was used; `acting_for_id` is the user it named, if any. Names are as they were
# then; older entries have none. Address and device are of the request, where a person or program sent one.
audit_entries = Table(
    "audit_entries",
    metadata,
    Column("audit_log_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("actor_id", Uuid),
    Column("acting_for_id", Uuid),
    Column("credential_id", Uuid),
    Column("action", Text, nullable=False),
    Column("target_type", Text),
    Column("target_id", Text),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("request_id", Text),
    Column("actor_name", Text),
    Column("acting_for_name", Text),
    Column("target_name", Text),
    Column("address", Text),
    Column("device", Text),
    Index("ix_audit_entries_at", "organization_id", "at", "audit_log_id"),
    Index("ix_audit_entries_target", "organization_id", "target_id", "at", "audit_log_id"),
    Index(
        "ix_audit_entries_sign_ins",
        "organization_id",
        "actor_id",
        "at",
        postgresql_where=text("action = 'session.begin'"),
    ),
)

# Queries and comments, by the audit entry or search they belong to.
free_texts = Table(
    "free_texts",
    metadata,
    Column("subject_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("text", Text, nullable=False),
)
