"""Evaluation sets: questions with judged documents, and what runs over them have measured."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.schema.tables import deleted_with, table

# `collection_id` and `agent_id` refer to nothing: a set outlives what it is about, since its judgements cost work.
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

# `case_id` is UUIDv5(set, question), since a question can be longer than an index takes. `judgements` are the grades by
# external id in one value, so that two people who judge at once each add to it. `case_no` is the order of addition.
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

# The means are of what was measured then; cases that are removed later don't change them. Runs of before have no
# `agent_id`: they asked the set's. A run that was ended half-way has fewer results than its `planned_count`.
# `settings` are what the agent was told, and how it looked things up, when the run began.
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

# `ranks` are the places of the first ten documents by external id.
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
