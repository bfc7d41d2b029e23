"""Migrations of tables in use, without making readers or writers wait."""

from collections.abc import Sequence
from typing import Any

from alembic import op


def add_index(name: str, table: str, columns: Sequence[Any], **options: Any) -> None:
    """Build an index of a table in use while writers continue, as a migration's only step, outside a transaction. A
    killed build's remains are removed first. The build waits, without limit, for earlier transactions."""
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        before = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
        op.execute("SET lock_timeout = 0")
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
        op.execute(f"SET lock_timeout = '{before}'")
