"""Listing and revoking consents, by admins and by each person for themselves."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oauth_clients as wire
from carrel.wire.common import UserReference
from service.audit.service import Change, record_all
from service.auth.callers import Caller
from service.identity_server.oauth.clients import require_client
from service.identity_server.oauth.consented import queries
from service.identity_server.oauth.queries import families_of, revoke_families
from service.permissions.readers import find_referenced_principal
from service.runtime import Runtime
from service.web.pagination import Cursor


async def list_consents(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsListConsentsRequest
) -> wire.AdminOAuthClientsListConsentsResponse:
    """List people's consents to OAuth clients: time, collections and last use.

    Raises BadRequest `unknown_principal`."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_OAUTH_CLIENTS_LIST_CONSENTS.path, request=request)
    rows = await queries.list_consents(
        connection,
        caller.organization_id,
        principal_id=await _find_person(connection, caller, request.email),
        client_id=request.client_id,
        after=(UUID(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else queries.BEFORE_ALL,
        limit=cursor.limit,
    )
    return cursor.answer(wire.AdminOAuthClientsListConsentsResponse, rows, "client_id", "person_id")


async def withdraw_consents(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsWithdrawConsentsRequest
) -> wire.AdminOAuthClientsWithdrawConsentsResponse:
    """Revoke an OAuth client's consents, of all people or one person; its codes and tokens stop working at once.

    Each revocation is on the audit log. Raises NotFound for an unknown client, BadRequest `unknown_principal`."""
    now = await runtime.clock.now(connection)
    await require_client(connection, caller, request.client_id)
    person_id = await _find_person(connection, caller, request.email)
    whose = await withdraw_for(
        connection, caller.organization_id, client_id=request.client_id, principal_id=person_id, now=now
    )
    changes = [Change("consent.withdraw", "oauthClient", request.client_id, {"ownerId": str(item)}) for item in whose]
    await record_all(connection, caller, changes=changes)
    return wire.AdminOAuthClientsWithdrawConsentsResponse(withdrawn_count=len(whose))


async def withdraw_for(
    connection: Connection, organization_id: UUID, *, client_id: UUID, principal_id: UUID | None, now: datetime
) -> list[UUID]:
    """Delete consents to a client and revoke the client's tokens, optionally for a person; return people's ids."""
    found = await queries.delete_consents(connection, organization_id, client_id=client_id, principal_id=principal_id)
    # Concurrent exchanges and refreshes hold a lock, so this waits for them and finds the new tokens too.
    family_ids = await families_of(connection, organization_id, principal_ids=found, client_id=client_id)
    await revoke_families(connection, organization_id, family_ids=family_ids, now=now)
    return found


async def _find_person(connection: Connection, caller: Caller, email: str | None) -> UUID | None:
    if email is None:
        return None
    reference = UserReference(email=email)
    found = await find_referenced_principal(connection, caller.organization_id, reference, field="email")
    return found.principal_id
