"""Documents that are files in another document: their container, whose access they have, and how many are done."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, and the key by which a file can't have another access class than its container.

    The key's index takes some seconds for a million documents. Nothing is in a container yet.
    """
    op.add_column("resources", sa.Column("container_id", sa.Uuid()))
    op.create_unique_constraint("uq_resources_object_id_access_class", "resources", ["object_id", "access_class"])
    op.create_foreign_key(
        "fk_resources_container_id_access_class",
        "resources",
        "resources",
        ["container_id", "access_class"],
        ["object_id", "access_class"],
    )
    op.create_index(
        "ix_resources_container",
        "resources",
        ["container_id", "access_class"],
        postgresql_where=sa.text("container_id IS NOT NULL"),
    )
    op.add_column("document_versions", sa.Column("file_count", sa.Integer()))
    op.add_column("document_versions", sa.Column("files_done", sa.Integer()))
