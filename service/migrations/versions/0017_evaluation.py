"""Evaluation sets with their cases, and what runs over them have measured."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLES = ("evaluation_sets", "evaluation_cases", "evaluation_runs", "evaluation_results")
SCORES = ("ndcg", "recall", "reciprocal_rank", "precision")


def upgrade() -> None:
    """Add the tables."""
    _create_sets()
    _create_cases()
    _create_runs()
    _create_results()
    for table in TABLES:
        protect(table)


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _person(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False)


def _moment(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _set() -> sa.Column[Any]:
    set_id = sa.ForeignKey("evaluation_sets.evaluation_set_id", ondelete="CASCADE")
    return sa.Column("evaluation_set_id", sa.Uuid(), set_id, nullable=False)


def _create_sets() -> None:
    op.create_table(
        "evaluation_sets",
        sa.Column("evaluation_set_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid()),
        sa.Column("agent_id", sa.Uuid()),
        _person("created_by"),
        _moment("created_at"),
    )
    op.create_index("uq_evaluation_sets_name", "evaluation_sets", ["organization_id", "name"], unique=True)
    columns = ["organization_id", "evaluation_set_id"]
    op.create_index("ix_evaluation_sets_organization", "evaluation_sets", columns)


def _create_cases() -> None:
    op.create_table(
        "evaluation_cases",
        sa.Column("case_id", sa.Uuid(), primary_key=True),
        _set(),
        _organization(),
        sa.Column("case_no", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("judgements", JSONB(), nullable=False),
    )
    op.create_index("ix_evaluation_cases_set", "evaluation_cases", ["evaluation_set_id", "case_no"])


def _create_runs() -> None:
    op.create_table(
        "evaluation_runs",
        sa.Column("evaluation_run_id", sa.Uuid(), primary_key=True),
        _set(),
        _organization(),
        _moment("at"),
        _person("principal_id"),
        *(sa.Column(name, sa.Text()) for name in ("mode", "model", "instructions_digest", "note")),
        sa.Column("case_count", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double) for name in (*SCORES, "answered")),
    )
    op.create_index("ix_evaluation_runs_set", "evaluation_runs", ["evaluation_set_id", "evaluation_run_id"])


def _create_results() -> None:
    run_id = sa.ForeignKey("evaluation_runs.evaluation_run_id", ondelete="CASCADE")
    case_id = sa.ForeignKey("evaluation_cases.case_id", ondelete="CASCADE")
    op.create_table(
        "evaluation_results",
        sa.Column("evaluation_run_id", sa.Uuid(), run_id, primary_key=True),
        sa.Column("case_id", sa.Uuid(), case_id, primary_key=True),
        _organization(),
        *(sa.Column(name, sa.Double) for name in SCORES),
        sa.Column("answered", sa.Boolean()),
        sa.Column("message_id", sa.Uuid()),
        sa.Column("ranks", JSONB(), nullable=False),
    )
    op.create_index("ix_evaluation_results_case", "evaluation_results", ["case_id"])
