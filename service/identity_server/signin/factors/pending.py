"""Sign-ins waiting for a second factor after a correct password: without a session, in a browser, for ten minutes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity_server.signin import attempts
from service.identity_server.signin.factors import queries, service
from service.identity_server.signin.factors.passkeys import Ceremony, new_passkey_purpose
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.sessions import Browser, Visitor, begin_session, end_session, password_mark
from service.platform.errors import BadRequest, TooMany
from service.runtime import Runtime

LIFETIME = timedelta(minutes=10)
WRONG = "The code is wrong or already used. Type the code that your app shows now, or a recovery code."
UNFIT = "The code is wrong. Scan the QR code again, then type the code that your app shows."
GONE = "This sign-in has ended. Sign in again."


@dataclass(frozen=True)
class Pending:
    """A pending sign-in: the person, and whether they have a second factor or must set up a factor."""

    organization_id: UUID
    organization_name: str
    person: Person
    factors: service.Factors

    @property
    def purpose(self) -> str:
        return f"secondFactor\n{self.person.principal_id}"


async def begin_pending(connection: Connection, browser: Browser, *, person: Person, now: datetime) -> Browser:
    """Start a pending sign-in, and sign out the browser's current person; return the browser with its new value."""
    organization_id = person.organization_id
    await end_session(connection, browser, organization_id=organization_id)
    await queries.delete_pending(connection, organization_id, secret_hash=browser.hash)
    fresh = browser.renew()
    row = {
        "secret_hash": fresh.hash,
        "principal_id": person.principal_id,
        "password_mark": password_mark(person.password_hash),
        "created_at": now,
        "expires_at": now + LIFETIME,
    }
    await queries.insert_pending(connection, organization_id, row=row)
    return fresh


async def find_pending(connection: Connection, browser: Browser, *, now: datetime) -> Pending | None:
    """Find a browser's valid pending sign-in (active person, unchanged password) and enter the organization."""
    if not browser.known:
        return None
    row = await queries.enter_by_pending(connection, secret_hash=browser.hash)
    if row is None or row.expires_at <= now:
        return None
    person = await get_person(connection, row.organization_id, principal_id=row.principal_id)
    if person is None or not person.active or password_mark(person.password_hash) != row.password_mark:
        return None
    factors = await service.read_factors(connection, row.organization_id, principal_id=row.principal_id)
    return Pending(row.organization_id, row.organization_name, person, factors)


async def give_code(visitor: Visitor, *, code: str) -> Browser | attempts.Refused:
    """Complete a pending sign-in; return the browser's new value or the refusal. Failures count as for passwords."""
    runtime, browser = visitor.runtime, visitor.browser
    async with runtime.database.transaction(None) as connection:
        pending = await find_pending(connection, browser, now=await runtime.clock.now(connection))
    if pending is None or not pending.factors.factors:
        return attempts.Refused(GONE, 403)
    attempt = attempt_of(pending.person, visitor)
    if (refused := await count_or_refuse(runtime, attempt)) is not None:
        return refused
    async with runtime.database.transaction(pending.organization_id) as connection:
        now = await runtime.clock.now(connection)
        whose = {"principal_id": pending.person.principal_id}
        used = await service.use_code(connection, runtime.keys, pending.organization_id, **whose, code=code, now=now)
        if used is not None:
            await attempts.forgive(connection, attempt, now=now)
            return await _finish(connection, browser, pending, used=used, now=now)
    return attempts.refuse_wrong(runtime, attempt, WRONG)


