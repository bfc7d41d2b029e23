"""Sources that runs load documents from, and their quarantine."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protect

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

PROTECTED = ("sources", "source_reports", "source_items")


def upgrade() -> None:
    """Add what is new."""
    _create_sources()
    _create_reports()
    _create_items()
    for table in PROTECTED:
        protect(table)


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), server_default=sa.text("0"), nullable=False)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _create_sources() -> None:
    op.create_table(
        "sources",
        sa.Column("source_id", sa.Uuid(), primary_key=True),
        _organization(),
        *_texts("ledger"),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        _number("latest_no"),
        sa.Column("shown_no", sa.Integer()),
        _number("item_count"),
        _number("ignored_count"),
        sa.Column("reported_at", sa.DateTime(timezone=True)),
    )
    op.create_index("uq_sources_ledger", "sources", ["organization_id", "principal_id", "ledger"], unique=True)
    op.create_index("ix_sources_organization", "sources", ["organization_id", "source_id"])


def _create_reports() -> None:
    source = sa.ForeignKey("sources.source_id", ondelete="CASCADE")
    op.create_table(
        "source_reports",
        sa.Column("source_id", sa.Uuid(), source, primary_key=True),
        sa.Column("report_no", sa.Integer(), primary_key=True, autoincrement=False),
        _organization(),
        *_texts("source"),
        sa.Column("collection_id", sa.Uuid()),
        sa.Column("fingerprint", sa.Text()),
        _number("sent_count"),
        sa.Column("begun_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
    )


def _create_items() -> None:
    op.create_table(
        "source_items",
        sa.Column("source_id", sa.Uuid(), primary_key=True),
        sa.Column("report_no", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("item_id", sa.Uuid(), primary_key=True),
        _organization(),
        *_texts("sort_key", "name", "place"),
        sa.Column("external_id", sa.Text()),
        *_texts("code", "message", "fingerprint"),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ignored", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id", "report_no"],
            ["source_reports.source_id", "source_reports.report_no"],
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_source_items_sorted", "source_items", ["source_id", "report_no", "sort_key", "item_id"])
