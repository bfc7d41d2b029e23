"""Documents, versions, texts, pages to read, files left out of archives, collections, syncs, and loading sources."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata
from service.schema.tables import deleted_with, table

# `document_id` is UUIDv5(organization, external_id), so an upsert is by primary key and needs no other
# unique constraint. A deleted document's row stays (without a resource): its versions are never numbered again.
# Lists walk by creation, which never changes, so that an update during a walk moves nothing.
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
    # FILE, UPLOAD or RENAME; NULL: unknown, since an earlier release wrote the row.
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
    # What reading left out of the file: kind, count and where of each; NULL for files read before this was told.
    sa.Column("not_read", JSONB(none_as_null=True)),
    # Of a file that holds others: how many, and how many of them have been brought into the catalog or given up.
    sa.Column("file_count", sa.Integer),
    sa.Column("files_done", sa.Integer),
    # Whether text in pictures within the file is to be read by machine.
    sa.Column("reads_pictures", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created_by", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_document_versions_created_by", "created_by"),
    sa.Index("ix_document_versions_file", "file_sha256", "organization_id"),
    sa.Index("ix_document_versions_size", "organization_id", "file_size", "document_id", "version"),
)

# Deletions that can be undone. `trashed_document_id` is the id of a row of `documents` without a resource, so that no
# query of documents finds it. That row has the document's fields; the document's versions with their files, its text
# and its scanned pages belong to it until then. So the collector of files needs to know nothing of the trash, not even
# the collector of the release before. `document_id` is the id that all of these had and get again.
# `readers` are the id, role and name of each principal besides the owner; `collections` what is known of each
# collection and of the document in it.
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
# in the order of their ids, are done. `state` is what is shown of the change.
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

# The files in a document's newest file that became no documents of their own, by their numbers in it from 0, each with
# its path (NULL: unknown) and why. They are written as the files are brought into the catalog.
left_out_files = table(
    "left_out_files",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("file_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("path", sa.Text),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
)

# Contents of the file store that no version of any organization refers to, and since when that is known. They are
# removed after a period of grace, unless a version refers to them again.
unused_files = sa.Table(
    "unused_files",
    metadata,
    sa.Column("sha256", sa.LargeBinary, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

# Blocks as the extractor gave them (service.text.reading.pack_blocks), of the newest version only.
document_contents = table(
    "document_contents",
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("title", sa.Text),
    sa.Column("blocks", sa.LargeBinary, nullable=False),
)

# The pages of documents' newest files that are pictures, and where that was asked the pictures within files: read by
# text recognition, still to be, or not to be read (`error` says why). `blocks` is what was read, until it is among the
# document's contents. A picture's `page` is its number in the file below zero, so that the key tells it from pages;
# `picture_page` is where it stands, `address` where it is in the file, `after` how many of the file's own blocks come
# before it.
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
# killed: what is here and was not in the last listing is gone from the source. `outcome` is what the run that
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

# Two people may load from the same path of two machines, so a ledger's name is unique for who reports it.
# `shown_no` is the report that people see; NULL until the first one has ended. `latest_no` counts all that were begun.
# The counts are of the shown report, kept with it so that a list need not count.
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

# The report that is shown, and at most one open report. `collection_id` is as it was reported, and refers to nothing:
# a collection may be deleted, and what was loaded into it is still told.
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

# `item_id` is made of name and place, so that an item is the same one in every report. `sort_key` is the beginning of
# the name, since a name can be longer than an index takes.
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
