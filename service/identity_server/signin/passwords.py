"""Signing a browser in by address and password."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity_server.signin.attempts import Attempt, Refused, refuse_waiting, refuse_wrong, try_password
from service.identity_server.signin.factors.pending import begin_pending
from service.identity_server.signin.factors.service import must_have_factor, read_factors
from service.identity_server.signin.queries import Person
from service.identity_server.signin.sessions import Browser, begin_session
from service.platform.errors import TooMany
from service.runtime import Runtime

WRONG = "The email address or the password is wrong."


async def sign_in(runtime: Runtime, browser: Browser, attempt: Attempt) -> Browser | Refused:
    """Sign a browser in with a password; return it with its new value to set as cookie, or the refusal. Where the
    person has a second factor, or must have one, the sign-in waits for it (`find_pending`): nobody is signed in yet."""
    person = await check_password(runtime, attempt)
    if isinstance(person, Refused):
        return person
    async with runtime.database.transaction(person.organization_id) as connection:
        return await begin_sign_in(connection, browser, person=person, now=await runtime.clock.now(connection))


async def begin_sign_in(connection: Connection, browser: Browser, *, person: Person, now: datetime) -> Browser:
    """Sign in a person whose password is right, or wait for their second factor; return the browser's new value."""
    organization_id, principal_id = person.organization_id, person.principal_id
    has = (await read_factors(connection, organization_id, principal_id=principal_id)).factors
    if has or await must_have_factor(connection, organization_id, is_admin=person.is_admin):
        return await begin_pending(connection, browser, person=person, now=now)
    return await begin_session(connection, browser, person=person, now=now, by="password")


async def check_password(runtime: Runtime, attempt: Attempt, *, wrong: str = WRONG) -> Person | Refused:
    """Return the person of an address and password, or the refusal in these words, recorded once it is answered."""
    try:
        person = await try_password(runtime, attempt)
    except TooMany as error:
        return refuse_waiting(runtime, attempt, error)
    return person or refuse_wrong(runtime, attempt, wrong)
