"""SQL of OAuth clients, consents, codes, tokens, and of ending sign-ins. Times come from the caller's clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Table, and_, any_, case, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.oauth_clients import OAuthAudience, OAuthClient
from service.identity.queries import select_to_enter
from service.identity_server.oauth.models import Client, StoredCode, StoredRefreshToken, StoredToken
from service.platform import sql
from service.platform.sql import Window
from service.schema.identity import organizations, principals
from service.schema.signin import (
    browser_sessions,
    oauth_access_tokens,
    oauth_clients,
    oauth_codes,
    oauth_consents,
    oauth_refresh_tokens,
    oauth_token_families,
    pending_sign_ins,
)


@dataclass(frozen=True)
class EndedSignIns:
    """Numbers of ended sessions, codes and tokens."""

    browser_sessions: int
    consents: int
    token_families: int


_CLIENT_OF_ID = select_to_enter(
    oauth_clients.c.client_id, Client, sql.as_member(oauth_clients.c.audience, OAuthAudience)
)


async def enter_by_client(connection: Connection, *, client_id: UUID) -> Client | None:
    """Find a client of any status by id, and set the transaction to the client's organization."""
    return await sql.find_row(connection, _CLIENT_OF_ID, Client, {"param_client_id": client_id})


async def lock_client(connection: Connection, organization_id: UUID, *, client_id: UUID) -> bool:
    """Lock a client against deletion until the transaction ends; False if it is already deleted."""
    this = sql.matches(oauth_clients, organization_id, client_id=client_id)
    statement = select(oauth_clients.c.client_id).where(this).with_for_update(read=True, key_share=True)
    return (await connection.execute(statement)).one_or_none() is not None


async def insert_client(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(oauth_clients).values({**row, "organization_id": organization_id}))


async def update_client(
    connection: Connection, organization_id: UUID, *, client_id: UUID, values: Mapping[str, object]
) -> bool:
    """Change columns of a client; False if the client is unknown."""
    return await sql.update_rows(connection, oauth_clients, organization_id, values, client_id=client_id) > 0


async def delete_client(connection: Connection, organization_id: UUID, *, client_id: UUID) -> bool:
    """Delete a client with its consents, codes and tokens; False if the client is unknown."""
    return await sql.delete_rows(connection, oauth_clients, organization_id, client_id=client_id) > 0


async def get_client(
    connection: Connection, organization_id: UUID, *, client_id: UUID, lock: bool = False
) -> OAuthClient | None:
    statement = _clients(organization_id).where(oauth_clients.c.client_id == client_id)
    if lock:
        statement = statement.with_for_update(of=oauth_clients)
    return await sql.find_row(connection, statement, OAuthClient)


async def list_clients(
    connection: Connection, organization_id: UUID, window: Window, *, status: str | None, ids: Collection[UUID] | None
) -> list[OAuthClient]:
    own_id = oauth_clients.c.client_id
    chosen = sql.optional_in(own_id, ids), sql.optional(oauth_clients.c.status, status)
    statement = sql.rows_after(_clients(organization_id).where(*chosen), own_id, *window)
    return await sql.find_rows(connection, statement, OAuthClient)


