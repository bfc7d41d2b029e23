"""Logs: the audit log, the search log, and free texts, separate for retention and erasure. Also saved searches."""

import sqlalchemy as sa
from sqlalchemy import ARRAY, Boolean, Column, DateTime, Index, Integer, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# `document_ids` are the distinct documents of the results. `has_words`: whether any readable text contains a word of
# the query; NULL if unchecked. `feedback` is the newest of the audit log's entries about the search; `thumbs` has the
# newest for each document, and for the whole search under the empty name. `origin` is the OAuth client, or the owner of
# the key, that searched. In searches by earlier releases, these are NULL, and `thumbs` is empty.
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

# Saved by a person or service account for itself. The id is derived from the content, so saving twice has no effect.
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


# `actor_id` owns the credential; `acting_for_id` is the user that it acted for, if any. Names are as of that time;
# older entries have none. Address and device are of the request, if a person or program sent it.
audit_entries = table(
    "audit_entries",
    sa.Column("audit_log_id", sa.Uuid, primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("actor_id", sa.Uuid),
    sa.Column("acting_for_id", sa.Uuid),
    sa.Column("credential_id", sa.Uuid),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target_type", sa.Text),
    sa.Column("target_id", sa.Text),
    sa.Column("details", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("request_id", sa.Text),
    sa.Column("actor_name", sa.Text),
    sa.Column("acting_for_name", sa.Text),
    sa.Column("target_name", sa.Text),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    sa.Index("ix_audit_entries_at", "organization_id", "at", "audit_log_id"),
    sa.Index("ix_audit_entries_target", "organization_id", "target_id", "at", "audit_log_id"),
    sa.Index(
        "ix_audit_entries_sign_ins",
        "organization_id",
        "actor_id",
        "at",
        postgresql_where=sa.text("action = 'session.begin'"),
    ),
)

# Queries and comments, by their audit entry or search.
free_texts = table(
    "free_texts", sa.Column("subject_id", sa.Uuid, primary_key=True), sa.Column("text", sa.Text, nullable=False)
)
