"""SQL that ends what people are signed in with: browsers, codes, consents and tokens of applications."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Table, delete, func, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import in_array
from service.schema.oauth import oauth_access_tokens, oauth_codes, oauth_consents, oauth_token_families
from service.schema.signin import browser_sessions, pending_sign_ins


async def delete_sessions_of(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> int:
    """Sign people out of every browser; return how many there were."""
    return await _delete_of(connection, organization_id, table=browser_sessions, principal_ids=principal_ids)


async def delete_pending_sign_ins_of(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> None:
    """Delete the sign-ins of people that wait for a second factor."""
    await _delete_of(connection, organization_id, table=pending_sign_ins, principal_ids=principal_ids)


async def delete_unused_codes_of(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> None:
    """Delete the codes of people that no application has used yet."""
    statement = delete(oauth_codes).where(
        oauth_codes.c.organization_id == organization_id,
        in_array(oauth_codes.c.principal_id, principal_ids),
        oauth_codes.c.used_at.is_(None),
    )
    await connection.execute(statement)


async def delete_consents_of(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> int:
    """Delete the consents of people; return how many there were."""
    return await _delete_of(connection, organization_id, table=oauth_consents, principal_ids=principal_ids)


async def revoke_families_of(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> int:
    """Revoke every token that applications have of people; return how many families of tokens worked until now.

    The families are updated first: a request that refreshes one has it locked until its new tokens are inserted.
    """
    revoked = await _revoke_of(connection, organization_id, table=oauth_token_families, principal_ids=principal_ids)
    await _revoke_of(connection, organization_id, table=oauth_access_tokens, principal_ids=principal_ids)
    return revoked


async def _revoke_of(
    connection: AsyncConnection, organization_id: UUID, *, table: Table, principal_ids: Collection[UUID]
) -> int:
    statement = update(table).where(
        table.c.organization_id == organization_id,
        in_array(table.c.principal_id, principal_ids),
        table.c.revoked_at.is_(None),
    )
    return (await connection.execute(statement.values(revoked_at=func.now()))).rowcount


async def _delete_of(
    connection: AsyncConnection, organization_id: UUID, *, table: Table, principal_ids: Collection[UUID]
) -> int:
    statement = delete(table).where(
        table.c.organization_id == organization_id, in_array(table.c.principal_id, principal_ids)
    )
    return (await connection.execute(statement)).rowcount
