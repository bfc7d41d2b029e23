"""SQL of the deployment's one row, which is no organization's."""

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.deployment.tables import deployment


async def key_fingerprint(connection: AsyncConnection) -> bytes | None:
    """The fingerprint of the secret key this database was set up with; None when it has not been yet."""
    return (await connection.execute(select(deployment.c.key_fingerprint))).scalar_one_or_none()


async def insert_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Set it, unless it is set."""
    await connection.execute(insert(deployment).values(key_fingerprint=fingerprint).on_conflict_do_nothing())


async def replace_key_fingerprint(connection: AsyncConnection, *, fingerprint: bytes) -> None:
    """Change it; as the database's owner, because the service may not."""
    await connection.execute(update(deployment).values(key_fingerprint=fingerprint))
