"""SQL of the deployment's one row, which is no organization's."""

from sqlalchemy import column, func, select, table, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.database import APPLICATION_NAME
from service.schema.deployment import deployment


async def key_fingerprint(connection: AsyncConnection) -> bytes | None:
    """The fingerprint of the secret key this database was set up with; None when it has not been yet."""
    return (await connection.execute(select(deployment.c.key_fingerprint))).scalar_one_or_none()


async def insert_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Set it, unless it is set."""
    await connection.execute(insert(deployment).values(key_fingerprint=fingerprint).on_conflict_do_nothing())


async def lock_key_fingerprint(connection: AsyncConnection) -> bytes | None:
    """The same, which nobody else reads or changes before the transaction's end: a start waits. As the owner."""
    await connection.execute(text("LOCK TABLE deployment IN ACCESS EXCLUSIVE MODE"))
    return await key_fingerprint(connection)


async def count_services(connection: AsyncConnection) -> int:
    """How many connections services (and commands) have to this database."""
    activity = table("pg_stat_activity", column("datname"), column("application_name"))
    statement = select(func.count()).where(
        activity.c.datname == func.current_database(), activity.c.application_name == APPLICATION_NAME
    )
    return (await connection.execute(statement)).scalar_one()


async def replace_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Change it; as the database's owner, because the service may not."""
    await connection.execute(update(deployment).values(key_fingerprint=fingerprint))
