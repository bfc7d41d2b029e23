"""What migrations do to tables in use, so that nobody who reads or writes there waits for it."""

from collections.abc import Sequence
from typing import Any

from alembic import op


def add_index(name: str, table: str, columns: Sequence[Any], **options: Any) -> None:
    """Build an index of a table in use while others write to it, as the only step of a migration.

    It is in no transaction: what was left of one whose migration was killed is removed first. It waits, as long as it
    takes, for transactions that have begun before, and nobody waits for it."""
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        before = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
        op.execute("SET lock_timeout = 0")
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
        op.execute(f"SET lock_timeout = '{before}'")
