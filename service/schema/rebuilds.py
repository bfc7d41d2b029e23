"""Rebuilds of an index with another embedding model: of a collection, or (without one) of the catalog."""

from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Text, Uuid, func
from sqlalchemy import text as sql

from service.schema.tables import deleted_with, table

# `space_id` is the space that is built, which replaces another one while RUNNING, and is searched once COMPLETED. It
# refers to nothing: what was cancelled is emptied and goes. `left_count`: documents that a forced rebuild left out.
index_rebuilds = table(
    "index_rebuilds",
    Column("rebuild_id", Uuid, primary_key=True),
    Column("collection_id", Uuid, deleted_with("collections.collection_id")),
    Column("space_id", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("previous_model", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=sql("'RUNNING'")),
    Column("forced", Boolean, nullable=False, server_default=sql("false")),
    Column("left_count", Integer, nullable=False, server_default=sql("0")),
    Column("started_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("finished_at", DateTime(timezone=True)),
    CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'CANCELLED')", name="status"),
    Index("ix_index_rebuilds_collection", "organization_id", "collection_id"),
    Index("ix_index_rebuilds_running", "organization_id", postgresql_where=sql("status = 'RUNNING'")),
    Index("ix_index_rebuilds_started_by", "started_by"),
)
