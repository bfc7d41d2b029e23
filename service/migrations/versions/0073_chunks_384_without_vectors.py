"""A chunk of 384 dimensions may have no vector in its row."""

from alembic import op

revision, down_revision, usable_from = "0073", "0072", "0057"


def upgrade() -> None:
    """Allow it. No row is without a vector until releases that expect one are refused (`service.operate.layout`)."""
    op.alter_column("chunks_384", "embedding", nullable=True)
