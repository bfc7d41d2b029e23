"""Failing abandoned turns: turns that are unfinished although no job answers them."""

from datetime import timedelta
from uuid import UUID

from service.domains.agents.conversations import outcomes, queries
from service.domains.agents.conversations.jobs import enqueue_next
from service.identity.queries import organization_ids
from service.platform.background import for_each_organization
from service.platform.errors import Unavailable
from service.runtime import Runtime

EVERY_SECONDS = 60
AT_ONCE = 100
# Beyond the longest that a reply may take, so that none is given up while a worker is at it.
PATIENCE = timedelta(minutes=10)


async def expire_turns(runtime: Runtime) -> int:
    """Fail the abandoned turns of every organization; return their number."""
    expired = 0

    async def expire(organization_id: UUID) -> None:
        nonlocal expired
        expired += await _expire_turns_in(runtime, organization_id)

    await for_each_organization(await organization_ids(runtime.database), expire)
    return expired


async def _expire_turns_in(runtime: Runtime, organization_id: UUID) -> int:
    patience = PATIENCE + timedelta(seconds=2 * runtime.settings.model_seconds)
    async with runtime.database.transaction(organization_id) as connection:
        before = await runtime.clock.now(connection) - patience
        found = await queries.list_abandoned(connection, organization_id, before=before, limit=AT_ONCE)
    for turn_id in found:
        await _fail(runtime, organization_id, turn_id)
    return len(found)


async def _fail(runtime: Runtime, organization_id: UUID, turn_id: UUID) -> None:
    error = Unavailable("The service lost this message before it was answered. Send it again.", code="reply_lost")
    async with runtime.database.transaction(organization_id) as connection:
        await queries.lock_conversation_of(connection, organization_id, turn_id=turn_id)
        work = await queries.get_work(connection, organization_id, turn_id=turn_id)
        if work is not None and await outcomes.fail(connection, work, attempt=work.attempt, error=error):
            await enqueue_next(runtime, connection, organization_id, conversation_id=work.conversation_id)
