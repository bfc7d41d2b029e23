"""Signing a browser in by address and password."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.domains.signin.attempts import Attempt, try_password
from service.domains.signin.browsers import Browser
from service.domains.signin.sessions import begin_session
from service.platform.errors import TooMany
from service.runtime import Runtime

WRONG = "The email address or the password is wrong."


@dataclass(frozen=True)
class Refused:
    """The reason why a sign-in was refused, in the words of the page."""

    notice: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


async def sign_in(runtime: Runtime, browser: Browser, attempt: Attempt) -> Browser | Refused:
    """Sign a browser in with a password; return it with its new value to set as cookie, or the refusal."""
    try:
        person = await try_password(runtime, attempt)
    except TooMany as error:
        return Refused(error.message, error.status, error.headers)
    if person is None:
        return Refused(WRONG, 403)
    async with runtime.database.transaction(person.organization_id) as connection:
        now = await runtime.clock.now(connection)
        return await begin_session(connection, browser, person=person, now=now, by_password=True)
