"""Indexes of the columns that refer to a principal or a space, so that deleting one reads no whole table."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

COLUMNS = (
    ("agents", "created_by"),
    ("api_keys", "owner_id"),
    ("caller_chunks", "space_id"),
    ("collections", "created_by"),
    ("collections", "space_id"),
    ("docstore_syncs", "principal_id"),
    ("document_versions", "created_by"),
    ("documents", "owner_id"),
    ("evaluation_runs", "principal_id"),
    ("evaluation_sets", "created_by"),
    ("index_rebuilds", "started_by"),
    ("oauth_access_tokens", "principal_id"),
    ("oauth_clients", "requested_by"),
    ("upstream_identities", "principal_id"),
)


def upgrade() -> None:
    """Add the indexes."""
    for table, column in COLUMNS:
        op.create_index(f"ix_{table}_{column.removesuffix('_id')}", table, [column])
