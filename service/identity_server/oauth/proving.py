"""Proving again who one is, in a session that has begun: by a passkey, or by the password and a second factor."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import Request
from pydantic import SecretStr

from service.identity_server.signin.attempts import Attempt, forgive
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.passkeys import Ceremony
from service.identity_server.signin.factors.pending import attempt_of, count_or_refuse, refuse_code, refuse_passkey
from service.identity_server.signin.passwords import check_password
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.refusals import Refused
from service.identity_server.signin.sessions import Browser, SignedIn
from service.runtime import Runtime

LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True)
class Proof:
    """What the forms of a page carry, once the person has proven there who they are; `until` is in seconds since 1970.
    The token is in that page alone: a thief of the session doesn't have it."""

    token: str
    until: str

    @classmethod
    def make(cls, runtime: Runtime, browser: Browser, person: SignedIn, *, now: datetime) -> "Proof":
        """Return the proof of a person who has just proven who they are."""
        until = str(int((now + LIFETIME).timestamp()))
        return cls(browser.form_token(runtime, _purpose(person, until)), until)

    def counts(self, runtime: Runtime, browser: Browser, person: SignedIn, *, now: datetime) -> bool:
        """Return whether it was made for this browser and person, and still counts."""
        own = browser.is_own_form(runtime, self.token, purpose=_purpose(person, self.until))
        return own and int(self.until) >= now.timestamp()


def _purpose(person: SignedIn, until: str) -> str:
    return f"proven\n{person.principal_id}\n{until}"


async def prove(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str], *, purpose: str
) -> Person | Refused:
    """Check a passkey that was asked for this purpose, or the password, and the second factor where there is one."""
    address = request.client.host if request.client else "unknown"
    if form.get("action") == "passkey":
        ceremony = Ceremony(runtime, browser, purpose)
        return await _prove_by_passkey(ceremony, person, form.get("credential", ""), address=address)
    password = SecretStr(form.get("password", ""))
    attempt = Attempt(person.organization_id, person.email, password, address, in_session=True)
    proven = await check_password(runtime, attempt, wrong="The password is wrong.")
    if isinstance(proven, Refused):
        return proven
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        if not (await service.read_factors(connection, organization_id, **whose)).factors:
            return proven
    second = attempt_of(proven, address=address, in_session=True)
    if (refused := await count_or_refuse(runtime, second)) is not None:
        return refused
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        code = form.get("code", "")
        if await service.use_code(connection, runtime.keys, organization_id, **whose, code=code, now=now):
            await forgive(connection, second, now=now)
            return proven
    return refuse_code(runtime, second)


async def _prove_by_passkey(ceremony: Ceremony, person: SignedIn, answer: str, *, address: str) -> Person | Refused:
    runtime, organization_id = ceremony.runtime, person.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        now, whose = await runtime.clock.now(connection), {"principal_id": person.principal_id}
        used = await service.use_passkey(connection, ceremony, answer=answer, now=now, **whose)
        proven = await get_person(connection, organization_id, **whose)
    if proven is None:
        return Refused(service.STALE, 403)
    if isinstance(used, service.Rejected):
        return refuse_passkey(runtime, used, attempt_of(proven, address=address, in_session=True))
    return proven
