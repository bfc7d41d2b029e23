"""Alembic's entry: it migrates the connection it is given, in one transaction."""

from typing import Any

from alembic import context

from service.migrations.job_queue import PREFIX
from service.migrations.tables import metadata


def _is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Leave out the job queue's tables: the library that they are of declares them nowhere but in SQL."""
    return kind != "table" or name is None or not name.startswith(PREFIX)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
    include_name=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
