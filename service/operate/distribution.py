"""Spreading the index tables with Citus. A document's rows share a server; `SET LOCAL` carries row security."""

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from service.operate.deployment.queries import count_services, lock_key_fingerprint
from service.platform.database import BACKUP_SETTING, ORGANIZATION_SETTING, SERVICE_ROLE, owner_transaction
from service.platform.deployment_errors import ClusterError
from service.schema.indexing import INDEX_TABLES

INDEX_TABLE_NAMES = [table.name for tables in INDEX_TABLES.values() for table in tables.all]

# Citus policies can't have a sub-select. SET LOCAL can't have parameters, so its value is quoted.
_ORGANIZATION = f"organization_id = NULLIF(current_setting('{ORGANIZATION_SETTING}', true), '')::uuid"
_BACKUP = f"current_setting('{BACKUP_SETTING}', true) = 'on'"
_ENTER = f"""
    CREATE OR REPLACE FUNCTION enter_organization(organization text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        SET LOCAL citus.propagate_set_commands = local;
        EXECUTE 'SET LOCAL {ORGANIZATION_SETTING} = ' || quote_literal(organization);
        RETURN organization;
    END $$
"""
_PREPARE = (
    # The coordinator logs in to the servers as this role, which there also needs the sequence.
    f"ALTER ROLE {SERVICE_ROLE} LOGIN",
    f"GRANT USAGE ON SEQUENCE term_deltas_delta_id_seq TO {SERVICE_ROLE}",
    _ENTER,
)
_SPREAD = "SELECT table_name::text FROM citus_tables"
_PLACE = """
    SELECT create_distributed_table(
        %s::regclass, 'document_id', colocate_with => %s::text, shard_count => %s::integer
    )
"""
_INSTALLED = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_COUNT_SPREAD = "SELECT count(*) FROM pg_dist_partition WHERE logicalrelid = ANY (%s::text[]::regclass[])"
_WORKERS = "SELECT count(*) FROM pg_dist_node WHERE isactive AND shouldhaveshards AND noderole = 'primary'"


async def distribute_index(owner: URL, *, shards: int) -> int:
    """Spread undistributed index tables over `shards` parts; return the number of tables. Connects as superuser, in a
    single transaction. Raises ClusterError if a service is connected, or Citus or its workers aren't set up."""
    async with owner_transaction(owner) as connection:
        if not (await connection.exec_driver_sql(_INSTALLED)).scalar_one():
            raise ClusterError("The database has no Citus. To set up a coordinator and workers, see docs/scaling.md.")
        if not (await connection.exec_driver_sql(_WORKERS)).scalar_one():
            raise ClusterError("The coordinator knows no worker. Add each one: SELECT citus_add_node('host', 5432).")
        # A starting service waits for this lock, and then finds the distributed index.
        await lock_key_fingerprint(connection)
        if await count_services(connection):
            raise ClusterError("A service or command is connected to the database. Stop it on every machine first.")
        spread = set((await connection.exec_driver_sql(_SPREAD)).scalars())
        names = [name for name in INDEX_TABLE_NAMES if name not in spread]
        for statement in _PREPARE:
            await connection.exec_driver_sql(statement)
        for name in names:
            await _distribute(connection, name, shards=shards)
    return len(names)


def is_distributed(connection: Connection) -> bool:
    """Return whether the index is distributed. Raises ClusterError if a new version's tables aren't distributed."""
    if not connection.exec_driver_sql(_INSTALLED).scalar_one():
        return False
    spread = connection.exec_driver_sql(_COUNT_SPREAD, (INDEX_TABLE_NAMES,)).scalar_one()
    if 0 < spread < len(INDEX_TABLE_NAMES):
        raise ClusterError("This version has new index tables. Run: python -m service distribute-index.")
    return bool(spread)


async def _distribute(connection: AsyncConnection, name: str, *, shards: int) -> None:
    first = INDEX_TABLE_NAMES[0]
    statements = [
        # Citus can't check a foreign key to another server: removals delete these rows in their own transaction.
        f"ALTER TABLE {name} DROP CONSTRAINT fk_{name}_space_document",
        f"ALTER POLICY organization ON {name} USING ({_ORGANIZATION}) WITH CHECK ({_ORGANIZATION})",
        f"ALTER POLICY backup ON {name} USING ({_BACKUP})",
    ]
    if name.startswith("chunks"):
        # Under row-level security, only a function could use this index, and Citus would run it on the coordinator.
        statements.append(f"DROP INDEX ix_{name}_terms")
    for statement in statements:
        await connection.exec_driver_sql(statement)
    placed = (name, "none", shards) if name == first else (name, first, None)
    await connection.exec_driver_sql(_PLACE, placed)