async def set_up_app(visitor: Visitor, *, secret: SecretStr, code: str) -> tuple[Browser, list[str]] | attempts.Refused:
    """Set up the required app of a person and sign them in; return the browser and the recovery codes."""
    runtime, browser = visitor.runtime, visitor.browser
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
        pending = await find_pending(connection, browser, now=now)
        if pending is None or pending.factors.factors:
            return attempts.Refused(GONE, 403)
        organization_id, principal_id = pending.organization_id, pending.person.principal_id
        recovery = await service.add_app(
            connection, runtime.keys, organization_id, principal_id=principal_id, secret=secret, code=code, now=now
        )
        if recovery is None:
            return attempts.Refused(UNFIT, 403)
        return await _finish(connection, browser, pending, used="totp", now=now), recovery


async def give_passkey(visitor: Visitor, *, answer: str) -> Browser | attempts.Refused:
    """Complete a pending sign-in with a passkey. Failures cause no wait: a passkey's signature can't be guessed."""
    runtime, browser = visitor.runtime, visitor.browser
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
        pending = await find_pending(connection, browser, now=now)
        if pending is None:
            return attempts.Refused(GONE, 403)
        ceremony, principal_id = Ceremony(visitor, pending.purpose), pending.person.principal_id
        used = await service.use_passkey(connection, ceremony, answer=answer, now=now, principal_id=principal_id)
        if not isinstance(used, service.Rejected):
            return await _finish(connection, browser, pending, used="passkey", now=now)
    return refuse_passkey(runtime, used, attempt_of(pending.person, visitor))


async def set_up_passkey(visitor: Visitor, *, answer: str, name: str) -> tuple[Browser, list[str]] | attempts.Refused:
    """Add the required passkey of a person and sign them in; return the browser and recovery codes, or the refusal."""
    runtime, browser = visitor.runtime, visitor.browser
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
        pending = await find_pending(connection, browser, now=now)
        if pending is None or pending.factors.factors:
            return attempts.Refused(GONE, 403)
        whose = {"principal_id": pending.person.principal_id}
        ceremony = Ceremony(visitor, new_passkey_purpose(**whose))
        recovery = await service.add_passkey(
            connection, ceremony, pending.organization_id, **whose, answer=answer, name=name, now=now
        )
        if isinstance(recovery, service.Rejected):
            return attempts.Refused(recovery.notice, 403)
        return await _finish(connection, browser, pending, used="passkey", now=now), recovery


async def abandon(visitor: Visitor) -> None:
    runtime, browser = visitor.runtime, visitor.browser
    async with runtime.database.transaction(None) as connection:
        pending = await find_pending(connection, browser, now=await runtime.clock.now(connection))
        if pending is not None:
            await queries.delete_pending(connection, pending.organization_id, secret_hash=browser.hash)


def attempt_of(person: Person, visitor: Visitor, *, in_session: bool = False) -> attempts.Attempt:
    """Return a person's attempt to give a second factor or, with `in_session`, to prove their identity again."""
    return attempts.Attempt(
        person.organization_id, person.email, SecretStr(""), visitor.sender, step="secondFactor", in_session=in_session
    )


async def count_or_refuse(runtime: Runtime, attempt: attempts.Attempt) -> attempts.Refused | None:
    try:
        await attempts.count_attempt(runtime, attempt)
    except TooMany as error:
        return attempts.refuse_waiting(runtime, attempt, error)
    return None


def refuse_passkey(runtime: Runtime, rejected: service.Rejected, attempt: attempts.Attempt) -> attempts.Refused:
    """Refuse a passkey, and record the attempt unless the page was merely out of date."""
    if rejected.notice == service.STALE:
        return attempts.Refused(rejected.notice, 403)
    return attempts.refuse_wrong(runtime, attempt, rejected.notice)


async def _finish(
    connection: Connection, browser: Browser, pending: Pending, *, used: service.Use, now: datetime
) -> Browser:
    """Sign in. Raises BadRequest, which rolls back the transaction, when the pending sign-in has ended by then."""
    if not await queries.delete_pending(connection, pending.organization_id, secret_hash=browser.hash):
        raise BadRequest(GONE, code="stale_sign_in")
    return await begin_session(connection, browser, person=pending.person, now=now, by="password", second_factor=used)
