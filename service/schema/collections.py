"""Document collections; what is in one is kept by the index (service.schema.indexing.space_documents)."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

collections = Table(
    "collections",
    metadata,
    Column("collection_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("space_id", Integer, ForeignKey("spaces.space_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("distance_metric", Text, nullable=False),
    Column("schema_fields", JSONB, nullable=False),
    Column("created_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("distance_metric IN ('EUCLIDEAN', 'COSINE', 'DOTPRODUCT')", name="distance_metric"),
    UniqueConstraint("organization_id", "name"),
    Index("ix_collections_created_by", "created_by"),
    Index("ix_collections_space", "space_id"),
)

# Chunks a caller made, from the moment they are accepted until they are indexed: a crash in between loses none.
# `batch_id` tells one sending from the next, so that an overtaken one is never written over a newer one.
caller_chunks = Table(
    "caller_chunks",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("space_id", Integer, ForeignKey("spaces.space_id"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("batch_id", Uuid, nullable=False),
    Column("chunks", LargeBinary, nullable=False),
    Index("ix_caller_chunks_space", "space_id"),
)
