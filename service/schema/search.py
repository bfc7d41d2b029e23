"""The search log, whose words lie in audit.free_texts, and the searches that people saved."""

from sqlalchemy import ARRAY, Boolean, Column, DateTime, Index, Integer, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# `document_ids` are the documents of the results, each once; NULL for searches from before they were kept.
# `has_words` tells whether anything that could be read has a word of the query; NULL where none was looked for, and for
# searches from before it was kept.
# `feedback` is the newest of the audit log's entries about the search; `thumbs` has the newest on each document, and of
# the whole search under the empty name. It is empty for searches from before it was kept.
# `origin` is the OAuth client that asked, or the owner of the key that did; NULL for searches from before it was kept.
searches = table(
    "searches",
    Column("search_id", Uuid, primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("principal_id", Uuid, nullable=False),
    Column("collection_id", Uuid),
    Column("mode", Text, nullable=False),
    Column("result_count", Integer, nullable=False),
    Column("document_ids", ARRAY(Uuid)),
    Column("has_words", Boolean),
    Column("request_id", Text),
    Column("feedback", Text),
    Column("thumbs", JSONB, nullable=False, server_default=text("'{}'")),
    Column("origin", Uuid),
    Index("ix_searches_at", "organization_id", "at", "search_id"),
    Index(
        "ix_searches_feedback",
        "organization_id",
        "feedback",
        "at",
        "search_id",
        postgresql_where=text("feedback IS NOT NULL"),
    ),
    Index(
        "ix_searches_without_results", "organization_id", "at", "search_id", postgresql_where=text("result_count = 0")
    ),
    Index("ix_searches_without_words", "organization_id", "at", "search_id", postgresql_where=text("NOT has_words")),
    Index("ix_searches_principal", "organization_id", "principal_id", "at", "search_id"),
)

# Kept by a person or service account for itself. The id is made of what is saved, so that nothing is saved twice.
saved_searches = table(
    "saved_searches",
    Column("principal_id", Uuid, deleted_with("principals.principal_id"), primary_key=True),
    Column("saved_search_id", Uuid, primary_key=True),
    Column("search_query", Text, nullable=False),
    Column("collection_id", Uuid),
    Column("mode", Text, nullable=False),
    Column("metadata_filters", JSONB, nullable=False),
    Column("saved_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
