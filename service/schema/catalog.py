"""Documents, their versions, the newest one's text, the pages of it to be read by machine, and files left out of it."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata
from service.schema.tables import table

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


def _cut(text: sa.ColumnElement[str], length: int) -> sa.ColumnElement[str]:
    """Cut a text in lower case, because an index holds no long ones."""
    return sa.func.left(sa.func.lower(text), sa.literal_column(str(length)))


def name_key() -> sa.ColumnElement[str]:
    """Return the key of documents' order by name."""
    return _cut(documents.c.name, 200)


def path_of_document() -> sa.ColumnElement[str]:
    """Return the external id as a path, whose parts are folders and a name: `https:/host.example/a`."""
    once, twice = (sa.literal_column(f"'{slashes}'", sa.Text) for slashes in ("/", "//"))
    return sa.func.ltrim(sa.func.replace(documents.c.external_id, twice, once), once)


def path_key() -> sa.ColumnElement[str]:
    """Return the beginning of the path, by whose bytes the index finds folders."""
    return _cut(path_of_document(), 400).collate("C")


for _name, *_keys in (
    ("ix_documents_name", name_key(), documents.c.document_id),
    ("ix_documents_updated", documents.c.updated_at, documents.c.document_id),
    ("ix_documents_path", path_key()),
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
