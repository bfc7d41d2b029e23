"""The second factors of a person: which they have, setting them up, using them, and taking them away.

Every function is called in a transaction of the person's organization.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from service.audit.service import Change, record_for
from service.auth.confirmation import is_demanded
from service.domains.signin.factors import codes, queries
from service.identity.queries import get_organization
from service.platform.identifiers import uuid7
from service.platform.keys import Keys
from service.platform.sealing import SealError, seal, unseal

Use = Literal["totp", "recoveryCode"]


@dataclass(frozen=True)
class Factors:
    """What a person has beside their password."""

    factors: Sequence[queries.Factor]
    recovery_codes: int

    @property
    def app(self) -> queries.Factor | None:
        """The authenticator app."""
        return next((one for one in self.factors if one.kind == "totp"), None)


async def read_factors(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> Factors:
    """Read which second factors a person has, and how many recovery codes."""
    factors = await queries.list_factors(connection, organization_id, principal_id=principal_id)
    left = await queries.count_recovery_codes(connection, organization_id, principal_id=principal_id)
    return Factors(factors, left)


async def must_have_factor(connection: AsyncConnection, organization_id: UUID, *, is_admin: bool) -> bool:
    """Return whether the organization demands a second factor of an admin, or of somebody who is none."""
    return is_demanded((await get_organization(connection, organization_id)).second_factor, is_admin=is_admin)


async def use_code(
    connection: AsyncConnection, keys: Keys, organization_id: UUID, *, principal_id: UUID, code: str, now: datetime
) -> Use | None:
    """Use a code of a person's app, or one of their recovery codes; None when it is wrong, or was used before."""
    code = codes.normal_code(code)
    if not codes.is_app_code(code):
        code_hash = codes.hash_recovery_code(code, principal_id=principal_id)
        used = await queries.use_recovery_code(
            connection, organization_id, principal_id=principal_id, code_hash=code_hash
        )
        return "recoveryCode" if used else None
    app = (await read_factors(connection, organization_id, principal_id=principal_id)).app
    secret = None if app is None else _unseal(keys, organization_id, app)
    step = None if secret is None else codes.find_step(secret, code, now=now)
    if app is None or step is None:
        return None
    used = await queries.use_step(connection, organization_id, factor_id=app.factor_id, step=step, now=now)
    return "totp" if used else None


async def add_app(
    connection: AsyncConnection,
    keys: Keys,
    organization_id: UUID,
    *,
    principal_id: UUID,
    secret: SecretStr,
    code: str,
    now: datetime,
) -> list[str] | None:
    """Set a person's app up, which shows this code of its secret; return recovery codes, to be shown this once.

    None when the code is wrong, or the person has an app already. The code can't be used again to sign in.
    """
    step = codes.find_step(secret, codes.normal_code(code), now=now)
    if step is None:
        return None
    factor_id = uuid7()
    sealed = seal(keys.second_factor_key(organization_id), row_id=factor_id, secret=secret)
    row = {
        "factor_id": factor_id,
        "principal_id": principal_id,
        "sealed_secret": sealed,
        "last_step": step,
        "created_at": now,
        "last_used_at": now,
    }
    if not await queries.insert_totp(connection, organization_id, row=row):
        return None
    await _record(connection, organization_id, principal_id, action="secondFactor.add", kind="totp")
    return await make_recovery_codes(connection, organization_id, principal_id=principal_id)


async def make_recovery_codes(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> list[str]:
    """Make a person's recovery codes, in place of those they had; they are shown this once."""
    made = codes.make_recovery_codes()
    hashes = [codes.hash_recovery_code(one, principal_id=principal_id) for one in made]
    await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=hashes)
    await _record(connection, organization_id, principal_id, action="secondFactor.makeRecoveryCodes")
    return made


async def remove_factor(
    connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID, factor_id: UUID
) -> None:
    """Take a second factor of a person away; with the last one the recovery codes, too."""
    had = await read_factors(connection, organization_id, principal_id=principal_id)
    removed = [one for one in had.factors if one.factor_id == factor_id]
    for one in removed:
        await queries.delete_factors(connection, organization_id, principal_id=principal_id, factor_id=factor_id)
        await _record(connection, organization_id, principal_id, action="secondFactor.remove", kind=one.kind)
    if len(had.factors) == len(removed):
        await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=())


async def reset_factors(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Take all second factors and recovery codes of a person away; return how many factors there were.

    Whoever calls it records it.
    """
    await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=())
    return await queries.delete_factors(connection, organization_id, principal_id=principal_id)


def _unseal(keys: Keys, organization_id: UUID, app: queries.Factor) -> SecretStr | None:
    """Return the secret of an app; None when it is of a key that was lost."""
    if app.sealed_secret is None:
        return None
    try:
        return unseal(keys.second_factor_key(organization_id), row_id=app.factor_id, sealed=app.sealed_secret)
    except SealError:
        return None


async def _record(
    connection: AsyncConnection, organization_id: UUID, principal_id: UUID, *, action: str, kind: str | None = None
) -> None:
    change = Change(action, "user", principal_id, details={"kind": kind} if kind else {})
    await record_for(connection, organization_id, actor_id=principal_id, change=change)
