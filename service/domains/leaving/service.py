"""Ending what people are signed in with, for whoever deactivates them."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.leaving import queries
from service.domains.signin.queries import delete_invitations


async def end_sign_ins(connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]) -> None:
    """End the sessions, sign-ins that have begun, codes, tokens of applications and invitations of people, for good.

    Their API keys are refused while they are inactive. To be called before the people's own rows are changed: requests
    lock these in the same order.
    """
    if not principal_ids:
        return
    await queries.delete_sessions_of(connection, organization_id, principal_ids=principal_ids)
    await queries.delete_pending_sign_ins_of(connection, organization_id, principal_ids=principal_ids)
    await queries.delete_unused_codes_of(connection, organization_id, principal_ids=principal_ids)
    await queries.revoke_families_of(connection, organization_id, principal_ids=principal_ids)
    await delete_invitations(connection, organization_id, principal_ids=principal_ids)
