"""Documents, versions, texts, pages to read, files left out of archives, collections, syncs, and loading sources."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata
from service.schema.tables import deleted_with, table

# `document_id` is UUIDv5(organization, external_id), so upserts use the primary key without another unique constraint.
# A deleted document's row stays (without a resource), so that its version numbers are never reused. Lists are ordered
# by creation, which never changes, so that updates don't move documents between pages.
documents = table(
    "documents",
    sa.Column("document_id", sa.Uuid, primary_key=True),
    sa.Column("external_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("external_url", sa.Text),
    sa.Column("owner_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("custom_metadata", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("fingerprint", sa.Text),
    # FILE, UPLOAD or RENAME; NULL if an earlier release wrote the row.
    sa.Column("named_by", sa.Text),
    sa.Column("source_updated_at", sa.DateTime(timezone=True)),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("deleted_at", sa.DateTime(timezone=True)),
    sa.Index("ix_documents_created", "organization_id", "created_at", "document_id"),
    sa.Index("ix_documents_owner", "owner_id"),
)


def name_key() -> sa.ColumnElement[str]:
    """Return the sort key of documents by name: the start in lower case, because an index can't hold long texts."""
    return sa.func.left(sa.func.lower(documents.c.name), sa.literal_column("200"))


def path_of_document() -> sa.ColumnElement[str]:
    """Return the external id as a path of folders and a name: `https:/host.example/a`."""
    slashes, once, every = (sa.literal_column(f"'{text}'", sa.Text) for text in ("//+", "/", "g"))
    return sa.func.ltrim(sa.func.regexp_replace(documents.c.external_id, slashes, once, every), once)


for _name, *_keys in (
    ("ix_documents_name", name_key(), documents.c.document_id),
    ("ix_documents_updated", documents.c.updated_at, documents.c.document_id),
):
    sa.Index(_name, documents.c.organization_id, *_keys, postgresql_where=documents.c.deleted_at.is_(None))

document_versions = table(
    "document_versions",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("file_sha256", sa.LargeBinary, nullable=False),
    sa.Column("file_size", sa.BigInteger, nullable=False),
    sa.Column("file_name", sa.Text, nullable=False),
    sa.Column("media_type", sa.Text, nullable=False),
    # Parts of the file that were not read: kind, count and places of each; NULL for files read by earlier releases.
    sa.Column("not_read", JSONB(none_as_null=True)),
    # For a container: the number of its files, and how many were added to the catalog or given up.
    sa.Column("file_count", sa.Integer),
    sa.Column("files_done", sa.Integer),
    # Whether to recognize text in pictures inside the file.
    sa.Column("reads_pictures", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created_by", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_document_versions_created_by", "created_by"),
    sa.Index("ix_document_versions_file", "file_sha256", "organization_id"),
    sa.Index("ix_document_versions_size", "organization_id", "file_size", "document_id", "version"),
)

# Deletions that can be undone. `trashed_document_id` is a row of `documents` without a resource, which no query of
# documents finds. That row has the document's fields; versions with files, text and scanned pages belong to it
# meanwhile, so the collector of files needs no rule for the trash, not even in the release before. `document_id` is
# their id before the deletion, and again after it is undone. `readers`: id, role and name of each principal except the
# owner; `collections`: each collection, and the document's values in it.
trashed_documents = table(
    "trashed_documents",
    sa.Column("trashed_document_id", sa.Uuid, primary_key=True),
    sa.Column("document_id", sa.Uuid, nullable=False),
    sa.Column("resource_type", sa.Text, nullable=False),
    sa.Column("resource_id", sa.Text, nullable=False),
    sa.Column("readers", JSONB, nullable=False),
    sa.Column("collections", JSONB, nullable=False),
    sa.Column("deleted_by", sa.Uuid, nullable=False),
    sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_trashed_documents_deleted", "organization_id", "deleted_at", "trashed_document_id"),
)

