"""Spaces (the catalog, each collection) and their index; `index_tables` makes a pair of chunk and code-page tables per
embedding dimension."""

from dataclasses import dataclass

from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from carrel.wire.places import PassagePlace
from service.platform.database import metadata
from service.platform.settings import VECTOR_DIMENSIONS
from service.platform.sql import ModelJson

TERM_DIMENSIONS = 2**29
CHUNKS_PER_PAGE = 8
TOTAL_TERM = 0

# Of each collection, and of the catalog, one space is searched. Another may replace it (`replaces_space_id`) once it
# has the same documents, made with another model: what is wanted in the one is wanted in the other too, and nobody
# searches it. What was replaced, or given up, is retired: nobody writes there any more, and it is emptied later.
spaces = Table(
    "spaces",
    metadata,
    Column("space_id", Integer, Identity(always=True), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("model", Text, nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("language", Text, nullable=False, server_default=text("'english'")),
    Column("is_catalog", Boolean, nullable=False, server_default=text("false")),
    Column("replaces_space_id", Integer, ForeignKey("spaces.space_id")),
    Column("replaced_by_space_id", Integer, ForeignKey("spaces.space_id")),
    Column("retired_at", DateTime(timezone=True)),
    Index("uq_spaces_catalog", "organization_id", unique=True, postgresql_where=text("is_catalog")),
    # Partial, so that it is no key: to write the column is no reason to wait for those who add documents to the space.
    Index(
        "uq_spaces_replaces", "replaces_space_id", unique=True, postgresql_where=text("replaces_space_id IS NOT NULL")
    ),
    Index("ix_spaces_replaced_by", "replaced_by_space_id", postgresql_where=text("replaced_by_space_id IS NOT NULL")),
)

# What should be in a space (`version`: the one wanted) and what is (`indexed_version`, NULL until first indexed).
# Work is whatever differs: a worker claims it until `claimed_until`, so a crash loses nothing, and tells how far it
# is: `chunks_embedded` of `chunks_expected` (only while it works; afterwards `chunk_count` counts). Large texts wait in
# a line of their own (`is_large`, as of the last request), so that its first is found however many small ones wait.
# `language`: by which the words of what is indexed were stemmed, by ISO 639-1; NULL: as English.
space_documents = Table(
    "space_documents",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.document_id"), primary_key=True),
    Column("space_id", Integer, ForeignKey("spaces.space_id"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("indexed_version", Integer),
    Column("chunk_count", Integer, nullable=False, server_default=text("0")),
    Column("chunks_expected", Integer, nullable=False, server_default=text("0")),
    Column("chunks_embedded", Integer, nullable=False, server_default=text("0")),
    Column("language", Text),
    Column("caller_chunks", Boolean, nullable=False, server_default=text("false")),
    Column("custom_metadata", JSONB, nullable=False, server_default=text("'{}'")),
    Column("is_large", Boolean, nullable=False, server_default=text("false")),
    Column("claimed_until", DateTime(timezone=True)),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("error", Text),
    Column("added_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_space_documents_space", "space_id", "document_id"),
    Index(
        "ix_space_documents_pending",
        "organization_id",
        "is_large",
        "claimed_until",
        postgresql_where=text("indexed_version IS DISTINCT FROM version"),
    ),
    Index(
        "ix_space_documents_values",
        func.metadata_keys(text("space_id"), text("custom_metadata")),
        postgresql_using="gin",
        postgresql_with={"gin_pending_list_limit": 64},
    ),
)

# Document frequencies per hashed term, and the number of chunks under TOTAL_TERM; appended as deltas, folded by a job,
# so that uploads never queue on a common word's row.
term_statistics = Table(
    "term_statistics",
    metadata,
    Column("space_id", Integer, ForeignKey("spaces.space_id"), primary_key=True),
    Column("term", Integer, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("frequency", BigInteger, nullable=False),
)

# Without foreign keys, which would cost more than the rows; whoever writes them holds the document's row in its space.
term_deltas = Table(
    "term_deltas",
    metadata,
    Column("organization_id", Uuid, nullable=False),
    Column("space_id", Integer, nullable=False),
    Column("term", Integer, nullable=False),
    Column("delta_id", BigInteger, Identity(always=True), nullable=False),
    Column("delta", Integer, nullable=False),
    PrimaryKeyConstraint("organization_id", "space_id", "term", "delta_id", postgresql_include=["delta"]),
)


@dataclass(frozen=True)
class IndexTables:
    """The chunk and code-page tables of one embedding dimension."""

    chunks: Table
    code_pages: Table


def index_tables(dimensions: int) -> IndexTables:
    """Declare the pair of index tables for vectors of `dimensions` numbers. Both depend on the document's row in its
    space. Embeddings and terms stay in the row (`STORAGE`), where the exact scores read them."""
    chunks = Table(
        f"chunks_{dimensions}",
        metadata,
        Column("document_id", Uuid, nullable=False),
        Column("chunk_id", Uuid, nullable=False),
        Column("organization_id", Uuid, nullable=False),
        Column("access_class", BigInteger, nullable=False),
        Column("space_id", Integer, nullable=False),
        Column("chunk_no", Integer, nullable=False),
        Column("terms", SPARSEVEC(TERM_DIMENSIONS), nullable=False),
        Column("embedding", HALFVEC(dimensions), nullable=False),
        Column("text_hash", LargeBinary, nullable=False),
        Column("text", Text, nullable=False),
        # Where the chunk stands in its document; NULL where that isn't known.
        Column("place", ModelJson(PassagePlace)),
        PrimaryKeyConstraint("document_id", "space_id", "chunk_no"),
        _of_document_in_space(f"chunks_{dimensions}"),
        Index(f"ix_chunks_{dimensions}_class", "organization_id", "space_id", "access_class"),
        Index(
            f"ix_chunks_{dimensions}_terms",
            func.term_keys(text("space_id"), text("terms")),
            postgresql_using="gin",
            postgresql_with={"gin_pending_list_limit": 1024},
        ),
    )
    codes = [Column(f"c{number}", BIT(dimensions)) for number in range(1, CHUNKS_PER_PAGE + 1)]
    code_pages = Table(
        f"code_pages_{dimensions}",
        metadata,
        Column("document_id", Uuid, nullable=False),
        Column("organization_id", Uuid, nullable=False),
        Column("access_class", BigInteger, nullable=False),
        Column("space_id", Integer, nullable=False),
        Column("page_no", Integer, nullable=False),
        *codes,
        PrimaryKeyConstraint("document_id", "space_id", "page_no"),
        _of_document_in_space(f"code_pages_{dimensions}"),
        Index(
            f"ix_code_pages_{dimensions}_class",
            "organization_id",
            "space_id",
            "access_class",
            postgresql_include=["document_id", *(code.name for code in codes)],
        ),
    )
    return IndexTables(chunks=chunks, code_pages=code_pages)


def _of_document_in_space(table: str) -> ForeignKeyConstraint:
    columns = ["document_id", "space_id"]
    return ForeignKeyConstraint(
        columns, [f"space_documents.{column}" for column in columns], name=f"fk_{table}_space_document"
    )


INDEX_TABLES = {dimensions: index_tables(dimensions) for dimensions in VECTOR_DIMENSIONS}
