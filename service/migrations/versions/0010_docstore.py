"""Syncs with outside document databases, what they brought, and what they could not take."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import protect

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

PROTECTED = ("docstore_documents", "docstore_failures", "docstore_syncs")
COUNTS = ("read_count", "created_count", "updated_count", "unchanged_count", "deleted_count")


def upgrade() -> None:
    """Add what is new."""
    _create_syncs()
    _create_documents()
    _create_failures()
    for table in PROTECTED:
        protect(table)


def _organization() -> sa.Column[Any]:
    return sa.Column("organization_id", sa.Uuid(), sa.ForeignKey("organizations.organization_id"), nullable=False)


def _sync(**options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey("docstore_syncs.sync_id", ondelete="CASCADE")
    return sa.Column("sync_id", sa.Uuid(), key, **options)


def _time(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), **options)


def _now(name: str) -> sa.Column[Any]:
    return _time(name, server_default=sa.func.now(), nullable=False)


def _number(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, server_default=sa.text("0"), nullable=False)


def _create_syncs() -> None:
    collection = sa.ForeignKey("collections.collection_id", ondelete="CASCADE")
    op.create_table(
        "docstore_syncs",
        sa.Column("sync_id", sa.Uuid(), primary_key=True),
        _organization(),
        sa.Column("collection_id", sa.Uuid(), collection, nullable=False),
        sa.Column("principal_id", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("credential_id", sa.Uuid(), nullable=False),
        sa.Column("acting_through_id", sa.Uuid()),
        sa.Column("sealed_uri", sa.LargeBinary()),
        sa.Column("config", JSONB(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'PENDING'"), nullable=False),
        _number("attempt", sa.Integer()),
        sa.Column("cursor", JSONB()),
        _number("listing_no", sa.Integer()),
        *(_number(name, sa.BigInteger()) for name in COUNTS),
        sa.Column("warning_code", sa.Text()),
        sa.Column("warning_message", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        _now("created_at"),
        _now("updated_at"),
        _time("started_at"),
        _time("progress_at"),
        _time("finished_at"),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')", name=op.f("ck_docstore_syncs_status")
        ),
    )
    op.create_index("ix_docstore_syncs_collection", "docstore_syncs", ["collection_id"])
    op.create_index("ix_docstore_syncs_organization", "docstore_syncs", ["organization_id", "sync_id"])


def _create_documents() -> None:
    op.create_table(
        "docstore_documents",
        sa.Column("document_id", sa.Uuid(), primary_key=True),
        _sync(primary_key=True),
        _organization(),
        _number("listing_no", sa.Integer()),
    )
    op.create_index("ix_docstore_documents_sync", "docstore_documents", ["sync_id", "listing_no"])


def _create_failures() -> None:
    op.create_table(
        "docstore_failures",
        sa.Column("document_id", sa.Uuid(), primary_key=True),
        _sync(primary_key=True),
        _organization(),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        _now("failed_at"),
    )
    op.create_index("ix_docstore_failures_sync", "docstore_failures", ["sync_id", "document_id"])
