"""Purging expired codes, tokens, sessions and failed attempts."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity_server.oauth import queries
from service.identity_server.signin import queries as sign_in_queries
from service.runtime import Runtime

# How long expired credentials are still recognized.
KEPT = timedelta(days=1)


async def purge(runtime: Runtime, connection: Connection, organization_id: UUID) -> None:
    """Delete rows expired more than a day ago, unless still needed to detect a theft."""
    now = await runtime.clock.now(connection)
    await queries.delete_expired(connection, organization_id, now=now, kept=KEPT)
    await sign_in_queries.delete_expired(connection, organization_id, now=now)
