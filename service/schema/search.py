"""The search log: who searched where, how many results; the query's words lie in audit.free_texts."""

from sqlalchemy import ARRAY, Column, DateTime, ForeignKey, Index, Integer, Table, Text, Uuid, func, text

from service.platform.database import metadata

# `document_ids` are the documents of the results, each once; NULL for searches from before they were kept.
# `feedback` is the newest of the audit log's entries about the search.
searches = Table(
    "searches",
    metadata,
    Column("search_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("principal_id", Uuid, nullable=False),
    Column("collection_id", Uuid),
    Column("mode", Text, nullable=False),
    Column("result_count", Integer, nullable=False),
    Column("document_ids", ARRAY(Uuid)),
    Column("request_id", Text),
    Column("feedback", Text),
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
        "ix_searches_without_results",
        "organization_id",
        "at",
        "search_id",
        postgresql_where=text("result_count = 0"),
    ),
)
