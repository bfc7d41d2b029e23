"""Spaces (the catalog, each collection) and their index: chunks, vectors and code pages for each dimension."""

from dataclasses import dataclass

import sqlalchemy as sa
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC
from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Text, Uuid, func
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB

from carrel.wire.places import PassagePlace
from service.platform.database import metadata
from service.platform.settings import VECTOR_DIMENSIONS
from service.platform.sql import ModelJson
from service.schema.tables import deleted_with, table

TERM_DIMENSIONS = 2**29
CHUNKS_PER_PAGE = 8
TOTAL_TERM = 0

# Each collection, and the catalog, has one space that is searched. Another space may replace it (`replaces_space_id`)
# once it has the same documents in another model's index: until then, both get all changes, and only the old one is
# searched. Replaced and cancelled spaces are retired: they get no changes, and are emptied later.
spaces = sa.Table(
    "spaces",
    metadata,
    sa.Column("space_id", sa.Integer, sa.Identity(always=True), primary_key=True),
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("dimensions", sa.Integer, nullable=False),
    sa.Column("language", sa.Text, nullable=False, server_default=sa.text("'english'")),
    sa.Column("is_catalog", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("replaces_space_id", sa.Integer, sa.ForeignKey("spaces.space_id")),
    sa.Column("replaced_by_space_id", sa.Integer, sa.ForeignKey("spaces.space_id")),
    sa.Column("retired_at", sa.DateTime(timezone=True)),
    sa.Index("uq_spaces_catalog", "organization_id", unique=True, postgresql_where=sa.text("is_catalog")),
    # A partial index is no key: writing the column needn't wait for transactions that add documents to the space.
    sa.Index(
        "uq_spaces_replaces",
        "replaces_space_id",
        unique=True,
        postgresql_where=sa.text("replaces_space_id IS NOT NULL"),
    ),
    sa.Index(
        "ix_spaces_replaced_by", "replaced_by_space_id", postgresql_where=sa.text("replaced_by_space_id IS NOT NULL")
    ),
)

# The desired `version` of a document in a space, and the indexed state: words of `words_version`, words and vectors of
# `indexed_version` (NULL until first written; earlier releases wrote both at once). Any difference is work: a worker
# claims it until `claimed_until`, so that a crash loses nothing, and writes its progress: `chunks_embedded` of
# `chunks_expected` (then `chunk_count` counts). Large texts have their own queue (`is_large`, as of the last request),
# so that many small texts don't hide the first. `language` (ISO 639-1) is the language of the stems; NULL: English.
# `forms` is the version of the rules (`service.index.forms`). A write of an indexed version sets it to its negative;
# otherwise a trigger sets 0.
space_documents = sa.Table(
    "space_documents",
    metadata,
    sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.document_id"), primary_key=True),
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), primary_key=True),
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("indexed_version", sa.Integer),
    sa.Column("words_version", sa.Integer),
    sa.Column("chunk_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("chunks_expected", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("chunks_embedded", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("language", sa.Text),
    sa.Column("forms", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("caller_chunks", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("custom_metadata", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("is_large", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("claimed_until", sa.DateTime(timezone=True)),
    sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("error", sa.Text),
    sa.Column("added_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_space_documents_space", "space_id", "document_id"),
    sa.Index("ix_space_documents_forms", "space_id", "forms", postgresql_where=sa.text("chunk_count > 0")),
    sa.Index(
        "ix_space_documents_pending",
        "organization_id",
        "is_large",
        "claimed_until",
        postgresql_where=sa.text("indexed_version IS DISTINCT FROM version"),
    ),
    sa.Index(
        "ix_space_documents_words",
        "organization_id",
        "is_large",
        "claimed_until",
        postgresql_where=sa.text("words_version IS DISTINCT FROM version AND indexed_version IS DISTINCT FROM version"),
    ),
    sa.Index(
        "ix_space_documents_meaning",
        "organization_id",
        "is_large",
        "claimed_until",
        postgresql_where=sa.text("words_version = version AND indexed_version IS DISTINCT FROM version"),
    ),
    sa.Index(
        "ix_space_documents_values",
        sa.func.metadata_keys(sa.text("space_id"), sa.text("custom_metadata")),
        postgresql_using="gin",
        postgresql_with={"gin_pending_list_limit": 64},
    ),
)

# Document frequencies per hashed term, and the number of chunks under TOTAL_TERM; appended as deltas that a job folds,
# so that uploads never queue on a common word's row.
term_statistics = sa.Table(
    "term_statistics",
    metadata,
    sa.Column("space_id", sa.Integer, sa.ForeignKey("spaces.space_id"), primary_key=True),
    sa.Column("term", sa.Integer, primary_key=True),
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), nullable=False),
    sa.Column("frequency", sa.BigInteger, nullable=False),
)

# No foreign keys, which would cost more than the rows; the writer locks the document's row in its space.
term_deltas = sa.Table(
    "term_deltas",
    metadata,
    sa.Column("organization_id", sa.Uuid, nullable=False),
    sa.Column("space_id", sa.Integer, nullable=False),
    sa.Column("term", sa.Integer, nullable=False),
    sa.Column("delta_id", sa.BigInteger, sa.Identity(always=True), nullable=False),
    sa.Column("delta", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("organization_id", "space_id", "term", "delta_id", postgresql_include=["delta"]),
)


@dataclass(frozen=True)
class IndexTables:
    """The index tables of an embedding dimension: each document's chunks, vectors, and pages of codes."""

    chunks: sa.Table
    vectors: sa.Table
    code_pages: sa.Table

    @property
    def all(self) -> tuple[sa.Table, ...]:
        return self.chunks, self.vectors, self.code_pages

    def vector_of(self, chunk: "sa.FromClause") -> sa.ColumnElement[bool]:
        """Return the condition for the chunk of a row of `vectors`; both are in the organization."""
        return sa.and_(*(self.vectors.c[name] == chunk.c[name] for name in ("document_id", "space_id", "chunk_no")))


def index_tables(dimensions: int) -> IndexTables:
    """Declare the index tables for vectors of `dimensions` numbers. Embeddings and terms stay in the row (`STORAGE`),
    where the exact scores read them. `vectors` has the embeddings, except an earlier version's until moved."""
    chunks = sa.Table(
        f"chunks_{dimensions}",
        metadata,
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("chunk_id", sa.Uuid, nullable=False),
        sa.Column("organization_id", sa.Uuid, nullable=False),
        sa.Column("access_class", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.Integer, nullable=False),
        sa.Column("chunk_no", sa.Integer, nullable=False),
        sa.Column("terms", SPARSEVEC(TERM_DIMENSIONS), nullable=False),
        sa.Column("embedding", HALFVEC(dimensions)),
        sa.Column("text_hash", sa.LargeBinary, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        # The chunk's place in its document; NULL if unknown.
        sa.Column("place", ModelJson(PassagePlace)),
        sa.PrimaryKeyConstraint("document_id", "space_id", "chunk_no"),
        _to_space_document(f"chunks_{dimensions}"),
        sa.Index(f"ix_chunks_{dimensions}_class", "organization_id", "space_id", "access_class"),
        sa.Index(
            f"ix_chunks_{dimensions}_terms",
            sa.func.term_keys(sa.text("space_id"), sa.text("terms")),
            postgresql_using="gin",
            postgresql_with={"gin_pending_list_limit": 1024},
        ),
    )
    vectors = sa.Table(
        f"vectors_{dimensions}",
        metadata,
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("organization_id", sa.Uuid, nullable=False),
        sa.Column("access_class", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.Integer, nullable=False),
        sa.Column("chunk_no", sa.Integer, nullable=False),
        sa.Column("embedding", HALFVEC(dimensions), nullable=False),
        sa.PrimaryKeyConstraint("document_id", "space_id", "chunk_no"),
        _to_space_document(f"vectors_{dimensions}"),
        sa.Index(f"ix_vectors_{dimensions}_class", "organization_id", "space_id", "access_class"),
    )
    codes = [sa.Column(f"c{number}", BIT(dimensions)) for number in range(1, CHUNKS_PER_PAGE + 1)]
    code_pages = sa.Table(
        f"code_pages_{dimensions}",
        metadata,
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("organization_id", sa.Uuid, nullable=False),
        sa.Column("access_class", sa.BigInteger, nullable=False),
        sa.Column("space_id", sa.Integer, nullable=False),
        sa.Column("page_no", sa.Integer, nullable=False),
        *codes,
        sa.PrimaryKeyConstraint("document_id", "space_id", "page_no"),
        _to_space_document(f"code_pages_{dimensions}"),
        sa.Index(
            f"ix_code_pages_{dimensions}_class",
            "organization_id",
            "space_id",
            "access_class",
            postgresql_include=["document_id", *(code.name for code in codes)],
        ),
    )
    return IndexTables(chunks=chunks, vectors=vectors, code_pages=code_pages)


def _to_space_document(table: str) -> sa.ForeignKeyConstraint:
    columns = ["document_id", "space_id"]
    return sa.ForeignKeyConstraint(
        columns, [f"space_documents.{column}" for column in columns], name=f"fk_{table}_space_document"
    )


INDEX_TABLES = {dimensions: index_tables(dimensions) for dimensions in VECTOR_DIMENSIONS}


# `space_id` is the new space, which replaces another while RUNNING and is searched once COMPLETED. It is no foreign
# key, because cancelled spaces are emptied and deleted. `left_count`: documents left out by a forced rebuild.
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
