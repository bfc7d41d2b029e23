"""Offboarding: ending a person's access in one transaction, then handing over; both parts can be repeated."""

from dataclasses import replace
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import owners as wire
from carrel.wire.admin import NamedGroup
from carrel.wire.fields import normal_email
from service.audit.service import Change, record_all
from service.auth.callers import Caller, unknown_user
from service.auth.queries import get_grantee
from service.domains.oversight.owners import queries
from service.domains.oversight.owners.transferring import Estate, find_new_owner, hand_over
from service.domains.people.directory.users import require_active_admin, to_user
from service.domains.people.service_accounts.queries import list_tokens_made_by
from service.identity import queries as identity
from service.identity.principals import to_named_principal
from service.identity.queries import Principal, PrincipalSummary, leave_groups
from service.identity_server.interface import end_access
from service.platform.errors import BadRequest, Conflict, FieldError
from service.runtime import Runtime

_Request: TypeAlias = wire.AdminUsersPlanOffboardingRequest | wire.AdminUsersOffboardRequest


async def plan_offboarding(
    runtime: Runtime, caller: Caller, *, request: wire.AdminUsersPlanOffboardingRequest
) -> wire.AdminUsersPlanOffboardingResponse:
    """Say what offboarding a user would end at once, what they own, and what nobody else reads.

    All from one moment."""
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
        person, new_owner = await _find_both(connection, caller, request)
        person_id = person.principal_id
        now = await runtime.clock.now(connection)
        held = await queries.read_held_access(connection, organization_id, principal_id=person_id, now=now)
        keys = await identity.list_working_keys_of(connection, organization_id, owner_id=person_id)
        groups = await queries.list_groups_of(connection, organization_id, member_id=person_id)
        grantee = await get_grantee(connection, organization_id, principal_id=person_id)
        # As if they were active: what nobody else reads must not seem to be nothing once their access has ended.
        only_reader = (
            []
            if grantee is None
            else await queries.count_read_alone(
                connection, organization_id, person=replace(grantee, active=True), person_id=person_id
            )
        )
        return wire.AdminUsersPlanOffboardingResponse(
            user=to_user(person),
            new_owner=None if new_owner is None else to_named_principal(new_owner),
            api_keys=keys,
            **held,
            groups=[NamedGroup(id=group.principal_id, name=group.name) for group in groups],
            owned=await queries.count_owned(connection, organization_id, owner_id=person_id),
            only_reader=only_reader,
            made_tokens=await list_tokens_made_by(connection, organization_id, person_id=person_id),
        )


async def offboard(
    runtime: Runtime, caller: Caller, *, request: wire.AdminUsersOffboardRequest
) -> wire.AdminUsersOffboardResponse:
    """End all access of a user, then hand over what they own; send again while some remains."""
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        await identity.lock_organization(connection, organization_id)
        person, new_owner = await _find_both(connection, caller, request)
        person_id = person.principal_id
        owned = await queries.count_owned(connection, organization_id, owner_id=person_id)
        if owned and new_owner is None:
            message = "They own something. Name who gets it; admin/users/planOffboarding says what it is."
            raise BadRequest(message, code="new_owner_required", details=[FieldError("newOwner", message)])
        ended = await _end_access(connection, caller, person)
    handover = wire.Handover(transferred=[], remaining=owned)
    if request.new_owner is not None:
        handover = await hand_over(runtime, caller, Estate(person_id, request.new_owner))
    user = to_user(replace(person, active=False, is_admin=False))
    return wire.AdminUsersOffboardResponse(user=user, ended=ended, **dict(handover))


async def _find_both(
    connection: Connection, caller: Caller, request: _Request
) -> tuple[Principal, PrincipalSummary | None]:
    found = await identity.find_principals(connection, caller.organization_id, emails=[normal_email(request.email)])
    person = next((one for one in found if one.kind == "user"), None)
    if person is None:
        raise unknown_user("email", active=False)
    if person.principal_id == caller.principal_id:
        raise Conflict("You can't offboard yourself. Ask another admin.", code="own_account")
    if request.new_owner is None:
        return person, None
    return person, await find_new_owner(connection, caller, request.new_owner, owner_id=person.principal_id)


async def _end_access(connection: Connection, caller: Caller, person: Principal) -> wire.EndedAccess:
    """Deactivate a user, and end whatever somebody could sign in or act as them with, and their memberships."""
    organization_id, person_id = caller.organization_id, person.principal_id
    inactive = replace(person, active=False, is_admin=False, password_hash=None)
    left = await end_access(connection, organization_id, principal_id=person_id)
    await identity.put_principals(connection, organization_id, rows=[inactive])
    await require_active_admin(connection, organization_id)
    ended = wire.EndedAccess(
        api_key_count=len(left.api_key_ids),
        browser_session_count=left.browser_sessions,
        application_count=left.consents,
        application_token_count=left.token_families,
        group_ids=sorted(await leave_groups(connection, organization_id, member_id=person_id)),
    )
    if inactive != person or ended != _NOTHING or left.identities or left.factors:
        details = ended.model_dump(mode="json", by_alias=True)
        changes = [
            Change("user.offboard", "user", person_id, details),
            *(Change("apiKey.revoke", "apiKey", key_id) for key_id in left.api_key_ids),
            *(Change("group.members", "group", one, {"removed": [str(person_id)]}) for one in ended.group_ids),
        ]
        await record_all(connection, caller, changes=changes)
    return ended


_NOTHING = wire.EndedAccess(
    api_key_count=0, browser_session_count=0, application_count=0, application_token_count=0, group_ids=[]
)
