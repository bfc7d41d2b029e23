"""SQL of the deployment's one row, which is no organization's."""

from sqlalchemy import column, func, select, table, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.database import APPLICATION_NAME
from service.schema.deployment import deployment


async def key_fingerprint(connection: AsyncConnection) -> bytes | None:
    """Return the fingerprint of the secret key that the database was set up with; None before the first start."""
    return (await connection.execute(select(deployment.c.key_fingerprint))).scalar_one_or_none()


async def insert_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Store the fingerprint of the secret key, unless there is one."""
    await connection.execute(insert(deployment).values(key_fingerprint=fingerprint).on_conflict_do_nothing())


async def lock_key_fingerprint(connection: AsyncConnection) -> bytes | None:
    """Lock the fingerprint against other readers and writers until the transaction ends, and return it.

    A service that starts waits meanwhile. Only the database's owner may lock it.
    """
    await connection.execute(text("LOCK TABLE deployment IN ACCESS EXCLUSIVE MODE"))
    return await key_fingerprint(connection)


async def count_services(connection: AsyncConnection) -> int:
    """Count the connections that services (and commands) have to this database."""
    activity = table("pg_stat_activity", column("datname"), column("application_name"))
    statement = select(func.count()).where(
        activity.c.datname == func.current_database(), activity.c.application_name == APPLICATION_NAME
    )
    return (await connection.execute(statement)).scalar_one()


async def replace_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Replace the fingerprint of the secret key; only the database's owner may."""
    await connection.execute(update(deployment).values(key_fingerprint=fingerprint))
