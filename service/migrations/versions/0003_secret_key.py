"""One secret key for the deployment instead of a key in every organization's row, and backups by the owner."""

import sqlalchemy as sa
from alembic import op

from service.migrations.row_security import protected_without_backup, show_to_backups
from service.platform.database import SERVICE_ROLE

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new, and drop the keys that nothing is signed with any more."""
    op.create_table(
        "deployment",
        sa.Column("only_row", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("key_fingerprint", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("only_row", name=op.f("ck_deployment_only_row")),
        sa.PrimaryKeyConstraint("only_row", name="pk_deployment"),
    )
    op.execute(f"GRANT SELECT, INSERT ON deployment TO {SERVICE_ROLE}")
    op.drop_column("organizations", "page_key")
    for table in protected_without_backup():
        show_to_backups(table)
