"""Signing a browser in by address and password."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.background import BackgroundTask

from service.domains.signin.attempts import Attempt, record_failure, try_password
from service.domains.signin.browsers import Browser
from service.domains.signin.sessions import begin_session
from service.platform.errors import TooMany
from service.runtime import Runtime

WRONG = "The email address or the password is wrong."


@dataclass(frozen=True)
class Refused:
    """The reason why a sign-in was refused, in the words of the page; `afterwards` is done once it is answered."""

    notice: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    afterwards: BackgroundTask | None = None


async def sign_in(runtime: Runtime, browser: Browser, attempt: Attempt) -> Browser | Refused:
    """Sign a browser in with a password; return it with its new value to set as cookie, or the refusal."""
    try:
        person = await try_password(runtime, attempt)
    except TooMany as error:
        return Refused(error.message, error.status, error.headers, _recording(runtime, attempt, was_made=False))
    if person is None:
        return Refused(WRONG, 403, afterwards=_recording(runtime, attempt, was_made=True))
    async with runtime.database.transaction(person.organization_id) as connection:
        now = await runtime.clock.now(connection)
        return await begin_session(connection, browser, person=person, now=now, by_password=True)


def _recording(runtime: Runtime, attempt: Attempt, *, was_made: bool) -> BackgroundTask:
    """Return what records a failure after the answer, whose time then says nothing about the account."""
    return BackgroundTask(record_failure, runtime, attempt, was_made=was_made)
