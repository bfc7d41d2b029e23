"""Proving identity again within a session: by a passkey, or by the password and a second factor."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import SecretStr

from service.identity_server.signin.attempts import Attempt, Refused, forgive, refuse_wrong
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.passkeys import Ceremony
from service.identity_server.signin.factors.pending import WRONG, attempt_of, count_or_refuse, refuse_passkey
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.sessions import OwnPage, SignedIn
from service.identity_server.signin.signing_in import check_password

LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True)
class Proof:
    """Form fields proving identity until a Unix time. The token is only in the page, so a session's thief lacks it."""

    token: str
    until: str

    @classmethod
    def make(cls, page: OwnPage, *, now: datetime) -> "Proof":
        until = str(int((now + LIFETIME).timestamp()))
        return cls(page.form_token(_purpose(page.person, until)), until)

    def is_valid(self, page: OwnPage, *, now: datetime) -> bool:
        own = page.is_own_form({"csrf": self.token}, _purpose(page.person, self.until))
        return own and int(self.until) >= now.timestamp()


def _purpose(person: SignedIn, until: str) -> str:
    return f"proven\n{person.principal_id}\n{until}"


async def prove(page: OwnPage, form: dict[str, str], *, purpose: str) -> Person | Refused:
    """Check a passkey for the purpose, or the password and any second factor; return the person or the refusal."""
    runtime, person = page.runtime, page.person
    if form.get("action") == "passkey":
        return await _prove_by_passkey(page, form.get("credential", ""), purpose=purpose)
    password = SecretStr(form.get("password", ""))
    attempt = Attempt(person.organization_id, person.email, password, page.sender, in_session=True)
    proven = await check_password(runtime, attempt, wrong="The password is wrong.")
    if isinstance(proven, Refused):
        return proven
    async with page.transaction() as connection:
        if not (await service.read_factors(connection, **page.whose)).factors:
            return proven
    second = attempt_of(proven, page, in_session=True)
    if (refused := await count_or_refuse(runtime, second)) is not None:
        return refused
    async with page.transaction() as connection:
        now = await runtime.clock.now(connection)
        if await service.use_code(connection, runtime.keys, **page.whose, code=form.get("code", ""), now=now):
            await forgive(connection, second, now=now)
            return proven
    return refuse_wrong(runtime, second, WRONG)


async def _prove_by_passkey(page: OwnPage, answer: str, *, purpose: str) -> Person | Refused:
    ceremony = Ceremony(page, purpose)
    async with page.transaction() as connection:
        now = await page.runtime.clock.now(connection)
        used = await service.use_passkey(
            connection, ceremony, answer=answer, now=now, principal_id=page.person.principal_id
        )
        proven = await get_person(connection, **page.whose)
    if proven is None:
        return Refused(service.STALE, 403)
    if isinstance(used, service.Rejected):
        return refuse_passkey(page.runtime, used, attempt_of(proven, page, in_session=True))
    return proven
