"""Syncs of collections with outside document databases, what each has brought, and what it could not take."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
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

# `sealed_uri` is encrypted under the deployment's secret key; NULL once that key was lost. The principal, the
# credential and who acted are those of the request that made the sync: runs act as that principal.
# `runs` are the last runs that ended, as they are shown, newest first.
# `attempt` fences workers: a run writes only while it is the last one that was begun, and nothing newer was launched.
docstore_syncs = Table(
    "docstore_syncs",
    metadata,
    Column("sync_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("collection_id", Uuid, ForeignKey("collections.collection_id", ondelete="CASCADE"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("credential_id", Uuid, nullable=False),
    Column("acting_through_id", Uuid),
    Column("sealed_uri", LargeBinary),
    Column("config", JSONB, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'PENDING'")),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("cursor", JSONB),
    Column("listing_no", Integer, nullable=False, server_default=text("0")),
    Column("read_count", BigInteger, nullable=False, server_default=text("0")),
    Column("created_count", BigInteger, nullable=False, server_default=text("0")),
    Column("updated_count", BigInteger, nullable=False, server_default=text("0")),
    Column("unchanged_count", BigInteger, nullable=False, server_default=text("0")),
    Column("deleted_count", BigInteger, nullable=False, server_default=text("0")),
    Column("warning_code", Text),
    Column("warning_message", Text),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("started_at", DateTime(timezone=True)),
    Column("progress_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("runs", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    CheckConstraint("status IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')", name="status"),
    Index("ix_docstore_syncs_collection", "collection_id"),
    Index("ix_docstore_syncs_organization", "organization_id", "sync_id"),
    Index("ix_docstore_syncs_principal", "principal_id"),
)

# Every source document that was ever tried, written down before it is tried, so that none is forgotten when a run is
# killed: what is here and was not in the last listing has vanished from the source. `outcome` is what the run that
# began at `run_at` did with it; `removal` is `held` by the limit of removals, or `approved`.
docstore_documents = Table(
    "docstore_documents",
    metadata,
    Column("document_id", Uuid, primary_key=True),
    Column("sync_id", Uuid, ForeignKey("docstore_syncs.sync_id", ondelete="CASCADE"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("listing_no", Integer, nullable=False, server_default=text("0")),
    Column("run_at", DateTime(timezone=True)),
    Column("outcome", Text),
    Column("removal", Text),
    Index("ix_docstore_documents_sync", "sync_id", "listing_no"),
)

# `source_id` is the `_id` in canonical Extended JSON, by which the document is read again.
docstore_failures = Table(
    "docstore_failures",
    metadata,
    Column("document_id", Uuid, primary_key=True),
    Column("sync_id", Uuid, ForeignKey("docstore_syncs.sync_id", ondelete="CASCADE"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("source_id", Text, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("failed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_docstore_failures_sync", "sync_id", "document_id"),
)

__all__ = ["docstore_documents", "docstore_failures", "docstore_syncs"]
