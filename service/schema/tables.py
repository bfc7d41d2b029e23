"""Shared columns, and tables outside any subject: the deployment as a whole, and responses by Idempotency-Key."""

import sqlalchemy as sa
from sqlalchemy import ARRAY, Boolean, CheckConstraint, Column, DateTime, LargeBinary, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.schema import SchemaItem

from service.platform.database import metadata


def table(name: str, *parts: SchemaItem) -> sa.Table:
    """Declare a table of rows belonging to an organization; `organization_id` is added unless it is a part."""
    if not any(isinstance(part, sa.Column) and part.name == "organization_id" for part in parts):
        organization = sa.ForeignKey("organizations.organization_id")
        parts = (sa.Column("organization_id", sa.Uuid, organization, nullable=False), *parts)
    return sa.Table(name, metadata, *parts)


def deleted_with(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


# `idempotency_key` is the SHA-256 of the client's key in hex; `body` is NULL for a secret, which is never repeated.
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


# One row. The service may insert it, and change only times and marks; only `rotate-key` changes the key's fingerprint.
# `store_id` is also in the file store of this deployment: no other deployment removes files there. At `files_listed_at`
# a process began to look for unused files. `replication_marks` are the last marks, newest first: random values, which a
# standby has only if it follows this server. `replication_timeline` is the server's timeline at the newest mark, with
# the server's start time: it changes with another primary or another state of its files.
deployment = Table(
    "deployment",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("key_fingerprint", LargeBinary, nullable=False),
    Column("store_id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("files_listed_at", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'")),
    Column("replication_marks", ARRAY(Uuid), nullable=False, server_default=text("ARRAY[gen_random_uuid()]")),
    Column("replication_marked_at", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'")),
    Column("replication_timeline", Text, nullable=False, server_default=""),
    CheckConstraint("only_row", name="only_row"),
)
