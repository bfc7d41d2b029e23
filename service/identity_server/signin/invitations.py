"""Invitations: an admin creates a single-use link with which a user sets a first or new password. A person who forgot
the password gets a link by mail, valid for an hour; it replaces no link from an admin that is valid as long. Unknown,
used and expired links, and links of users who may not sign in, are refused with the same message."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from starlette.background import BackgroundTask

from carrel.wire.fields import format_instant, normal_email
from carrel.wire.people import INVITATION_LIFETIME, AdminUsersInviteRequest, AdminUsersInviteResponse
from service.audit.service import Change, record, record_attempt, record_for
from service.auth.callers import Caller, unknown_user
from service.auth.queries import find_acting_user
from service.identity.passwords import hash_password
from service.identity.queries import change_user, get_organization, lock_organization
from service.identity_server.signin import queries
from service.identity_server.signin.attempts import Attempt, Refused, count_attempt
from service.identity_server.signin.sessions import Browser
from service.identity_server.signin.signing_in import begin_sign_in
from service.platform import secrets
from service.platform.errors import Conflict, NotFound, TooMany, require
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.platform.mail import send
from service.runtime import Runtime

PATH = "/account/invitation"
LINK_LIFETIME = timedelta(hours=1)
# The least time between two mails to a person.
_PAUSE = timedelta(minutes=5)
_MAIL = """\
Someone requested a link to reset the password of {email} at {organization}, Carrel.

{url}

The link works once, within an hour. If you didn't request the link, ignore this mail: your password has not changed.
"""
EndSignIns = Callable[..., Awaitable[object]]


@dataclass(frozen=True)
class Invited:
    """A person with an open invitation, the organization's name, and if the link was mailed ("forgot password")."""

    person: queries.Person
    organization_name: str
    is_mailed: bool


async def invite_user(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: AdminUsersInviteRequest
) -> AdminUsersInviteResponse:
    """Make a single-use address where a user sets a password. The address is shown only once, and replaces the user's
    previous address. Raises BadRequest `unknown_user`, Conflict `passwords_off`."""
    await lock_organization(connection, caller.organization_id)
    if not (await get_organization(connection, caller.organization_id)).passwords_enabled:
        message = "Passwords are switched off in this organization. People sign in with the organization's provider."
        raise Conflict(message, code="passwords_off")
    person = await find_acting_user(connection, caller.organization_id, email=normal_email(request.email))
    person = require(person, unknown_user("email"))
    secret, now = secrets.mint(secrets.INVITATION), await runtime.clock.now(connection)
    expires_at = now + INVITATION_LIFETIME
    row = {"principal_id": person.principal_id, "secret_hash": secret.hash, "created_at": now, "expires_at": expires_at}
    await queries.put_invitation(connection, caller.organization_id, row=row)
    details = {"expiresAt": format_instant(expires_at)}
    await record(connection, caller, "user.invite", "user", person.principal_id, details=details)
    return AdminUsersInviteResponse(url=_address_of(runtime, secret), expires_at=expires_at)


def _address_of(runtime: Runtime, secret: secrets.Secret) -> str:
    return f"{runtime.settings.issuer}{PATH}?{urlencode({'token': secret.value.get_secret_value()})}"


async def ask_link(runtime: Runtime, attempt: Attempt) -> BackgroundTask | Refused:
    """Count a request for a link; return the task to mail the link after the answer, so timing reveals no account."""
    # For an unknown organization, lines follow the typed address: an empty address is refused there too.
    if runtime.settings.smtp_url is None or not attempt.email.partition("\n")[0].strip():
        return Refused("Type your email address first.", 400)
    try:
        await count_attempt(runtime, attempt)
    except TooMany as error:
        return Refused(error.message, error.status, error.headers)
    return BackgroundTask(_mail_link, runtime, attempt)