def _clients(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    asked_by = case((oauth_clients.c.document_url.is_(None), principals.c.email), else_="")
    return (
        select(*sql.columns_of(oauth_clients, OAuthClient, asked_by.label("requested_by")))
        .join(principals, principals.c.principal_id == oauth_clients.c.requested_by)
        .where(oauth_clients.c.organization_id == organization_id)
    )


async def count_pending_clients(connection: Connection, organization_id: UUID, *, requested_by: UUID) -> int:
    own = sql.matches(oauth_clients, organization_id, requested_by=requested_by, status="pending")
    return await sql.count_rows(connection, own)


async def insert_code(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(oauth_codes).values({**row, "organization_id": organization_id}))


async def lock_code(
    connection: Connection, organization_id: UUID, *, secret_hash: bytes, client_id: UUID
) -> StoredCode | None:
    """Find the client's code by hash, and lock the row until the transaction ends; None for another client's code."""
    statement = select(*sql.columns_of(oauth_codes, StoredCode)).where(
        sql.matches(oauth_codes, organization_id, secret_hash=secret_hash, client_id=client_id)
    )
    return await sql.find_row(connection, statement.with_for_update(), StoredCode)


async def find_client_name(
    connection: Connection, organization_id: UUID, *, family_id: UUID, principal_id: UUID
) -> str | None:
    """Return the client's name of a person's family of tokens; None if unknown, revoked or another person's."""
    of_client = oauth_token_families.c.client_id == oauth_clients.c.client_id
    whose = _unrevoked_family(organization_id, family_id, principal_id)
    return (await connection.execute(select(oauth_clients.c.name).where(of_client, whose))).scalar_one_or_none()


async def confirm_family(
    connection: Connection, organization_id: UUID, *, family_id: UUID, principal_id: UUID, now: datetime
) -> None:
    """Record a person's proof of identity for a family of tokens; do nothing if the family is revoked."""
    statement = update(oauth_token_families).where(_unrevoked_family(organization_id, family_id, principal_id))
    await connection.execute(statement.values(confirmed_at=now))


def _unrevoked_family(organization_id: UUID, family_id: UUID, principal_id: UUID) -> ColumnElement[bool]:
    return and_(
        sql.matches(oauth_token_families, organization_id, family_id=family_id, principal_id=principal_id),
        oauth_token_families.c.revoked_at.is_(None),
    )


async def use_code(
    connection: Connection, organization_id: UUID, *, code_id: UUID, family_id: UUID, now: datetime
) -> bool:
    """Mark a code as used by a new family of tokens; False if it was already used."""
    used, is_new = {"used_at": now, "family_id": family_id}, oauth_codes.c.used_at.is_(None)
    return await sql.update_rows(connection, oauth_codes, organization_id, used, is_new, code_id=code_id) > 0


async def insert_family(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(oauth_token_families).values({**row, "organization_id": organization_id}))


async def insert_tokens(
    connection: Connection, organization_id: UUID, *, access: Mapping[str, object], refresh: Mapping[str, object]
) -> None:
    await connection.execute(insert(oauth_access_tokens).values({**access, "organization_id": organization_id}))
    await connection.execute(insert(oauth_refresh_tokens).values({**refresh, "organization_id": organization_id}))


async def lock_refresh_token(
    connection: Connection, organization_id: UUID, *, secret_hash: bytes
) -> StoredRefreshToken | None:
    """Lock a refresh token, found by hash, and its family until the transaction ends; a second request waits."""
    statement = (
        select(
            *sql.columns_of(
                oauth_refresh_tokens,
                StoredRefreshToken,
                oauth_token_families.c.client_id,
                oauth_token_families.c.principal_id,
                oauth_token_families.c.scopes,
                oauth_token_families.c.revoked_at,
            )
        )
        .join(oauth_token_families, oauth_token_families.c.family_id == oauth_refresh_tokens.c.family_id)
        .where(sql.matches(oauth_refresh_tokens, organization_id, secret_hash=secret_hash))
    )
    return await sql.find_row(connection, statement.with_for_update(), StoredRefreshToken)


async def use_refresh_token(connection: Connection, organization_id: UUID, *, token_id: UUID, now: datetime) -> bool:
    """Mark a refresh token as used; False if it was already used."""
    table, used = oauth_refresh_tokens, {"used_at": now}
    is_new = table.c.used_at.is_(None)
    return await sql.update_rows(connection, table, organization_id, used, is_new, token_id=token_id) > 0


async def find_access_token(connection: Connection, organization_id: UUID, *, secret_hash: bytes) -> StoredToken | None:
    statement = select(*sql.columns_of(oauth_access_tokens, StoredToken)).where(
        sql.matches(oauth_access_tokens, organization_id, secret_hash=secret_hash)
    )
    return await sql.find_row(connection, statement, StoredToken)


async def revoke_access_token(connection: Connection, organization_id: UUID, *, token_id: UUID, now: datetime) -> None:
    table, is_living = oauth_access_tokens, oauth_access_tokens.c.revoked_at.is_(None)
    await sql.update_rows(connection, table, organization_id, {"revoked_at": now}, is_living, token_id=token_id)


async def families_of(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID], client_id: UUID
) -> list[UUID]:
    """List the unrevoked families of tokens from people's consents to a client."""
    statement = select(oauth_token_families.c.family_id).where(
        oauth_token_families.c.organization_id == organization_id,
        sql.in_array(oauth_token_families.c.principal_id, principal_ids),
        oauth_token_families.c.client_id == client_id,
        oauth_token_families.c.revoked_at.is_(None),
    )
    return list((await connection.execute(statement)).scalars())


async def revoke_families(
    connection: Connection, organization_id: UUID, *, family_ids: Collection[UUID], now: datetime
) -> int:
    """Revoke families with their access tokens; return the number newly revoked."""
    return await revoke_tokens(connection, organization_id, key="family_id", ids=family_ids, at=now)


async def revoke_tokens(
    connection: Connection,
    organization_id: UUID,
    *,
    key: Literal["family_id", "principal_id"],
    ids: Collection[UUID],
    at: datetime | ColumnElement[datetime],
) -> int:
    """Revoke families first, because a refresh locks its family, then access tokens; return the number of families."""
    revoked: list[int] = []
    for table in (oauth_token_families, oauth_access_tokens):
        living = sql.in_array(table.c[key], ids), table.c.revoked_at.is_(None)
        revoked.append(await sql.update_rows(connection, table, organization_id, {"revoked_at": at}, *living))
    return revoked[0]


async def delete_unused_codes_of(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> None:
    unused = sql.in_array(oauth_codes.c.principal_id, principal_ids), oauth_codes.c.used_at.is_(None)
    await sql.delete_rows(connection, oauth_codes, organization_id, *unused)


async def delete_sign_ins(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID], consents: bool
) -> EndedSignIns:
    """Delete people's sessions, pending sign-ins, unused codes and optionally consents; revoke their tokens."""
    sessions = await _delete_of(connection, organization_id, table=browser_sessions, principal_ids=principal_ids)
    await _delete_of(connection, organization_id, table=pending_sign_ins, principal_ids=principal_ids)
    await delete_unused_codes_of(connection, organization_id, principal_ids=principal_ids)
    allowed = 0
    if consents:
        allowed = await _delete_of(connection, organization_id, table=oauth_consents, principal_ids=principal_ids)
    families = await revoke_tokens(connection, organization_id, key="principal_id", ids=principal_ids, at=func.now())
    return EndedSignIns(sessions, allowed, families)


