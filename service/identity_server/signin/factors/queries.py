"""SQL of second factors, recovery codes and pending sign-ins. Times come from the caller's clock."""

from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, literal, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity.queries import select_to_enter
from service.platform import sql
from service.schema.signin import answered_challenges, passkeys, pending_sign_ins, recovery_codes, second_factors


@dataclass(frozen=True, slots=True)
class Factor:
    """A second factor of a person; `name` and the fields after it are set only for passkeys."""

    factor_id: UUID
    kind: str
    sealed_secret: bytes | None = field(repr=False)
    created_at: datetime
    last_used_at: datetime | None
    name: str | None
    synced: bool | None
    credential_id: bytes | None


@dataclass(frozen=True, slots=True)
class Passkey:
    factor_id: UUID
    organization_id: UUID
    organization_name: str
    principal_id: UUID
    public_key: bytes
    user_handle: bytes
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


@dataclass(frozen=True, slots=True)
class PasskeyUse:
    """An authenticator's data on a signature: the use count, and whether the passkey may be synced."""

    sign_count: int
    synced: bool


@dataclass(frozen=True, slots=True)
class Pending:
    organization_id: UUID
    organization_name: str
    principal_id: UUID
    password_mark: bytes
    expires_at: datetime
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


_PENDING_OF_HASH = select_to_enter(pending_sign_ins.c.secret_hash, Pending)
_PASSKEY_OF_ID = select_to_enter(passkeys.c.credential_id, Passkey)


async def enter_by_passkey(connection: Connection, *, credential_id: bytes) -> Passkey | None:
    """Find a passkey by authenticator id, and enter the passkey's organization; None within another organization."""
    return await sql.find_row(connection, _PASSKEY_OF_ID, Passkey, {"param_credential_id": credential_id})


async def insert_passkey(
    connection: Connection, organization_id: UUID, *, factor: Mapping[str, object], passkey: Mapping[str, object]
) -> bool:
    """Add a person's passkey; False if the credential id exists, for any person."""
    whole = {**factor, "kind": "passkey", "organization_id": organization_id}
    await connection.execute(insert(second_factors).values(whole))
    of_it = {"organization_id": organization_id, **{name: factor[name] for name in ("factor_id", "principal_id")}}
    if await sql.insert_new(connection, passkeys, {**passkey, **of_it}):
        return True
    await sql.delete_rows(connection, second_factors, organization_id, factor_id=factor["factor_id"])
    return False


async def count_use(
    connection: Connection, organization_id: UUID, *, factor_id: UUID, use: PasskeyUse, now: datetime
) -> bool:
    """Record a use of a passkey; False if its use count has not grown, unless the authenticator doesn't count."""
    count = passkeys.c.sign_count
    has_grown = or_(count < use.sign_count, and_(count == 0, literal(use.sign_count) == 0))
    counted = {"sign_count": use.sign_count, "synced": use.synced}
    if not await sql.update_rows(connection, passkeys, organization_id, counted, has_grown, factor_id=factor_id):
        return False
    await sql.update_rows(connection, second_factors, organization_id, {"last_used_at": now}, factor_id=factor_id)
    return True


async def use_challenge(
    connection: Connection, organization_id: UUID, *, challenge_hash: bytes, expires_at: datetime
) -> bool:
    """Record an answered challenge; False if it was already answered."""
    row = {"challenge_hash": challenge_hash, "organization_id": organization_id, "expires_at": expires_at}
    return await sql.insert_new(connection, answered_challenges, row)


async def enter_by_pending(connection: Connection, *, secret_hash: bytes) -> Pending | None:
    """Find a pending sign-in by hash, and set the transaction to its organization."""
    return await sql.find_row(connection, _PENDING_OF_HASH, Pending, {"param_secret_hash": secret_hash})


async def insert_pending(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(pending_sign_ins).values({**row, "organization_id": organization_id}))


async def delete_pending(connection: Connection, organization_id: UUID, *, secret_hash: bytes) -> bool:
    return await sql.delete_rows(connection, pending_sign_ins, organization_id, secret_hash=secret_hash) > 0


async def list_factors(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> list[Factor]:
    """List the second factors of a person, oldest first."""
    theirs = (passkeys.c.name, passkeys.c.synced, passkeys.c.credential_id)
    statement = (
        select(*sql.columns_of(second_factors, Factor, *theirs))
        .outerjoin(passkeys, sql.matches(passkeys, organization_id, factor_id=second_factors.c.factor_id))
        .where(sql.matches(second_factors, organization_id, principal_id=principal_id))
    )
    return await sql.find_rows(connection, statement.order_by(second_factors.c.factor_id), Factor)


async def insert_totp(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> bool:
    """Add a person's authenticator app; False if the person has an app."""
    return await sql.insert_new(connection, second_factors, {**row, "kind": "totp", "organization_id": organization_id})


async def use_step(connection: Connection, organization_id: UUID, *, factor_id: UUID, step: int, now: datetime) -> bool:
    """Record the use of a step's code; False if this or a later step was already used."""
    used = {"last_step": step, "last_used_at": now}
    is_later = or_(second_factors.c.last_step.is_(None), second_factors.c.last_step < step)
    return await sql.update_rows(connection, second_factors, organization_id, used, is_later, factor_id=factor_id) > 0


async def delete_factors(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, factor_id: UUID | None = None
) -> int:
    this = sql.optional(second_factors.c.factor_id, factor_id)
    return await sql.delete_rows(connection, second_factors, organization_id, this, principal_id=principal_id)


async def replace_recovery_codes(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, hashes: Collection[bytes]
) -> None:
    await sql.delete_rows(connection, recovery_codes, organization_id, principal_id=principal_id)
    rows = [
        {"organization_id": organization_id, "principal_id": principal_id, "code_hash": item} for item in sorted(hashes)
    ]
    if rows:
        await connection.execute(insert(recovery_codes).values(rows))


async def use_recovery_code(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, code_hash: bytes
) -> bool:
    key = {"principal_id": principal_id, "code_hash": code_hash}
    return await sql.delete_rows(connection, recovery_codes, organization_id, **key) > 0


async def count_recovery_codes(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> int:
    return await sql.count_rows(connection, sql.matches(recovery_codes, organization_id, principal_id=principal_id))
