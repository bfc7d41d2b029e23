"""Marks by which a standby of the database is told from any other server."""

import sqlalchemy as sa
from alembic import op

from service.platform.database import SERVICE_ROLE

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns to the deployment's one row."""
    marks = sa.Column(
        "replication_marks", sa.ARRAY(sa.Uuid()), nullable=False, server_default=sa.text("ARRAY[gen_random_uuid()]")
    )
    marked_at = sa.Column(
        "replication_marked_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("'-infinity'")
    )
    timeline = sa.Column("replication_timeline", sa.Text(), nullable=False, server_default="")
    for column in (marks, marked_at, timeline):
        op.add_column("deployment", column)
    written = "replication_marks, replication_marked_at, replication_timeline"
    op.execute(f"GRANT UPDATE ({written}) ON deployment TO {SERVICE_ROLE}")