async def _delete_of(
    connection: Connection, organization_id: UUID, *, table: Table, principal_ids: Collection[UUID]
) -> int:
    return await sql.delete_rows(connection, table, organization_id, sql.in_array(table.c.principal_id, principal_ids))


async def delete_expired(connection: Connection, organization_id: UUID, *, now: datetime, kept: timedelta) -> None:
    """Delete rows expired for `kept`; note last uses. Used codes and tokens stay with a family (RFC 9700, 4.14.2)."""
    before = now - kept
    living = select(oauth_refresh_tokens.c.token_id).where(
        oauth_refresh_tokens.c.family_id == oauth_token_families.c.family_id,
        oauth_refresh_tokens.c.expires_at >= before,
    )
    ended = and_(
        oauth_token_families.c.organization_id == organization_id,
        oauth_token_families.c.created_at < before,
        ~living.exists(),
    )
    # Lock in the order of a withdrawal, to avoid deadlocks.
    await _keep_last_uses(connection, organization_id, ended)
    for table, gone in (
        (oauth_codes, and_(oauth_codes.c.expires_at < before, oauth_codes.c.used_at.is_(None))),
        (oauth_token_families, ended),
        (oauth_access_tokens, oauth_access_tokens.c.expires_at < before),
    ):
        await sql.delete_rows(connection, table, organization_id, gone)


async def _keep_last_uses(connection: Connection, organization_id: UUID, gone: ColumnElement[bool]) -> None:
    same = oauth_token_families.c.principal_id, oauth_token_families.c.client_id
    used = select(*same, func.max(oauth_token_families.c.last_used_at).label("at")).where(gone).group_by(*same)
    last = used.subquery("used")
    values = {"last_used_at": func.greatest(oauth_consents.c.last_used_at, last.c.at)}
    key = {"principal_id": last.c.principal_id, "client_id": last.c.client_id}
    await sql.update_rows(connection, oauth_consents, organization_id, values, last.c.at.is_not(None), **key)


async def list_allowing(connection: Connection, *, host: str) -> Sequence[UUID]:
    """List the organizations that allow documents of a host, for a person not yet signed in."""
    allowed = literal(host) == any_(organizations.c.client_document_hosts)
    return list((await connection.execute(select(organizations.c.organization_id).where(allowed))).scalars())


async def allows_host(connection: Connection, organization_id: UUID, *, host: str) -> bool:
    allowed = literal(host) == any_(organizations.c.client_document_hosts)
    statement = select(allowed).where(organizations.c.organization_id == organization_id)
    return (await connection.execute(statement)).scalar_one()


async def list_admins(connection: Connection, organization_id: UUID, *, limit: int) -> Sequence[str]:
    """List the first addresses of active admins, in alphabetical order."""
    statement = (
        select(principals.c.email)
        .where(principals.c.organization_id == organization_id, principals.c.is_admin, principals.c.active)
        .order_by(principals.c.email)
        .limit(limit)
    )
    return list((await connection.execute(statement)).scalars())


async def any_person(connection: Connection, organization_id: UUID) -> UUID:
    """Return a person, preferably an admin: a described client's row needs a person, though never shown."""
    statement = (
        select(principals.c.principal_id)
        .where(sql.matches(principals, organization_id, kind="user"))
        .order_by(principals.c.is_admin.desc(), principals.c.created_at, principals.c.principal_id)
        .limit(1)
    )
    return (await connection.execute(statement)).scalar_one()


async def is_fresh(connection: Connection, organization_id: UUID, *, client_id: UUID, now: datetime) -> bool:
    """Return whether a document's content is known and its cache time not over."""
    statement = select(oauth_clients.c.client_id).where(
        sql.matches(oauth_clients, organization_id, client_id=client_id), oauth_clients.c.document_fresh_until > now
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def put_client(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    """Add a client described by a document, or update its name and addresses from the document."""
    new = insert(oauth_clients).values({**row, "organization_id": organization_id})
    changed = {name: new.excluded[name] for name in ("name", "redirect_uris", "document_fresh_until")}
    same = oauth_clients.c.organization_id == organization_id
    await connection.execute(
        new.on_conflict_do_update(index_elements=[oauth_clients.c.client_id], set_=changed, where=same)
    )


async def find_organization(connection: Connection, *, secret_hash: bytes) -> UUID | None:
    """Find the organization of a code, a refresh token or an access token, outside of any organization."""
    for table in (oauth_codes, oauth_refresh_tokens, oauth_access_tokens):
        statement = select(table.c.organization_id).where(table.c.secret_hash == secret_hash)
        if (found := (await connection.execute(statement)).scalar_one_or_none()) is not None:
            return found
    return None
