"""Document collections; what is in one is kept by the index (service.schema.indexing.space_documents)."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import table

collections = table(
    "collections",
    sa.Column("collection_id", sa.Uuid, primary_key=True),
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # The newest first; a schedule or a saved search may still have them.
    sa.Column("former_names", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("distance_metric", sa.Text, nullable=False),
    sa.Column("schema_fields", JSONB, nullable=False),
    sa.Column("created_by", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("distance_metric IN ('EUCLIDEAN', 'COSINE', 'DOTPRODUCT')", name="distance_metric"),
    sa.UniqueConstraint("organization_id", "name"),
    sa.Index("ix_collections_created_by", "created_by"),
    sa.Index("ix_collections_space", "space_id"),
)

# Chunks a caller made, from the moment they are accepted until they are indexed: a crash in between loses none.
# `batch_id` tells one sending from the next, so that an overtaken one is never written over a newer one.
caller_chunks = table(
    "caller_chunks",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), primary_key=True),
    sa.Column("batch_id", sa.Uuid, nullable=False),
    sa.Column("chunks", sa.LargeBinary, nullable=False),
    sa.Index("ix_caller_chunks_space", "space_id"),
)
