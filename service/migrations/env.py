"""Alembic's entry point: a transaction for each migration, so no lock is held while later indexes are built."""

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
    """Record the oldest usable schema version if a migration has removed an object. A later bound stays."""
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
