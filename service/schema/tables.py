"""The columns that tables of the schema share."""

import sqlalchemy as sa
from sqlalchemy.sql.schema import SchemaItem

from service.platform.database import metadata


def table(name: str, *parts: SchemaItem) -> sa.Table:
    """Declare a table of rows that belong to an organization; `organization_id` is added unless it is a part."""
    if not any(isinstance(part, sa.Column) and part.name == "organization_id" for part in parts):
        organization = sa.ForeignKey("organizations.organization_id")
        parts = (sa.Column("organization_id", sa.Uuid, organization, nullable=False), *parts)
    return sa.Table(name, metadata, *parts)


def deleted_with(column: str) -> sa.ForeignKey:
    """Refer to the row that a row is deleted with."""
    return sa.ForeignKey(column, ondelete="CASCADE")
