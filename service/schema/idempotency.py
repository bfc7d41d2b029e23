"""Responses kept by Idempotency-Key, so that a request sent twice is done once."""

from sqlalchemy import Column, DateTime, ForeignKey, Index, LargeBinary, Table, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

# `idempotency_key` is the SHA-256 of what the client sent, in hexadecimal digits; `body` is NULL for a response that
# showed a secret: that one is told once.
kept_responses = Table(
    "kept_responses",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("principal_id", Uuid, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("request_digest", LargeBinary, nullable=False),
    Column("body", LargeBinary),
    Column("headers", JSONB, nullable=False, server_default=text("'{}'")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_kept_responses_created", "organization_id", "created_at"),
)
