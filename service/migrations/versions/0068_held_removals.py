"""A document of a sync keeps what the sync's run did with it, and whether its removal is held or approved."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0068", "0067", None


def upgrade() -> None:
    """Add the columns, empty for what is there."""
    for name, kind in (("run_at", sa.DateTime(timezone=True)), ("outcome", sa.Text()), ("removal", sa.Text())):
        op.add_column("docstore_documents", sa.Column(name, kind))
