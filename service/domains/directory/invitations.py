"""Invitations of users by admins: an address at which somebody sets a password, whether they had one or not."""

from urllib.parse import urlencode

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.fields import format_instant, normal_email
from carrel.wire.people import INVITATION_LIFETIME, AdminUsersInviteResponse
from service.audit.service import record
from service.auth.callers import Caller
from service.auth.queries import find_acting_user
from service.domains.signin import queries
from service.identity.queries import lock_organization
from service.platform import secrets
from service.platform.errors import BadRequest, FieldError
from service.runtime import Runtime

PATH = "/account/invitation"


async def invite_user(
    connection: AsyncConnection, caller: Caller, *, email: str, runtime: Runtime
) -> AdminUsersInviteResponse:
    """Make an invitation for an active user in place of the one they had; for admins. Only this response has its value.

    Raises BadRequest `unknown_user`.
    """
    await lock_organization(connection, caller.organization_id)
    person = await find_acting_user(connection, caller.organization_id, email=normal_email(email))
    if person is None:
        message = "There is no active user with this address in this organization."
        raise BadRequest(message, code="unknown_user", details=[FieldError("email", message)])
    secret, now = secrets.mint(secrets.INVITATION), await runtime.clock.now(connection)
    expires_at = now + INVITATION_LIFETIME
    row = {
        "principal_id": person.principal_id,
        "secret_hash": secret.hash,
        "created_at": now,
        "expires_at": expires_at,
    }
    await queries.put_invitation(connection, caller.organization_id, row=row)
    await record(
        connection,
        caller,
        action="user.invite",
        target_type="user",
        target_id=person.principal_id,
        details={"expiresAt": format_instant(expires_at)},
    )
    query = urlencode({"token": secret.value.get_secret_value()})
    return AdminUsersInviteResponse(url=f"{runtime.settings.issuer}{PATH}?{query}", expires_at=expires_at)
