"""Syncs of collections with outside document databases, what each has brought, and what it could not take."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# `sealed_uri` is encrypted under the deployment's secret key; NULL once that key was lost. The principal, the
# credential and who acted are those of the request that made the sync: runs act as that principal.
# `runs` are the last runs that ended, as they are shown, newest first.
# `attempt` fences workers: a run writes only while it is the last one that was begun, and nothing newer was launched.
docstore_syncs = table(
    "docstore_syncs",
    sa.Column("sync_id", sa.Uuid, primary_key=True),
    sa.Column("collection_id", sa.Uuid, deleted_with("collections.collection_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("credential_id", sa.Uuid, nullable=False),
    sa.Column("acting_through_id", sa.Uuid),
    sa.Column("sealed_uri", sa.LargeBinary),
    sa.Column("config", JSONB, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'PENDING'")),
    sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("cursor", JSONB),
    sa.Column("listing_no", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("read_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("created_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("updated_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("unchanged_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("deleted_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("warning_code", sa.Text),
    sa.Column("warning_message", sa.Text),
    sa.Column("error_code", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("started_at", sa.DateTime(timezone=True)),
    sa.Column("progress_at", sa.DateTime(timezone=True)),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    sa.Column("runs", JSONB, nullable=False, server_default=sa.text("'[]'::jsonb")),
    sa.CheckConstraint("status IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')", name="status"),
    sa.Index("ix_docstore_syncs_collection", "collection_id"),
    sa.Index("ix_docstore_syncs_organization", "organization_id", "sync_id"),
    sa.Index("ix_docstore_syncs_principal", "principal_id"),
)

# Every source document that was ever tried, written down before it is tried, so that none is forgotten when a run is
# killed: what is here and was not in the last listing has vanished from the source. `outcome` is what the run that
# began at `run_at` did with it; `removal` is `held` by the limit of removals, or `approved`.
docstore_documents = table(
    "docstore_documents",
    sa.Column("document_id", sa.Uuid, primary_key=True),
    sa.Column("sync_id", sa.Uuid, deleted_with("docstore_syncs.sync_id"), primary_key=True),
    sa.Column("listing_no", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("run_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text),
    sa.Column("removal", sa.Text),
    sa.Index("ix_docstore_documents_sync", "sync_id", "listing_no"),
)

# `source_id` is the `_id` in canonical Extended JSON, by which the document is read again.
docstore_failures = table(
    "docstore_failures",
    sa.Column("document_id", sa.Uuid, primary_key=True),
    sa.Column("sync_id", sa.Uuid, deleted_with("docstore_syncs.sync_id"), primary_key=True),
    sa.Column("source_id", sa.Text, nullable=False),
    sa.Column("external_id", sa.Text, nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("failed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_docstore_failures_sync", "sync_id", "document_id"),
)

__all__ = ["docstore_documents", "docstore_failures", "docstore_syncs"]
