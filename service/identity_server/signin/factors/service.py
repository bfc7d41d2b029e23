"""A person's second factors, in a transaction of the organization. Changes exclude each other and the end of access."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.people import AdminUsersResetSecondFactorRequest, AdminUsersResetSecondFactorResponse
from service.audit.service import Change, record, record_attempt, record_for, record_unattended
from service.auth.authorization import is_demanded
from service.auth.callers import Caller
from service.identity.queries import get_organization, lock_organization
from service.identity_server.signin.factors import codes, queries
from service.identity_server.signin.factors.passkeys import Ceremony, expiry_of, hash_challenge, read_answer, read_new
from service.identity_server.signin.queries import find_person, get_person, require_user
from service.platform.identifiers import uuid7
from service.platform.secrets import Keys, seal, try_unseal

Use = Literal["totp", "recoveryCode", "passkey"]

MOST_PASSKEYS = 20
STALE = "This page has expired. Try again."
UNKNOWN = "This passkey is unknown here. It may have been removed, or belong to another person. Choose another way."
UNFIT = "The passkey could not be verified. Try again, or choose another way."
COPIED = "This passkey may have been copied. Choose another way, then remove this passkey and add a new passkey."
UNUSABLE = "The passkey could not be created. Try again, or choose another way."
TOO_MANY = f"You have {MOST_PASSKEYS} passkeys, which is the limit. Remove a passkey first."


@dataclass(frozen=True)
class Factors:
    """A person's second factors and recovery codes."""

    factors: Sequence[queries.Factor]
    recovery_codes: int

    @property
    def app(self) -> queries.Factor | None:
        return next((factor for factor in self.factors if factor.kind == "totp"), None)

    @property
    def passkeys(self) -> list[queries.Factor]:
        return [factor for factor in self.factors if factor.kind == "passkey"]


@dataclass(frozen=True)
class Rejected:
    """A rejected passkey: the reason shown to the person, and the owner if known."""

    notice: str
    passkey: queries.Passkey | None = None


