"""Proving again who one is, in a session that has begun: by the password, and a second factor where there is one."""

from fastapi import Request
from pydantic import SecretStr

from service.domains.signin.attempts import Attempt, forgive
from service.domains.signin.factors import service
from service.domains.signin.factors.pending import attempt_of, count_or_refuse, refuse_code
from service.domains.signin.passwords import check_password
from service.domains.signin.queries import Person
from service.domains.signin.refusals import Refused
from service.domains.signin.sessions import SignedIn
from service.runtime import Runtime


async def prove(request: Request, runtime: Runtime, person: SignedIn, form: dict[str, str]) -> Person | Refused:
    """Check the password, and the second factor where there is one."""
    address = request.client.host if request.client else "unknown"
    password = SecretStr(form.get("password", ""))
    attempt = Attempt(person.organization_id, person.email, password, address)
    proven = await check_password(runtime, attempt)
    if isinstance(proven, Refused):
        return proven
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        if not (await service.read_factors(connection, organization_id, **whose)).factors:
            return proven
    second = attempt_of(proven, address=address)
    if (refused := await count_or_refuse(runtime, second)) is not None:
        return refused
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        code = form.get("code", "")
        if await service.use_code(connection, runtime.keys, organization_id, **whose, code=code, now=now):
            await forgive(connection, second, now=now)
            return proven
    return refuse_code(runtime, second)
