"""SQL of provisioning tokens."""

from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.scim_tokens import ScimToken
from service.auth.queries import touch, unused_for_a_minute
from service.identity.queries import credential_status
from service.platform.sql import columns_of, find_row, find_rows, optional_in, param, set_organization
from service.schema.identity import scim_tokens


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token by its hash; `status` is active, expired or revoked."""

    organization_id: UUID
    token_id: UUID
    name: str
    status: str
    unused_for_a_minute: bool
    entered: InitVar[str]  # not kept: the column enters the organization (set_organization)


_TOKEN_OF_HASH = select(
    *columns_of(
        scim_tokens,
        FoundToken,
        credential_status(scim_tokens),
        unused_for_a_minute(scim_tokens).label("unused_for_a_minute"),
    ),
    set_organization(scim_tokens.c.organization_id),
).where(scim_tokens.c.secret_hash == param(scim_tokens.c.secret_hash))
_TOKEN = columns_of(scim_tokens, ScimToken, credential_status(scim_tokens))


async def enter_by_token(connection: AsyncConnection, *, secret_hash: bytes) -> FoundToken | None:
    """Find a token by its hash, and set the transaction to the token's organization."""
    return await find_row(connection, _TOKEN_OF_HASH, FoundToken, {"param_secret_hash": secret_hash})


async def touch_token(connection: AsyncConnection, organization_id: UUID, *, token_id: UUID) -> None:
    """Note that a token is in use now; skip the write while another request has the row."""
    key = scim_tokens.c.token_id
    found = select(key).where(scim_tokens.c.organization_id == organization_id, key == token_id)
    await touch(connection, scim_tokens, key, found)


async def insert_token(connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    """Add a token."""
    await connection.execute(insert(scim_tokens).values({**row, "organization_id": organization_id}))


async def get_token(connection: AsyncConnection, organization_id: UUID, *, token_id: UUID) -> ScimToken | None:
    """Get a token."""
    statement = select(*_TOKEN).where(
        scim_tokens.c.organization_id == organization_id, scim_tokens.c.token_id == token_id
    )
    return await find_row(connection, statement, ScimToken)


async def list_tokens(
    connection: AsyncConnection, organization_id: UUID, *, ids: Collection[UUID] | None, after: UUID, limit: int
) -> list[ScimToken]:
    """List tokens (of these ids, if any), ordered by id."""
    statement = select(*_TOKEN).where(
        scim_tokens.c.organization_id == organization_id,
        scim_tokens.c.token_id > after,
        optional_in(scim_tokens.c.token_id, ids),
    )
    return await find_rows(connection, statement.order_by(scim_tokens.c.token_id).limit(limit), ScimToken)


async def revoke_token(connection: AsyncConnection, organization_id: UUID, *, token_id: UUID) -> bool:
    """Revoke a token; False when it was revoked already or doesn't exist."""
    statement = (
        update(scim_tokens)
        .where(
            scim_tokens.c.organization_id == organization_id,
            scim_tokens.c.token_id == token_id,
            scim_tokens.c.revoked_at.is_(None),
        )
        .values(revoked_at=func.now())
        .returning(scim_tokens.c.token_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None