# Changes of all documents that match the filters of `request`; `origin` is its credential. Documents up to `position`,
# in the order of ids, are done. `state` is the change as people see it.
document_changes = table(
    "document_changes",
    sa.Column("document_change_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, nullable=False),
    sa.Column("origin", JSONB, nullable=False),
    sa.Column("request", JSONB, nullable=False),
    sa.Column("position", sa.Uuid),
    sa.Column("state", JSONB, nullable=False),
    sa.Column("started_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_document_changes_started", "organization_id", "started_at"),
)

# The files in a document's newest file that did not become documents: their numbers in the file from 0, paths (NULL:
# unknown) and reasons. They are written while the files are added to the catalog.
left_out_files = table(
    "left_out_files",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("file_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("path", sa.Text),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
)

# Contents of the file store to which no version of any organization refers, and since when. They are removed after a
# period of grace, unless a version refers to them again.
unused_files = sa.Table(
    "unused_files",
    metadata,
    sa.Column("sha256", sa.LargeBinary, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

# The extractor's blocks (service.text.reading.pack_blocks) of the newest version only.
document_contents = table(
    "document_contents",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("title", sa.Text),
    sa.Column("blocks", sa.LargeBinary, nullable=False),
)

# Pages that are pictures in documents' newest files, and on request the pictures inside files: recognized, waiting for
# text recognition, or failed (`error` says why). `blocks` is the recognized text, until the document's contents include
# it. A picture's `page` is its negative number in the file, distinct from pages; `picture_page` is its page, `address`
# its place in the file, `after` how many of the file's own blocks come before it.
scanned_pages = table(
    "scanned_pages",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("page", sa.Integer, primary_key=True),
    sa.Column("file_sha256", sa.LargeBinary, nullable=False),
    sa.Column("picture_page", sa.Integer),
    sa.Column("address", sa.Text),
    sa.Column("sheet", sa.Text),
    sa.Column("after", sa.Integer),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("blocks", sa.LargeBinary),
    sa.Column("error", sa.Text),
    sa.CheckConstraint("state IN ('WAITING', 'READ', 'FAILED')", name="state"),
    sa.Index(
        "ix_scanned_pages_unfinished",
        "organization_id",
        "document_id",
        postgresql_where=sa.text("state = 'WAITING' OR blocks IS NOT NULL"),
    ),
)


collections = table(
    "collections",
    sa.Column("collection_id", sa.Uuid, primary_key=True),
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # The newest first; schedules and saved searches may still contain these names.
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

# Chunks made by callers, from their acceptance until they are indexed, so that a crash loses none. `batch_id`
# distinguishes requests, so that an older request never overwrites a newer one.
caller_chunks = table(
    "caller_chunks",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), primary_key=True),
    sa.Column("batch_id", sa.Uuid, nullable=False),
    sa.Column("chunks", sa.LargeBinary, nullable=False),
    sa.Index("ix_caller_chunks_space", "space_id"),
)


# `sealed_uri` is encrypted with the deployment's secret key; NULL if that key was lost. Runs act as the principal whose
# request made the sync; its credential and actor are kept too. `runs` are the last ended runs as shown, newest first.
# `attempt` fences workers: a run writes only while it is the newest attempt and no newer run was launched.
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

# Each source document, written before its first attempt, so that a killed run forgets none: a row missing in the last
# listing is no longer in the source. `outcome` is the result in the run that began at `run_at`; `removal` is `held` by
# the limit of removals, or `approved`.
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

# `source_id` is the `_id` in canonical Extended JSON, to read the document again.
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

# Two people may load from the same path on two machines, so a ledger's name is unique per reporting principal.
# `shown_no` is the report that people see; NULL until the first report ends. `latest_no` counts all reports. The counts
# are of the shown report, stored here so that lists need not count.
sources = table(
    "sources",
    sa.Column("source_id", sa.Uuid, primary_key=True),
    sa.Column("ledger", sa.Text, nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("latest_no", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("shown_no", sa.Integer),
    sa.Column("item_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("ignored_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("reported_at", sa.DateTime(timezone=True)),
    sa.Index("uq_sources_ledger", "organization_id", "principal_id", "ledger", unique=True),
    sa.Index("ix_sources_organization", "organization_id", "source_id"),
)

# The shown report, and at most one open report. `collection_id` is as reported and no foreign key: after the collection
# is deleted, the report still says where documents were loaded.
source_reports = table(
    "source_reports",
    sa.Column("source_id", sa.Uuid, deleted_with("sources.source_id"), primary_key=True),
    sa.Column("report_no", sa.Integer, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("collection_id", sa.Uuid),
    sa.Column("fingerprint", sa.Text),
    sa.Column("sent_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

# `item_id` is derived from name and place, so an item is the same in each report. `sort_key` is the beginning of the
# name, because a name may be too long for an index.
source_items = table(
    "source_items",
    sa.Column("source_id", sa.Uuid, primary_key=True),
    sa.Column("report_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Uuid, primary_key=True),
    sa.Column("sort_key", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("external_id", sa.Text),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    sa.Column("ignored", sa.Boolean, nullable=False),
    sa.ForeignKeyConstraint(
        ["source_id", "report_no"], ["source_reports.source_id", "source_reports.report_no"], ondelete="CASCADE"
    ),
    sa.Index("ix_source_items_sorted", "source_id", "report_no", "sort_key", "item_id"),
)
