"""Documents, their versions, the newest one's text, the pages of it to be read by machine, and files left out of it."""

from sqlalchemy import (
    BigInteger,
    Boolean,
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
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

# `document_id` is UUIDv5(organization, external_id), so an upsert is by primary key and needs no other
# unique constraint. A deleted document's row stays (without a resource): its versions are never numbered again.
# Lists walk by creation, which never changes, so that an update during a walk moves nothing.
documents = Table(
    "documents",
    metadata,
    Column("document_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("external_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("external_url", Text),
    Column("owner_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("custom_metadata", JSONB, nullable=False, server_default=text("'{}'")),
    Column("fingerprint", Text),
    # FILE, UPLOAD or RENAME; NULL: unknown, since an earlier release wrote the row.
    Column("named_by", Text),
    Column("source_updated_at", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("deleted_at", DateTime(timezone=True)),
    Index("ix_documents_created", "organization_id", "created_at", "document_id"),
    Index("ix_documents_owner", "owner_id"),
)

document_versions = Table(
    "document_versions",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("file_sha256", LargeBinary, nullable=False),
    Column("file_size", BigInteger, nullable=False),
    Column("file_name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    # What reading left out of the file: kind, count and where of each; NULL for files read before this was told.
    Column("not_read", JSONB(none_as_null=True)),
    # Of a file that holds others: how many, and how many of them have been brought into the catalog or given up.
    Column("file_count", Integer),
    Column("files_done", Integer),
    # Whether text in pictures within the file is to be read by machine.
    Column("reads_pictures", Boolean, nullable=False, server_default=false()),
    Column("created_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_document_versions_created_by", "created_by"),
    Index("ix_document_versions_file", "file_sha256", "organization_id"),
)

# The files in a document's newest file that became no documents of their own, by their numbers in it from 0, each with
# its path (NULL: unknown) and why. They are written as the files are brought into the catalog.
left_out_files = Table(
    "left_out_files",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("file_no", Integer, primary_key=True, autoincrement=False),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("path", Text),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
)

# Contents of the file store that no version of any organization refers to, and since when that is known. They are
# removed after a period of grace, unless a version refers to them again.
unused_files = Table(
    "unused_files",
    metadata,
    Column("sha256", LargeBinary, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# Blocks as the extractor gave them (service.text.reading.pack_blocks), of the newest version only.
document_contents = Table(
    "document_contents",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("title", Text),
    Column("blocks", LargeBinary, nullable=False),
)

# The pages of documents' newest files that are pictures, and where that was asked the pictures within files: read by
# text recognition, still to be, or not to be read (`error` says why). `blocks` is what was read, until it is among the
# document's contents. A picture's `page` is its number in the file below zero, so that the key tells it from pages;
# `picture_page` is where it stands, `address` where it is in the file, `after` how many of the file's own blocks come
# before it.
scanned_pages = Table(
    "scanned_pages",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("page", Integer, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("file_sha256", LargeBinary, nullable=False),
    Column("picture_page", Integer),
    Column("address", Text),
    Column("sheet", Text),
    Column("after", Integer),
    Column("state", Text, nullable=False),
    Column("blocks", LargeBinary),
    Column("error", Text),
    CheckConstraint("state IN ('WAITING', 'READ', 'FAILED')", name="state"),
    Index(
        "ix_scanned_pages_unfinished",
        "organization_id",
        "document_id",
        postgresql_where=text("state = 'WAITING' OR blocks IS NOT NULL"),
    ),
)
