"""Alembic's entry: it migrates the connection it is given, in one transaction."""

from alembic import context

from service.migrations.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transaction_per_migration=False
)
with context.begin_transaction():
    context.run_migrations()
