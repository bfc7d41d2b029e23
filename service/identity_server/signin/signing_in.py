"""Signing a browser in by address and password, or with a passkey alone: the device plus a PIN or a finger."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity_server.signin.attempts import Attempt, Refused, refuse_waiting, refuse_wrong, try_password
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.passkeys import Ceremony
from service.identity_server.signin.factors.pending import begin_pending
from service.identity_server.signin.factors.service import must_have_factor, read_factors
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.sessions import Browser, Visitor, begin_session
from service.platform.errors import TooMany
from service.runtime import Runtime

WRONG = "The email address or the password is wrong."


async def sign_in(visitor: Visitor, attempt: Attempt) -> Browser | Refused:
    """Sign a browser in by password; return the new browser or a refusal. A second factor leaves it pending."""
    person = await check_password(visitor.runtime, attempt)
    if isinstance(person, Refused):
        return person
    async with visitor.runtime.database.transaction(person.organization_id) as connection:
        now = await visitor.runtime.clock.now(connection)
        return await begin_sign_in(connection, visitor.browser, person=person, now=now)


async def begin_sign_in(connection: Connection, browser: Browser, *, person: Person, now: datetime) -> Browser:
    """Sign in a person after a correct password, or start a pending sign-in; return the browser with its new value."""
    organization_id, principal_id = person.organization_id, person.principal_id
    has = (await read_factors(connection, organization_id, principal_id=principal_id)).factors
    if has or await must_have_factor(connection, organization_id, is_admin=person.is_admin):
        return await begin_pending(connection, browser, person=person, now=now)
    return await begin_session(connection, browser, person=person, now=now, by="password")


async def check_password(runtime: Runtime, attempt: Attempt, *, wrong: str = WRONG) -> Person | Refused:
    """Return the person of an address and password, or a refusal with the text `wrong`, recorded after the answer."""
    try:
        person = await try_password(runtime, attempt)
    except TooMany as error:
        return refuse_waiting(runtime, attempt, error)
    return person or refuse_wrong(runtime, attempt, wrong)


@dataclass(frozen=True)
class PasskeySignIn:
    """A sign-in with a passkey. `action` is the address to which the page's forms are sent."""

    visitor: Visitor
    action: str

    @property
    def _ceremony(self) -> Ceremony:
        return Ceremony(self.visitor, f"signIn\n{self.action}")

    async def ask(self, connection: Connection) -> str | None:
        """Return the page's request to the browser, as JSON; None if passkeys can't be used."""
        if self._ceremony.party is None:
            return None
        return self._ceremony.ask(now=await self.visitor.runtime.clock.now(connection))

    async def take(self, answer: str, *, organization_id: UUID | None) -> Browser | Refused:
        """Sign in with the answer to `ask`, in any organization or only this; return the new browser or the refusal."""
        async with self.visitor.runtime.database.transaction(None) as connection:
            now = await self.visitor.runtime.clock.now(connection)
            used = await service.use_passkey(
                connection, self._ceremony, answer=answer, now=now, organization_id=organization_id
            )
            whose = used.passkey if isinstance(used, service.Rejected) else used
            person = whose and await get_person(connection, whose.organization_id, principal_id=whose.principal_id)
            if person is None or not person.active or person.password_hash is None:
                used = used if isinstance(used, service.Rejected) else service.Rejected(service.UNKNOWN, used)
            elif not isinstance(used, service.Rejected):
                return await begin_session(connection, self.visitor.browser, person=person, now=now, by="passkey")
        return await self._refuse(used, email=person.email if person else None)

    async def _refuse(self, rejected: service.Rejected, *, email: str | None) -> Refused:
        """Refuse, and record the failure if the person is known. Raises TooMany."""
        address = self.visitor.sender
        if rejected.notice == service.STALE:
            return Refused(rejected.notice, 403)
        await self.visitor.runtime.rate_limits.count_failure(address)
        if rejected.passkey is None or email is None:
            return Refused(rejected.notice, 403)
        attempt = Attempt(rejected.passkey.organization_id, email, SecretStr(""), address, step="passkey")
        return refuse_wrong(self.visitor.runtime, attempt, rejected.notice)
