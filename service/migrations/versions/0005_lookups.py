"""Indexes by which look-ups walk resources without reading them, and find those of one type."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen one index and add two."""
    op.drop_index("ix_resources_object", "resources")
    op.create_index(
        "ix_resources_object", "resources", ["organization_id", "object_id"], postgresql_include=["access_class"]
    )
    op.create_index(
        "ix_resources_type",
        "resources",
        ["organization_id", "resource_type", "object_id"],
        postgresql_include=["access_class"],
    )
    op.create_index(
        "ix_resources_class_type", "resources", ["organization_id", "access_class", "resource_type", "object_id"]
    )
