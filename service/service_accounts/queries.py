"""SQL of service accounts and their tokens. A deleted account is a row that only its address is asked of."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.identity.queries import credential_status
from service.identity.tables import principals, service_account_tokens
from service.sql import AnyRow, among

_ACCOUNT = (principals.c.principal_id, principals.c.name, principals.c.email, principals.c.created_at)
_TOKEN = tuple(column for column in service_account_tokens.c if column.name != "secret_hash")


async def taken_addresses(connection: AsyncConnection, organization_id: UUID, *, emails: Collection[str]) -> set[str]:
    """Which of these addresses (lower case) somebody has, or a service account had."""
    statement = select(principals.c.email).where(
        principals.c.organization_id == organization_id, among(principals.c.email, emails)
    )
    return set((await connection.execute(statement)).scalars())


async def insert_account(
    connection: AsyncConnection, organization_id: UUID, *, account_id: UUID, name: str, email: str
) -> AnyRow:
    """Add a service account; its row."""
    statement = insert(principals).values(
        principal_id=account_id, organization_id=organization_id, kind="serviceAccount", name=name, email=email
    )
    return (await connection.execute(statement.returning(*_ACCOUNT))).one()


async def list_accounts(
    connection: AsyncConnection, organization_id: UUID, *, query: str | None, after: UUID, limit: int
) -> Sequence[AnyRow]:
    """Service accounts whose name or address contains `query`, in the order of their ids."""
    statement = _accounts(organization_id).where(principals.c.principal_id > after)
    if query:
        matches = principals.c.name.icontains(query, autoescape=True)
        statement = statement.where(or_(matches, principals.c.email.icontains(query, autoescape=True)))
    return (await connection.execute(statement.order_by(principals.c.principal_id).limit(limit))).all()


async def get_account(connection: AsyncConnection, organization_id: UUID, *, account_id: UUID) -> AnyRow | None:
    """A service account."""
    statement = _accounts(organization_id).where(principals.c.principal_id == account_id)
    return (await connection.execute(statement)).one_or_none()


async def hold_account(connection: AsyncConnection, organization_id: UUID, *, account_id: UUID) -> bool:
    """Keep a service account from being deleted until the transaction ends; False when there is none."""
    statement = _accounts(organization_id).where(principals.c.principal_id == account_id)
    return (await connection.execute(statement.with_for_update(read=True))).one_or_none() is not None


async def mark_deleted(connection: AsyncConnection, organization_id: UUID, *, account_id: UUID) -> bool:
    """Delete a service account, once whoever holds it is done; False when there is none (any more)."""
    statement = (
        update(principals)
        .where(
            principals.c.organization_id == organization_id,
            principals.c.principal_id == account_id,
            principals.c.kind == "serviceAccount",
            principals.c.deleted_at.is_(None),
        )
        .values(active=False, deleted_at=func.now())
        .returning(principals.c.principal_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


def _accounts(organization_id: UUID) -> Select[*tuple[UUID, str, str | None, object]]:
    return select(*_ACCOUNT).where(
        principals.c.organization_id == organization_id,
        principals.c.kind == "serviceAccount",
        principals.c.deleted_at.is_(None),
    )


async def insert_token(
    connection: AsyncConnection, organization_id: UUID, *, token_id: UUID, row: Mapping[str, object]
) -> None:
    """Add a token; without `expires_at` it expires on the same day of the next year."""
    values = {**row, "token_id": token_id, "organization_id": organization_id}
    if values.get("expires_at") is None:
        values["expires_at"] = func.now() + func.make_interval(1)
    await connection.execute(insert(service_account_tokens).values(values))


async def get_token(connection: AsyncConnection, organization_id: UUID, *, token_id: UUID) -> AnyRow | None:
    """A token with its `status`."""
    statement = _tokens(organization_id).where(service_account_tokens.c.token_id == token_id)
    return (await connection.execute(statement)).one_or_none()


async def list_tokens(
    connection: AsyncConnection, organization_id: UUID, *, account_id: UUID | None, after: UUID, limit: int
) -> Sequence[AnyRow]:
    """Tokens like that, of one account or of all, in the order of their ids."""
    statement = _tokens(organization_id).where(service_account_tokens.c.token_id > after)
    if account_id is not None:
        statement = statement.where(service_account_tokens.c.service_account_id == account_id)
    return (await connection.execute(statement.order_by(service_account_tokens.c.token_id).limit(limit))).all()


async def revoke_token(connection: AsyncConnection, organization_id: UUID, *, token_id: UUID) -> bool:
    """Stop a token; False when it was revoked already, or there is none."""
    statement = (
        update(service_account_tokens)
        .where(
            service_account_tokens.c.organization_id == organization_id,
            service_account_tokens.c.token_id == token_id,
            service_account_tokens.c.revoked_at.is_(None),
        )
        .values(revoked_at=func.now())
        .returning(service_account_tokens.c.token_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def revoke_tokens_of(connection: AsyncConnection, organization_id: UUID, *, account_id: UUID) -> Sequence[AnyRow]:
    """Stop every token of an account; the `token_id` of those that were not revoked, and whether each `worked`."""
    statement = (
        update(service_account_tokens)
        .where(
            service_account_tokens.c.organization_id == organization_id,
            service_account_tokens.c.service_account_id == account_id,
            service_account_tokens.c.revoked_at.is_(None),
        )
        .values(revoked_at=func.now())
        .returning(
            service_account_tokens.c.token_id, (service_account_tokens.c.expires_at > func.now()).label("worked")
        )
    )
    return (await connection.execute(statement)).all()


def _tokens(organization_id: UUID) -> Select[*tuple[object, ...]]:
    return select(*_TOKEN, credential_status(service_account_tokens)).where(
        service_account_tokens.c.organization_id == organization_id
    )
