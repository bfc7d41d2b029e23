"""When vectors move to tables of their own: after the last release that reads vectors in chunk rows has ended."""

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from service.operate.deployment.queries import count_services, lock_key_fingerprint
from service.operate.distribution import refuse_older_releases
from service.platform.database import Database, owner_transaction

APART_SINCE = "0072"
"""The oldest schema whose code reads vectors apart; code that knows only older schemas is refused from then on."""

SETTLED_EVERY = 60.0

_IS_SETTLED = "SELECT coalesce(usable_from >= %s, false) FROM alembic_version"


async def is_settled(connection: AsyncConnection) -> bool:
    """Return whether releases are refused that look for vectors in the rows of chunks."""
    return bool((await connection.exec_driver_sql(_IS_SETTLED, (APART_SINCE,))).scalar_one())


async def refuse_vectors_inside(owner: URL) -> bool:
    """Refuse releases that read vectors in chunk rows, unless such a release is connected; return whether refused."""
    async with owner_transaction(owner) as connection:
        if await is_settled(connection):
            return True
        # A service that starts waits for this, and reads then what it may not do.
        await lock_key_fingerprint(connection)
        if await count_services(connection, older=True):
            return False
        await refuse_older_releases(connection, oldest=APART_SINCE)
        return True


async def refuse_vectors_inside_later(owner: URL, database: Database) -> None:
    """Refuse such releases after the last of them has ended; another process may have done so already."""
    if not database.vectors_apart:
        database.vectors_apart = await refuse_vectors_inside(owner)
