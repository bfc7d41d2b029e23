"""Taking somebody's second factor away when they have lost it: by an admin, or by an operator when no admin is left."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.fields import normal_email
from carrel.wire.people import AdminUsersResetSecondFactorRequest, AdminUsersResetSecondFactorResponse
from service.audit.service import Change, record, record_unattended
from service.auth.callers import Caller
from service.identity_server.signin.factors.service import reset_factors
from service.identity_server.signin.queries import find_person
from service.platform.errors import BadRequest, FieldError

ACTION = "secondFactor.reset"


async def reset_second_factor(
    connection: AsyncConnection, caller: Caller, *, request: AdminUsersResetSecondFactorRequest
) -> AdminUsersResetSecondFactorResponse:
    """Take all second factors and recovery codes of a user away, who has lost them.

    Raises BadRequest `unknown_user`.
    """
    organization_id = caller.organization_id
    person = await find_person(connection, organization_id, email=normal_email(request.email))
    if person is None:
        message = "There is no user with this address in this organization."
        raise BadRequest(message, code="unknown_user", details=[FieldError("email", message)])
    removed = await reset_factors(connection, organization_id, principal_id=person.principal_id)
    await record(connection, caller, action=ACTION, target_type="user", target_id=person.principal_id)
    return AdminUsersResetSecondFactorResponse(removed_count=removed)


async def reset_for_operator(connection: AsyncConnection, organization_id: UUID, *, email: str) -> bool:
    """Do so for an operator, whose rights are not checked; False when there is no such user."""
    person = await find_person(connection, organization_id, email=email)
    if person is None:
        return False
    await reset_factors(connection, organization_id, principal_id=person.principal_id)
    await record_unattended(connection, organization_id, change=Change(ACTION, "user", person.principal_id))
    return True
