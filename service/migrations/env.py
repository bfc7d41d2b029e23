"""Alembic's entry point: migrates the given connection, each migration in a separate transaction. Otherwise the locks
of the first migration would be held until the last has built its indexes."""

from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text

from service.migrations.job_queue import PREFIX
from service.migrations.tables import metadata

_RAISE = "UPDATE alembic_version SET usable_from = :oldest WHERE usable_from IS NULL OR usable_from < :oldest"


def _is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Exclude the job queue's tables, declared by the library only in SQL."""
    return kind != "table" or name is None or not name.startswith(PREFIX)


def _keep_usable_from(ctx: MigrationContext, step: MigrationInfo, *_: Any, **__: Any) -> None:
    """Record the oldest schema version with code still able to use the database, if a migration has removed an object.
    A later bound stays, such as for an index spread over several servers."""
    usable_from = getattr(context.script.get_revision(step.up_revision_id or "").module, "usable_from", None)
    if usable_from is not None:
        assert ctx.connection is not None  # noqa: S101 - nothing is migrated without a database
        ctx.connection.execute(text(_RAISE), {"oldest": usable_from})


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
    on_version_apply=_keep_usable_from,
    include_name=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
