"""The newest feedback on a search beside the search itself, where the search log can be narrowed to it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and what finds searches by it, and fill it from the audit log."""
    op.add_column("searches", sa.Column("feedback", sa.Text()))
    _fill()
    op.create_index(
        "ix_searches_feedback",
        "searches",
        ["organization_id", "feedback", "at", "search_id"],
        postgresql_where=sa.text("feedback IS NOT NULL"),
    )
    op.create_index(
        "ix_searches_without_results",
        "searches",
        ["organization_id", "at", "search_id"],
        postgresql_where=sa.text("result_count = 0"),
    )


def _fill() -> None:
    # Row-level security holds back an owner who is no superuser, unless it is told otherwise.
    for table in ("searches", "audit_entries"):
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(
        """
        UPDATE searches SET feedback = newest.feedback
        FROM (
            SELECT DISTINCT ON (organization_id, target_id)
                   organization_id, target_id::uuid AS search_id, details ->> 'feedback' AS feedback
            FROM audit_entries WHERE action = 'search.feedback'
            ORDER BY organization_id, target_id, at DESC, audit_log_id DESC
        ) newest
        WHERE searches.search_id = newest.search_id AND searches.organization_id = newest.organization_id
        """
    )
    for table in ("searches", "audit_entries"):
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
