"""Listing and ending a person's sessions, without a cache: an ended session is refused at once."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import sessions as wire
from service.audit.service import record
from service.auth.callers import Caller
from service.identity.queries import revoke_keys_of
from service.identity_server.oauth.queries import EndedSignIns, delete_sign_ins, delete_unused_codes_of, revoke_families
from service.identity_server.sessions import queries
from service.identity_server.signin.factors.service import reset_factors
from service.identity_server.signin.queries import delete_identities, delete_invitations, require_user
from service.runtime import Runtime
from service.web.pagination import Cursor


async def list_sessions(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSessionsListRequest
) -> wire.AdminSessionsListResponse:
    """List a person's signed-in browsers and connected applications. Raises BadRequest `unknown_user`."""
    now = await runtime.clock.now(connection)
    cursor = Cursor.read(caller, operation=wire.ADMIN_SESSIONS_LIST.path, request=request)
    principal_id = await require_user(connection, caller, request.email)
    rows = await queries.list_sessions(
        connection, caller.organization_id, cursor.window, principal_id=principal_id, now=now
    )
    return cursor.answer(wire.AdminSessionsListResponse, rows, "session_id")


async def end_sessions(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSessionsEndRequest
) -> wire.AdminSessionsEndResponse:
    """End all or some of a person's sessions, from the next request on.

    Raises BadRequest `unknown_user`. Codes not yet exchanged by an application end too: they would begin a session."""
    now = await runtime.clock.now(connection)
    principal_id = await require_user(connection, caller, request.email)
    ended = await end_sessions_of(
        connection, caller.organization_id, principal_id=principal_id, ids=request.session_ids, now=now
    )
    if count := sum(ended.values()):
        await record(connection, caller, "session.end", "user", principal_id, details=ended)
    return wire.AdminSessionsEndResponse(ended_count=count)


async def end_sessions_of(
    connection: Connection,
    organization_id: UUID,
    *,
    principal_id: UUID,
    ids: Collection[UUID] | None = None,
    now: datetime,
) -> dict[str, int]:
    """End all sessions of a person, or only `ids`; return their numbers, in the audit log's form."""
    # Sessions, codes, tokens: the order in which requests and offboarding lock them.
    browsers = await queries.delete_browser_sessions(
        connection, organization_id, principal_id=principal_id, ids=ids, now=now
    )
    # Waits for concurrent exchanges of codes, whose tokens are then found.
    await delete_unused_codes_of(connection, organization_id, principal_ids=[principal_id])
    families = await queries.list_living_families(
        connection, organization_id, principal_id=principal_id, ids=ids, now=now
    )
    applications = await revoke_families(connection, organization_id, family_ids=families, now=now)
    return {"browserCount": browsers, "applicationCount": applications}


@dataclass(frozen=True)
class Ended(EndedSignIns):
    """Counts of the access ended when a person leaves; `identities` and `factors` are means of sign-in."""

    api_key_ids: list[UUID]
    identities: int
    factors: int


async def end_sign_ins(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID], consents: bool = False
) -> EndedSignIns:
    """End people's sessions, pending sign-ins, codes, tokens, invitations and, with `consents`, consents for good.
    Inactive people's API keys are refused anyway. Call before changing people's rows: requests lock in that order."""
    if not principal_ids:
        return EndedSignIns(0, 0, 0)
    ended = await delete_sign_ins(connection, organization_id, principal_ids=principal_ids, consents=consents)
    await delete_invitations(connection, organization_id, principal_ids=principal_ids)
    return ended


async def end_access(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> Ended:
    """End all of a person's access for good. Change the person's own row afterwards: requests lock in that order."""
    ended = await end_sign_ins(connection, organization_id, principal_ids=[principal_id], consents=True)
    # By the time the person returns, the address may be another person's.
    identities = await delete_identities(connection, organization_id, principal_id=principal_id)
    factors = await reset_factors(connection, organization_id, principal_id=principal_id)
    keys = await revoke_keys_of(connection, organization_id, owner_id=principal_id)
    return Ended(ended.browser_sessions, ended.consents, ended.token_families, list(keys), identities, factors)
