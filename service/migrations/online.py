"""What migrations do to tables in use, so that nobody who reads or writes there waits for it."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def note_changes(table: str) -> None:
    """Have a table's rows tell by which transaction they were written last; servers of a cluster take no trigger."""
    op.add_column(table, sa.Column("changed_in", sa.BigInteger))
    if op.get_bind().exec_driver_sql("SELECT to_regclass('pg_dist_partition')").scalar_one() is None:
        op.execute(
            f"CREATE TRIGGER note_change BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION note_change()"
        )


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


def add_index_of_changes(table: str) -> None:
    """Build the index of the rows of a table that `note_changes` knows."""
    noted = sa.text("changed_in IS NOT NULL")
    add_index(f"ix_{table}_changed", table, ["space_id", "changed_in"], postgresql_where=noted)
