"""Responses kept by Idempotency-Key, so that a request sent twice is done once."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import table

# `idempotency_key` is the SHA-256 of what the client sent, in hexadecimal digits; `body` is NULL for a response that
# showed a secret: that one is told once.
kept_responses = table(
    "kept_responses",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("principal_id", sa.Uuid, primary_key=True),
    sa.Column("idempotency_key", sa.Text, primary_key=True),
    sa.Column("request_digest", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary),
    sa.Column("headers", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_kept_responses_created", "organization_id", "created_at"),
)
