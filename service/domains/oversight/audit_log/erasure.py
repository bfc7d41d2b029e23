"""Erasing people's texts, by age or person; the entries of both logs stay, with ids and times."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import normal_email
from service.audit import queries
from service.audit.service import Change, record_unattended
from service.domains.agents.conversations.queries import delete_conversations_before, delete_conversations_of
from service.domains.agents.definitions.queries import delete_versions
from service.domains.search.own.queries import delete_saved
from service.identity.queries import find_principals, organization_ids
from service.platform.background import for_each_organization
from service.platform.database import Database
from service.platform.errors import NotFound
from service.platform.identifiers import first_uuid7_at
from service.runtime import Runtime

EVERY_SECONDS = 3600
# The most texts in one transaction, so that no statement reaches its time limit.
AT_ONCE = 10_000
CONVERSATIONS_AT_ONCE = 500


async def erase_old(runtime: Runtime, *, days: int) -> None:
    """Erase the texts over `days` old in every organization, once the disks have room."""
    await runtime.disk.wait_for_room(even_low=True)
    await erase_before(runtime.database, moment=datetime.now(UTC) - timedelta(days=days))


async def erase_before(database: Database, *, moment: datetime) -> int:
    """Erase and count texts written before `moment`, everywhere; conversations by their newest message."""
    erased = 0

    async def erase(organization_id: UUID) -> None:
        nonlocal erased
        while count := await _erase_some(database, organization_id, moment):
            erased += count

    await for_each_organization(await organization_ids(database), erase)
    return erased


async def erase_person(database: Database, *, email: str) -> int:
    """Erase and count all texts of the person with an address, in every organization, each with an audit log entry.
    Texts are queries, comments and messages by the person or by a key for the person, saved agent versions,
    conversations with all replies, and saved searches with all filters. Raises NotFound for an unknown address."""
    known = erased = 0
    for organization_id in await organization_ids(database):
        async with database.transaction(organization_id) as connection:
            count = await erase_person_in(connection, organization_id, email=email)
        if count is not None:
            known += 1
            erased += count
    if not known:
        raise NotFound("No person has this address. Check its spelling.", code="unknown_user")
    return erased


async def erase_person_in(connection: Connection, organization_id: UUID, *, email: str) -> int | None:
    """Erase a person's texts in one organization, and return their number; None for an unknown address."""
    people = await find_principals(connection, organization_id, emails=[normal_email(email)], ids=())
    if not people:
        return None
    [person] = people
    count = await queries.delete_texts_of(connection, organization_id, principal_id=person.principal_id)
    count += await delete_conversations_of(connection, organization_id, principal_id=person.principal_id)
    count += await delete_versions(connection, organization_id, saved_by=person.principal_id)
    count += await delete_saved(connection, organization_id, principal_id=person.principal_id)
    if count:
        change = Change("texts.erase", person.kind, person.principal_id, {"texts": count})
        await record_unattended(connection, organization_id, change=change)
    return count


async def _erase_some(database: Database, organization_id: UUID, moment: datetime) -> int:
    async with database.transaction(organization_id) as connection:
        texts = await queries.delete_texts_before(
            connection, organization_id, before=first_uuid7_at(moment), limit=AT_ONCE
        )
        return texts + await delete_conversations_before(
            connection, organization_id, before=moment, limit=CONVERSATIONS_AT_ONCE
        )
