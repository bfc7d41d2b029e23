"""Evaluation sets: questions with judged documents, and what runs over them have measured."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata

# `collection_id` and `agent_id` refer to nothing: a set outlives what it is about, since its judgements cost work.
evaluation_sets = Table(
    "evaluation_sets",
    metadata,
    Column("evaluation_set_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("collection_id", Uuid),
    Column("agent_id", Uuid),
    Column("created_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("uq_evaluation_sets_name", "organization_id", "name", unique=True),
    Index("ix_evaluation_sets_organization", "organization_id", "evaluation_set_id"),
    Index("ix_evaluation_sets_created_by", "created_by"),
)

# `case_id` is UUIDv5(set, question), since a question can be longer than an index takes. `judgements` are the grades by
# external id in one value, so that two people who judge at once each add to it. `case_no` is the order of addition.
evaluation_cases = Table(
    "evaluation_cases",
    metadata,
    Column("case_id", Uuid, primary_key=True),
    Column(
        "evaluation_set_id", Uuid, ForeignKey("evaluation_sets.evaluation_set_id", ondelete="CASCADE"), nullable=False
    ),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("case_no", BigInteger, Identity(always=True), nullable=False),
    Column("question", Text, nullable=False),
    Column("note", Text),
    Column("judgements", JSONB, nullable=False),
    Column("statements", JSONB(none_as_null=True), nullable=False, server_default=text("'[]'")),
    Column("nothing_answers", Boolean, nullable=False, server_default=text("false")),
    Index("ix_evaluation_cases_set", "evaluation_set_id", "case_no"),
)

# The means are of what was measured then; cases that are removed later don't change them. Runs of before have no
# `agent_id`: they asked the set's. A run that was ended half-way has fewer results than its `planned_count`.
# `settings` are what the agent was told, and how it looked things up, when the run began.
evaluation_runs = Table(
    "evaluation_runs",
    metadata,
    Column("evaluation_run_id", Uuid, primary_key=True),
    Column(
        "evaluation_set_id", Uuid, ForeignKey("evaluation_sets.evaluation_set_id", ondelete="CASCADE"), nullable=False
    ),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("mode", Text),
    Column("model", Text),
    Column("instructions_digest", Text),
    Column("note", Text),
    Column("case_count", Integer, nullable=False),
    Column("ndcg", Double),
    Column("recall", Double),
    Column("reciprocal_rank", Double),
    Column("precision", Double),
    Column("answered", Double),
    Column("statements_said", Double),
    Column("refused", Double),
    Column("groundedness", Double),
    Column("agent_id", Uuid),
    Column("failed_count", Integer, nullable=False, server_default=text("0")),
    Column("planned_count", Integer),
    Column("settings", JSONB(none_as_null=True)),
    Index("ix_evaluation_runs_set", "evaluation_set_id", "evaluation_run_id"),
    Index("ix_evaluation_runs_principal", "principal_id"),
)

# `ranks` are the places of the first ten documents by external id.
evaluation_results = Table(
    "evaluation_results",
    metadata,
    Column(
        "evaluation_run_id", Uuid, ForeignKey("evaluation_runs.evaluation_run_id", ondelete="CASCADE"), primary_key=True
    ),
    Column("case_id", Uuid, ForeignKey("evaluation_cases.case_id", ondelete="CASCADE"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("ndcg", Double),
    Column("recall", Double),
    Column("reciprocal_rank", Double),
    Column("precision", Double),
    Column("answered", Boolean),
    Column("message_id", Uuid),
    Column("ranks", JSONB, nullable=False),
    Column("statements_said", Double),
    Column("refused", Boolean),
    Column("groundedness", Double),
    Column("error", Text),
    Index("ix_evaluation_results_case", "case_id"),
)