async def read_factors(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> Factors:
    factors = await queries.list_factors(connection, organization_id, principal_id=principal_id)
    left = await queries.count_recovery_codes(connection, organization_id, principal_id=principal_id)
    return Factors(factors, left)


async def must_have_factor(connection: Connection, organization_id: UUID, *, is_admin: bool) -> bool:
    """Return whether the organization requires a second factor of admins (`is_admin`) or of other people."""
    return is_demanded((await get_organization(connection, organization_id)).second_factor, is_admin=is_admin)


async def use_code(
    connection: Connection, keys: Keys, organization_id: UUID, *, principal_id: UUID, code: str, now: datetime
) -> Use | None:
    """Use up a code of a person's app or a recovery code; None if wrong or already used, or if the app's secret is
    lost. A code of a recovery code's length counts as a recovery code."""
    code = codes.normal_code(code)
    if not codes.is_app_code(code):
        code_hash = codes.hash_recovery_code(code, principal_id=principal_id)
        used = await queries.use_recovery_code(
            connection, organization_id, principal_id=principal_id, code_hash=code_hash
        )
        return "recoveryCode" if used else None
    app = (await read_factors(connection, organization_id, principal_id=principal_id)).app
    if app is None:
        return None
    secret = try_unseal(keys.second_factor_key(organization_id), row_id=app.factor_id, sealed=app.sealed_secret)
    step = None if secret is None else codes.find_step(secret, code, now=now)
    if step is None:
        return None
    used = await queries.use_step(connection, organization_id, factor_id=app.factor_id, step=step, now=now)
    return "totp" if used else None


async def add_app(
    connection: Connection,
    keys: Keys,
    organization_id: UUID,
    *,
    principal_id: UUID,
    secret: SecretStr,
    code: str,
    now: datetime,
) -> list[str] | None:
    """Set up a person's app with a code, thereby used up; None for a wrong code, an existing app or an inactive person.
    Return recovery codes, shown only once, or an empty list unless the app is the person's first factor."""
    step = codes.find_step(secret, codes.normal_code(code), now=now)
    if step is None or not await _lock_active(connection, organization_id, principal_id):
        return None
    had = (await read_factors(connection, organization_id, principal_id=principal_id)).factors
    factor_id = uuid7()
    row = {
        "factor_id": factor_id,
        "principal_id": principal_id,
        "sealed_secret": seal(keys.second_factor_key(organization_id), row_id=factor_id, secret=secret),
        "last_step": step,
        "created_at": now,
        "last_used_at": now,
    }
    if not await queries.insert_totp(connection, organization_id, row=row):
        return None
    await _record(connection, organization_id, principal_id, action="secondFactor.add", kind="totp")
    return [] if had else await make_recovery_codes(connection, organization_id, principal_id=principal_id)


async def add_passkey(
    connection: Connection,
    ceremony: Ceremony,
    organization_id: UUID,
    *,
    principal_id: UUID,
    answer: str,
    name: str,
    now: datetime,
) -> list[str] | Rejected:
    """Add the passkey made by a person's browser; return recovery codes as `add_app` does."""
    sent = read_new(answer)
    challenge = None if sent is None else ceremony.challenge_of(sent, now=now)
    if sent is None or challenge is None or not await _use_challenge(connection, organization_id, challenge):
        return Rejected(STALE)
    made = ceremony.verify_new(sent, challenge)
    if made is None:
        return Rejected(UNUSABLE)
    if not await _lock_active(connection, organization_id, principal_id):
        return Rejected(STALE)
    had = await read_factors(connection, organization_id, principal_id=principal_id)
    if len(had.passkeys) >= MOST_PASSKEYS:
        return Rejected(TOO_MANY)
    factor = {"factor_id": uuid7(), "principal_id": principal_id, "created_at": now, "last_used_at": None}
    passkey = {
        "credential_id": made.credential_id,
        "public_key": made.public_key,
        "user_handle": ceremony.visitor.runtime.keys.user_handle(principal_id),
        "sign_count": made.sign_count,
        "name": name,
        "synced": made.synced,
    }
    if not await queries.insert_passkey(connection, organization_id, factor=factor, passkey=passkey):
        return Rejected("This passkey is already registered. Use another passkey.")
    await _record(connection, organization_id, principal_id, action="secondFactor.add", kind="passkey")
    return [] if had.factors else await make_recovery_codes(connection, organization_id, principal_id=principal_id)


async def use_passkey(
    connection: Connection,
    ceremony: Ceremony,
    *,
    answer: str,
    now: datetime,
    organization_id: UUID | None = None,
    principal_id: UUID | None = None,
) -> queries.Passkey | Rejected:
    """Return a verified passkey, entering its organization. Given ids must match, or the answer names the person."""
    sent = read_answer(answer)
    challenge = None if sent is None else ceremony.challenge_of(sent, now=now)
    if sent is None or challenge is None:
        return Rejected(STALE)
    passkey = await queries.enter_by_passkey(connection, credential_id=sent.raw_id)
    if (
        passkey is None
        or passkey.organization_id != (organization_id or passkey.organization_id)
        or passkey.principal_id != (principal_id or passkey.principal_id)
    ):
        return Rejected(UNKNOWN)
    handle = sent.response.user_handle or (passkey.user_handle if principal_id else None)
    use = ceremony.verify(sent, challenge, public_key=passkey.public_key)
    if use is None or handle != passkey.user_handle:
        return Rejected(UNFIT, passkey)
    return await _record_use(connection, passkey, challenge, use=use, now=now)


async def _record_use(
    connection: Connection, passkey: queries.Passkey, challenge: bytes, *, use: queries.PasskeyUse, now: datetime
) -> queries.Passkey | Rejected:
    organization_id, factor_id = passkey.organization_id, passkey.factor_id
    if not await _use_challenge(connection, organization_id, challenge):
        return Rejected(STALE)
    if await queries.count_use(connection, organization_id, factor_id=factor_id, use=use, now=now):
        return passkey
    change = Change("passkey.copied", "user", passkey.principal_id, {"factorId": str(factor_id)})
    await record_attempt(connection, organization_id, audit_log_id=uuid7(), change=change)
    return Rejected(COPIED, passkey)


async def _use_challenge(connection: Connection, organization_id: UUID, challenge: bytes) -> bool:
    return await queries.use_challenge(
        connection, organization_id, challenge_hash=hash_challenge(challenge), expires_at=expiry_of(challenge)
    )


async def make_recovery_codes(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> list[str]:
    """Replace a person's recovery codes; the new codes are shown only once."""
    await lock_organization(connection, organization_id)
    made = codes.make_recovery_codes()
    hashes = [codes.hash_recovery_code(item, principal_id=principal_id) for item in made]
    await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=hashes)
    await _record(connection, organization_id, principal_id, action="secondFactor.makeRecoveryCodes")
    return made


async def remove_factor(connection: Connection, organization_id: UUID, *, principal_id: UUID, factor_id: UUID) -> None:
    """Remove a second factor of a person; removing the last factor deletes the recovery codes."""
    await lock_organization(connection, organization_id)
    had = await read_factors(connection, organization_id, principal_id=principal_id)
    removed = [factor for factor in had.factors if factor.factor_id == factor_id]
    for item in removed:
        await queries.delete_factors(connection, organization_id, principal_id=principal_id, factor_id=factor_id)
        await _record(connection, organization_id, principal_id, action="secondFactor.remove", kind=item.kind)
    if len(had.factors) == len(removed):
        await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=())


async def reset_factors(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Remove a person's second factors and recovery codes, without an audit entry; return the number of factors."""
    await lock_organization(connection, organization_id)
    await queries.replace_recovery_codes(connection, organization_id, principal_id=principal_id, hashes=())
    return await queries.delete_factors(connection, organization_id, principal_id=principal_id)


async def _lock_active(connection: Connection, organization_id: UUID, principal_id: UUID) -> bool:
    """Wait for other changes to the organization's people, then return whether the person is still active."""
    await lock_organization(connection, organization_id)
    person = await get_person(connection, organization_id, principal_id=principal_id)
    return person is not None and person.active


async def _record(
    connection: Connection, organization_id: UUID, principal_id: UUID, *, action: str, kind: str | None = None
) -> None:
    change = Change(action, "user", principal_id, {"kind": kind} if kind else {})
    await record_for(connection, organization_id, actor_id=principal_id, change=change)


ACTION = "secondFactor.reset"


async def reset_second_factor(
    connection: Connection, caller: Caller, *, request: AdminUsersResetSecondFactorRequest
) -> AdminUsersResetSecondFactorResponse:
    """Remove all second factors and recovery codes of a user. Raises BadRequest `unknown_user`."""
    principal_id = await require_user(connection, caller, request.email)
    removed = await reset_factors(connection, caller.organization_id, principal_id=principal_id)
    await record(connection, caller, ACTION, "user", principal_id)
    return AdminUsersResetSecondFactorResponse(removed_count=removed)


async def reset_for_operator(connection: Connection, organization_id: UUID, *, email: str) -> bool:
    """Remove a user's second factors for an operator, without checking rights; False for an unknown user."""
    person = await find_person(connection, organization_id, email=email)
    if person is None:
        return False
    await reset_factors(connection, organization_id, principal_id=person.principal_id)
    await record_unattended(connection, organization_id, change=Change(ACTION, "user", person.principal_id))
    return True