async def _mail_link(runtime: Runtime, attempt: Attempt) -> None:
    """Mail a link to the attempt's person, if active and with a password that counts, unless a longer link is open."""
    organization_id, email = attempt.organization_id, normal_email(attempt.email)
    if "\0" in email:
        return
    async with runtime.database.transaction(organization_id) as connection:
        await lock_organization(connection, organization_id)
        person = await queries.find_person(connection, organization_id, email=email)
        if person is None or not person.active or person.password_hash is None:
            return
        secret, now = secrets.mint(secrets.INVITATION), await runtime.clock.now(connection)
        expires_at, whose = now + LINK_LIFETIME, person.principal_id
        row = {"principal_id": whose, "secret_hash": secret.hash, "created_at": now, "expires_at": expires_at}
        if not await queries.put_invitation(connection, organization_id, row=row, unless_after=expires_at - _PAUSE):
            return
        mail_id, change = uuid7(), Change("password.mail_link", "user", whose)
        await record_attempt(connection, organization_id, audit_log_id=mail_id, change=change)
        organization = await get_organization(connection, organization_id)
    name = " ".join(organization.name.split())
    text = _MAIL.format(email=email, organization=name, url=_address_of(runtime, secret))
    failed = await send(runtime.settings, to=email, subject="Set another password", text=text, mail_id=mail_id)
    if failed is not None:
        logger.warning("password_link_not_mailed", reason=failed)


async def find_invited(runtime: Runtime, token: SecretStr) -> Invited:
    """Find the person of an open invitation. Raises NotFound `invitation_not_found`."""
    async with _open_invitation(runtime, token) as (_, invited):
        return invited


async def accept_invitation(
    runtime: Runtime, token: SecretStr, *, password: SecretStr, browser: Browser, end_sign_ins: EndSignIns
) -> tuple[Invited, Browser]:
    """Set an invited person's password and sign the browser in, perhaps pending (`begin_sign_in`). Sessions by another
    password end; after a mailed link, all sessions and tokens. Failures are forgotten. Raises NotFound."""
    await find_invited(runtime, token)  # hash a password only for a valid token, because hashing takes long
    password_hash = await hash_password(password)
    async with _open_invitation(runtime, token) as (connection, invited):
        person, organization_id = invited.person, invited.person.organization_id
        whose = [person.principal_id]
        if invited.is_mailed:
            await end_sign_ins(connection, organization_id, principal_ids=whose, consents=False)
        values = {"password_hash": password_hash}
        await change_user(connection, organization_id, user_id=person.principal_id, values=values)
        await queries.delete_invitations(connection, organization_id, principal_ids=whose)
        account = Attempt(organization_id, person.email, password, address="").account
        await queries.delete_attempts(connection, organization_id, subject=account)
        change = Change("password.reset" if invited.is_mailed else "invitation.accept", "user", person.principal_id)
        await record_for(connection, organization_id, actor_id=person.principal_id, change=change)
        person, now = replace(person, password_hash=password_hash), await runtime.clock.now(connection)
        return invited, await begin_sign_in(connection, browser, person=person, now=now)


@asynccontextmanager
async def _open_invitation(runtime: Runtime, token: SecretStr) -> AsyncGenerator[tuple[Connection, Invited]]:
    """Yield an open invitation in a transaction that locks its organization. Raises NotFound `invitation_not_found`."""
    value = token.get_secret_value()
    async with runtime.database.transaction(None) as connection:
        found = await queries.enter_by_invitation(connection, secret_hash=secrets.hash_secret(value))
        if found is None:
            raise _unknown_invitation()
        # Of concurrent requests, only the first still finds the invitation.
        await lock_organization(connection, found.organization_id)
        found = await queries.enter_by_invitation(connection, secret_hash=secrets.hash_secret(value))
        if found is None or found.expires_at <= await runtime.clock.now(connection):
            raise _unknown_invitation()
        organization = await get_organization(connection, found.organization_id)
        person = await queries.get_person(connection, found.organization_id, principal_id=found.principal_id)
        if person is None or not person.active or not organization.passwords_enabled:
            raise _unknown_invitation()
        yield connection, Invited(person, found.organization_name, found.expires_at - found.created_at <= LINK_LIFETIME)


def _unknown_invitation() -> NotFound:
    return NotFound(
        "This link no longer works: it was used or replaced, has expired, or is incomplete, or its account is not "
        "active. If you have a password, sign in with it. Otherwise ask an admin of your organization for a new link.",
        code="invitation_not_found",
    )
