"""Agents and the collections they retrieve from; who may use one is kept as the grants on its resource."""

from sqlalchemy import ARRAY, Boolean, Column, DateTime, ForeignKey, Index, Integer, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# A deleted agent's row stays, for the conversations people had with it.
agents = table(
    "agents",
    Column("agent_id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("model", Text),
    Column("api_access_enabled", Boolean, nullable=False),
    # The options of searches that it looks up with, as far as it has its own: {"enable_reranking": true}.
    Column("retrieval", JSONB, nullable=False, server_default=text("'{}'")),
    Column("starter_questions", ARRAY(Text)),
    Column("answers_searches", Boolean, nullable=False, server_default=text("false")),
    Column("created_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("deleted_at", DateTime(timezone=True)),
    Index("uq_agents_name", "organization_id", "name", unique=True, postgresql_where=text("deleted_at IS NULL")),
    Index("ix_agents_created_by", "created_by"),
)

# The settings that an agent has had, the newest of which it has; `saved_by` is unknown of those from before versions.
agent_versions = table(
    "agent_versions",
    Column("agent_id", Uuid, deleted_with("agents.agent_id"), primary_key=True),
    Column("version_no", Integer, primary_key=True),
    Column("organization_id", Uuid, nullable=False),
    Column("settings", JSONB, nullable=False),
    Column("saved_by", Uuid),
    Column("saved_at", DateTime(timezone=True), nullable=False),
    Index("ix_agent_versions_saved_by", "saved_by"),
)

agent_collections = table(
    "agent_collections",
    Column("agent_id", Uuid, deleted_with("agents.agent_id"), primary_key=True),
    Column("collection_id", Uuid, deleted_with("collections.collection_id"), primary_key=True),
    Index("ix_agent_collections_collection", "collection_id"),
)
