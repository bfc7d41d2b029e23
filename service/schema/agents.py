"""Agents, collections, and evaluation sets with judged documents and runs. An agent's access is its resource's."""

import sqlalchemy as sa
from sqlalchemy import ARRAY, Boolean, Column, DateTime, ForeignKey, Index, Integer, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# A deleted agent's row stays for people's conversations with it.
agents = table(
    "agents",
    Column("agent_id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("model", Text),
    Column("api_access_enabled", Boolean, nullable=False),
    # The agent's own options of searches, such as {"enable_reranking": true}.
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

# All settings that an agent has had; the newest are current. `saved_by` is unknown for settings older than versions.
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


# `collection_id` and `agent_id` are no foreign keys: a set stays without its subject, because judgements cost work.
evaluation_sets = table(
    "evaluation_sets",
    sa.Column("evaluation_set_id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("collection_id", sa.Uuid),
    sa.Column("agent_id", sa.Uuid),
    sa.Column("created_by", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("uq_evaluation_sets_name", "organization_id", "name", unique=True),
    sa.Index("ix_evaluation_sets_organization", "organization_id", "evaluation_set_id"),
    sa.Index("ix_evaluation_sets_created_by", "created_by"),
)

# `case_id` is UUIDv5(set, question), because a question may be too long for an index. `judgements` has all grades by
# external id, so that concurrent judges each add to it. `case_no` is the order of addition.
evaluation_cases = table(
    "evaluation_cases",
    sa.Column("case_id", sa.Uuid, primary_key=True),
    sa.Column("evaluation_set_id", sa.Uuid, deleted_with("evaluation_sets.evaluation_set_id"), nullable=False),
    sa.Column("case_no", sa.BigInteger, sa.Identity(always=True), nullable=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("note", sa.Text),
    sa.Column("judgements", JSONB, nullable=False),
    sa.Column("statements", JSONB(none_as_null=True), nullable=False, server_default=sa.text("'[]'")),
    sa.Column("nothing_answers", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Index("ix_evaluation_cases_set", "evaluation_set_id", "case_no"),
)

# The means are of the results at that time; removing cases later doesn't change them. Older runs have no `agent_id`:
# they asked the set's agent. An interrupted run has fewer results than its `planned_count`. `settings` are the agent's
# instructions and search options at the beginning of the run.
evaluation_runs = table(
    "evaluation_runs",
    sa.Column("evaluation_run_id", sa.Uuid, primary_key=True),
    sa.Column("evaluation_set_id", sa.Uuid, deleted_with("evaluation_sets.evaluation_set_id"), nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("mode", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("instructions_digest", sa.Text),
    sa.Column("note", sa.Text),
    sa.Column("case_count", sa.Integer, nullable=False),
    sa.Column("ndcg", sa.Double),
    sa.Column("recall", sa.Double),
    sa.Column("reciprocal_rank", sa.Double),
    sa.Column("precision", sa.Double),
    sa.Column("answered", sa.Double),
    sa.Column("statements_said", sa.Double),
    sa.Column("refused", sa.Double),
    sa.Column("groundedness", sa.Double),
    sa.Column("agent_id", sa.Uuid),
    sa.Column("failed_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("planned_count", sa.Integer),
    sa.Column("settings", JSONB(none_as_null=True)),
    sa.Index("ix_evaluation_runs_set", "evaluation_set_id", "evaluation_run_id"),
    sa.Index("ix_evaluation_runs_principal", "principal_id"),
)

# `ranks` are the positions of the first ten documents, by external id.
evaluation_results = table(
    "evaluation_results",
    sa.Column("evaluation_run_id", sa.Uuid, deleted_with("evaluation_runs.evaluation_run_id"), primary_key=True),
    sa.Column("case_id", sa.Uuid, deleted_with("evaluation_cases.case_id"), primary_key=True),
    sa.Column("ndcg", sa.Double),
    sa.Column("recall", sa.Double),
    sa.Column("reciprocal_rank", sa.Double),
    sa.Column("precision", sa.Double),
    sa.Column("answered", sa.Boolean),
    sa.Column("message_id", sa.Uuid),
    sa.Column("ranks", JSONB, nullable=False),
    sa.Column("statements_said", sa.Double),
    sa.Column("refused", sa.Boolean),
    sa.Column("groundedness", sa.Double),
    sa.Column("error", sa.Text),
    sa.Index("ix_evaluation_results_case", "case_id"),
)
