"""Rebuilding an index beside the one that is searched, also with vectors of other lengths."""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC

from service.migrations.row_security import protect

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

DIMENSIONS = (768, 1024, 1536)
SLOTS = tuple(f"c{number}" for number in range(1, 9))


def upgrade() -> None:
    """Add what is new."""
    _extend_spaces()
    _create_rebuilds()
    protect("index_rebuilds")
    for dimensions in DIMENSIONS:
        _create_chunks(dimensions)
        _create_code_pages(dimensions)


def _extend_spaces() -> None:
    for name in ("replaces", "replaced_by"):
        column = f"{name}_space_id"
        op.add_column("spaces", sa.Column(column, sa.Integer()))
        op.create_foreign_key(f"fk_spaces_{column}", "spaces", "spaces", [column], ["space_id"])
    op.add_column("spaces", sa.Column("retired_at", sa.DateTime(timezone=True)))
    op.create_index(
        "uq_spaces_replaces",
        "spaces",
        ["replaces_space_id"],
        unique=True,
        postgresql_where=sa.text("replaces_space_id IS NOT NULL"),
    )
    op.create_index(
        "ix_spaces_replaced_by",
        "spaces",
        ["replaced_by_space_id"],
        postgresql_where=sa.text("replaced_by_space_id IS NOT NULL"),
    )


def _create_rebuilds() -> None:
    organization = sa.ForeignKey("organizations.organization_id")
    collection = sa.ForeignKey("collections.collection_id", ondelete="CASCADE")
    op.create_table(
        "index_rebuilds",
        sa.Column("rebuild_id", sa.Uuid(), primary_key=True),
        sa.Column("organization_id", sa.Uuid(), organization, nullable=False),
        sa.Column("collection_id", sa.Uuid(), collection),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("previous_model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'RUNNING'"), nullable=False),
        sa.Column("forced", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("left_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_by", sa.Uuid(), sa.ForeignKey("principals.principal_id"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("status IN ('RUNNING', 'COMPLETED', 'CANCELLED')", name=op.f("ck_index_rebuilds_status")),
    )
    op.create_index("ix_index_rebuilds_collection", "index_rebuilds", ["organization_id", "collection_id"])
    op.create_index(
        "ix_index_rebuilds_running",
        "index_rebuilds",
        ["organization_id"],
        postgresql_where=sa.text("status = 'RUNNING'"),
    )


def _create_chunks(dimensions: int) -> None:
    name = f"chunks_{dimensions}"
    op.create_table(
        name,
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("chunk_no", sa.Integer(), nullable=False),
        sa.Column("terms", SPARSEVEC(2**29), nullable=False),
        sa.Column("embedding", HALFVEC(dimensions), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        _of_document_in_space(name),
        sa.PrimaryKeyConstraint("document_id", "space_id", "chunk_no", name=f"pk_{name}"),
    )
    # Read with every search, so kept in the row; what makes room is the text, which few searches read of a row.
    op.execute(f"ALTER TABLE {name} ALTER embedding SET STORAGE PLAIN, ALTER terms SET STORAGE MAIN")
    op.create_index(f"ix_{name}_class", name, ["organization_id", "space_id", "access_class"])
    _finish(name, often=0.02)


def _create_code_pages(dimensions: int) -> None:
    name = f"code_pages_{dimensions}"
    op.create_table(
        name,
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("page_no", sa.Integer(), nullable=False),
        *(sa.Column(slot, BIT(dimensions)) for slot in SLOTS),
        _of_document_in_space(name),
        sa.PrimaryKeyConstraint("document_id", "space_id", "page_no", name=f"pk_{name}"),
    )
    op.create_index(
        f"ix_{name}_class",
        name,
        ["organization_id", "space_id", "access_class"],
        postgresql_include=["document_id", *SLOTS],
    )
    _finish(name, often=0.01)


def _of_document_in_space(table: str) -> sa.ForeignKeyConstraint:
    columns = ["document_id", "space_id"]
    return sa.ForeignKeyConstraint(
        columns, [f"space_documents.{column}" for column in columns], name=f"fk_{table}_space_document"
    )


def _finish(table: str, *, often: float) -> None:
    # An index-only scan is one only over pages that vacuum has seen: see to them often.
    op.execute(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = {often},"
        f" autovacuum_vacuum_insert_scale_factor = {often}, autovacuum_analyze_scale_factor = 0.05)"
    )
    protect(table)
