"""Ending what people are signed in with, for whoever deactivates them, and all access of those who leave for good."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.identity.queries import revoke_keys_of
from service.identity_server.leaving import queries
from service.identity_server.signin.factors.service import reset_factors
from service.identity_server.signin.queries import delete_identities, delete_invitations


@dataclass(frozen=True)
class EndedSignIns:
    """How much of what people were signed in with works no more."""

    browser_sessions: int
    consents: int
    token_families: int


@dataclass(frozen=True)
class Ended(EndedSignIns):
    """What a leaver had that works no more; `identities` and `factors` are numbers of what let them sign in."""

    api_key_ids: list[UUID]
    identities: int
    factors: int


async def end_sign_ins(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID], consents: bool = False
) -> EndedSignIns:
    """End the sessions, sign-ins that have begun, codes, tokens of applications and invitations of people, for good.

    With `consents`, what they allowed applications ends, too. Their API keys are refused while they are inactive. To be
    called before the people's own rows are changed: requests lock these in the same order.
    """
    if not principal_ids:
        return EndedSignIns(0, 0, 0)
    sessions = await queries.delete_sessions_of(connection, organization_id, principal_ids=principal_ids)
    await queries.delete_pending_sign_ins_of(connection, organization_id, principal_ids=principal_ids)
    await queries.delete_unused_codes_of(connection, organization_id, principal_ids=principal_ids)
    allowed = 0
    if consents:
        allowed = await queries.delete_consents_of(connection, organization_id, principal_ids=principal_ids)
    families = await queries.revoke_families_of(connection, organization_id, principal_ids=principal_ids)
    await delete_invitations(connection, organization_id, principal_ids=principal_ids)
    return EndedSignIns(sessions, allowed, families)


async def end_access(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> Ended:
    """End all that a person could sign in or be acted for with, for good: whoever comes back begins anew.

    The caller changes the person's own row afterwards, with the password in it: requests lock these in the same order.
    """
    ended = await end_sign_ins(connection, organization_id, principal_ids=[principal_id], consents=True)
    # Their address may be somebody else's by the time it comes back.
    identities = await delete_identities(connection, organization_id, principal_id=principal_id)
    factors = await reset_factors(connection, organization_id, principal_id=principal_id)
    keys = await revoke_keys_of(connection, organization_id, owner_id=principal_id)
    return Ended(ended.browser_sessions, ended.consents, ended.token_families, list(keys), identities, factors)
