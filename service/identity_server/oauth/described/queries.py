"""SQL of clients that documents describe, and of the hosts whose documents an organization allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import any_, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import columns_of, find_rows
from service.schema.identity import organizations, principals
from service.schema.oauth import oauth_access_tokens, oauth_clients, oauth_codes, oauth_refresh_tokens


@dataclass(frozen=True, slots=True)
class Allowing:
    """An organization."""

    organization_id: UUID
    name: str


async def list_allowing(connection: AsyncConnection, *, host: str) -> list[Allowing]:
    """List the organizations that allow documents of a host, for somebody who isn't signed in to any."""
    statement = select(*columns_of(organizations, Allowing)).where(
        literal(host) == any_(organizations.c.client_document_hosts)
    )
    return await find_rows(connection, statement, Allowing)


async def allows(connection: AsyncConnection, organization_id: UUID, *, host: str) -> bool:
    """Return whether an organization allows documents of a host."""
    statement = select(literal(host) == any_(organizations.c.client_document_hosts)).where(
        organizations.c.organization_id == organization_id
    )
    return (await connection.execute(statement)).scalar_one()


async def list_admins(connection: AsyncConnection, organization_id: UUID, *, limit: int) -> Sequence[str]:
    """List addresses of admins, whom people may ask."""
    statement = (
        select(principals.c.email)
        .where(principals.c.organization_id == organization_id, principals.c.is_admin, principals.c.active)
        .order_by(principals.c.email)
        .limit(limit)
    )
    return list((await connection.execute(statement)).scalars())


async def any_person(connection: AsyncConnection, organization_id: UUID) -> UUID:
    """Return a person, an admin if there is one: each client's row names one, who is shown for no described client."""
    statement = (
        select(principals.c.principal_id)
        .where(principals.c.organization_id == organization_id, principals.c.kind == "user")
        .order_by(principals.c.is_admin.desc(), principals.c.created_at, principals.c.principal_id)
        .limit(1)
    )
    return (await connection.execute(statement)).scalar_one()


async def is_fresh(connection: AsyncConnection, organization_id: UUID, *, client_id: UUID, now: datetime) -> bool:
    """Return whether what a document says is known, and may be kept for longer."""
    statement = select(oauth_clients.c.client_id).where(
        oauth_clients.c.organization_id == organization_id,
        oauth_clients.c.client_id == client_id,
        oauth_clients.c.document_fresh_until > now,
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def put_client(connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    """Add the client that a document describes, or change its name and addresses to what the document says now."""
    new = insert(oauth_clients).values({**row, "organization_id": organization_id})
    changed = {name: new.excluded[name] for name in ("name", "redirect_uris", "document_fresh_until")}
    statement = new.on_conflict_do_update(
        index_elements=[oauth_clients.c.client_id],
        set_=changed,
        where=oauth_clients.c.organization_id == organization_id,
    )
    await connection.execute(statement)


async def find_organization(connection: AsyncConnection, *, secret_hash: bytes) -> UUID | None:
    """Find the organization of a code, a refresh token or an access token, in which nobody is yet."""
    for table in (oauth_codes, oauth_refresh_tokens, oauth_access_tokens):
        statement = select(table.c.organization_id).where(table.c.secret_hash == secret_hash)
        if (found := (await connection.execute(statement)).scalar_one_or_none()) is not None:
            return found
    return None
