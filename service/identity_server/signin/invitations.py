"""Invitations: an admin makes an address at which a user sets a password, once, whether they had a password or not. An
invitation that is unknown, used, too old, or of a user who may not sign in is refused in the same words."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import format_instant, normal_email
from carrel.wire.people import INVITATION_LIFETIME, AdminUsersInviteRequest, AdminUsersInviteResponse
from service.audit.service import Change, record, record_for
from service.auth.callers import Caller, unknown_user
from service.auth.queries import find_acting_user
from service.identity.passwords import hash_password
from service.identity.queries import get_organization, lock_organization
from service.identity_server.signin import queries
from service.identity_server.signin.attempts import Attempt
from service.identity_server.signin.passwords import begin_sign_in
from service.identity_server.signin.sessions import Browser
from service.platform import secrets
from service.platform.errors import Conflict, NotFound
from service.runtime import Runtime

PATH = "/account/invitation"


@dataclass(frozen=True)
class Invited:
    """A person with an open invitation, and their organization's name."""

    person: queries.Person
    organization_name: str


async def invite_user(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: AdminUsersInviteRequest
) -> AdminUsersInviteResponse:
    """Make an address at which a user sets a password, once; shown this once. It takes the place of the one that they
    had. Raises BadRequest `unknown_user`, Conflict `passwords_off`."""
    await lock_organization(connection, caller.organization_id)
    if not (await get_organization(connection, caller.organization_id)).passwords_enabled:
        message = "Passwords are switched off here: people sign in at the organization's provider."
        raise Conflict(message, code="passwords_off")
    person = await find_acting_user(connection, caller.organization_id, email=normal_email(request.email))
    if person is None:
        raise unknown_user("email")
    secret, now = secrets.mint(secrets.INVITATION), await runtime.clock.now(connection)
    expires_at = now + INVITATION_LIFETIME
    row = {"principal_id": person.principal_id, "secret_hash": secret.hash, "created_at": now, "expires_at": expires_at}
    await queries.put_invitation(connection, caller.organization_id, row=row)
    details = {"expiresAt": format_instant(expires_at)}
    await record(connection, caller, "user.invite", "user", person.principal_id, details=details)
    query = urlencode({"token": secret.value.get_secret_value()})
    return AdminUsersInviteResponse(url=f"{runtime.settings.issuer}{PATH}?{query}", expires_at=expires_at)


async def find_invited(runtime: Runtime, token: SecretStr) -> Invited:
    """Find the person of an open invitation. Raises NotFound `invitation_not_found`."""
    async with _open_invitation(runtime, token) as (_, invited):
        return invited


async def accept_invitation(
    runtime: Runtime, token: SecretStr, *, password: SecretStr, browser: Browser
) -> tuple[Invited, Browser]:
    """Set the password of an invited person, end the invitation, and sign the browser in; return its new value.
    Sessions that began with another password end, and failed attempts to sign in are forgotten. Raises NotFound
    `invitation_not_found`."""
    await find_invited(runtime, token)  # hashing takes long, and is not done for just anybody
    password_hash = await hash_password(password)
    async with _open_invitation(runtime, token) as (connection, invited):
        person, organization_id = invited.person, invited.person.organization_id
        await queries.change_person(
            connection, organization_id, principal_id=person.principal_id, password_hash=password_hash
        )
        await queries.delete_invitations(connection, organization_id, principal_ids=[person.principal_id])
        account = Attempt(organization_id, person.email, password, address="").account
        await queries.delete_attempts(connection, organization_id, subject=account)
        change = Change("invitation.accept", "user", person.principal_id)
        await record_for(connection, organization_id, actor_id=person.principal_id, change=change)
        person, now = replace(person, password_hash=password_hash), await runtime.clock.now(connection)
        return invited, await begin_sign_in(connection, browser, person=person, now=now)


@asynccontextmanager
async def _open_invitation(runtime: Runtime, token: SecretStr) -> AsyncGenerator[tuple[Connection, Invited]]:
    value = token.get_secret_value()
    async with runtime.database.transaction(None) as connection:
        found = await queries.enter_by_invitation(connection, secret_hash=secrets.hash_secret(value))
        if found is None:
            raise _unknown_invitation()
        # Whoever waited for the lock, and lost, doesn't find the invitation any more.
        await lock_organization(connection, found.organization_id)
        found = await queries.enter_by_invitation(connection, secret_hash=secrets.hash_secret(value))
        if found is None or found.expires_at <= await runtime.clock.now(connection):
            raise _unknown_invitation()
        organization = await get_organization(connection, found.organization_id)
        person = await queries.get_person(connection, found.organization_id, principal_id=found.principal_id)
        if person is None or not person.active or not organization.passwords_enabled:
            raise _unknown_invitation()
        yield connection, Invited(person, found.organization_name)


def _unknown_invitation() -> NotFound:
    return NotFound(
        "This link was used, has expired, was replaced by a newer one, isn't complete, or its account was switched "
        "off. If you have a password, sign in with it. Otherwise ask an admin of your organization for a new link.",
        code="invitation_not_found",
    )
