"""Document collections; what is in one is kept by the index (service.indexing.tables.space_documents)."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKey, Table, Text, UniqueConstraint, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB

from service.database import metadata

collections = Table(
    "collections",
    metadata,
    Column("collection_id", Uuid, primary_key=True),
    Column("organization_id", ForeignKey("organizations.organization_id"), nullable=False),
    Column("space_id", ForeignKey("spaces.space_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("distance_metric", Text, nullable=False),
    Column("schema_fields", JSONB, nullable=False),
    Column("created_by", ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("distance_metric IN ('EUCLIDEAN', 'COSINE', 'DOTPRODUCT')", name="distance_metric"),
    UniqueConstraint("organization_id", "name"),
)
