"""SQL of the sessions of a person: of browsers, and of applications (families of tokens). Times are the caller's."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Table, Text, Uuid, delete, func, literal, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.sessions import PersonSession, SessionKind
from service.identity_server.oauth.queries import revoke_tokens
from service.platform.sql import columns_of, delete_rows, find_rows, in_array, matches, optional_in
from service.schema.oauth import oauth_clients, oauth_codes, oauth_consents, oauth_refresh_tokens, oauth_token_families
from service.schema.signin import browser_sessions, pending_sign_ins

_OF_BOTH = ("created_at", "last_used_at", "address", "device")


@dataclass(frozen=True)
class EndedSignIns:
    """How much of what people were signed in with works no more."""

    browser_sessions: int
    consents: int
    token_families: int


async def list_sessions(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, now: datetime, after: UUID, limit: int
) -> list[PersonSession]:
    browsers = select(
        browser_sessions.c.session_id,
        literal(SessionKind.BROWSER.value).label("kind"),
        null().cast(Uuid).label("client_id"),
        null().cast(Text).label("application_name"),
        *(browser_sessions.c[name] for name in _OF_BOTH),
        browser_sessions.c.expires_at,
    ).where(matches(browser_sessions, organization_id, principal_id=principal_id), browser_sessions.c.expires_at > now)
    applications = (
        select(
            oauth_token_families.c.family_id,
            literal(SessionKind.APPLICATION.value),
            oauth_token_families.c.client_id,
            oauth_clients.c.name,
            *(oauth_token_families.c[name] for name in _OF_BOTH),
            _end_of_family(organization_id),
        )
        .join(oauth_clients, oauth_clients.c.client_id == oauth_token_families.c.client_id)
        .where(
            matches(oauth_token_families, organization_id, principal_id=principal_id),
            oauth_token_families.c.revoked_at.is_(None),
            _end_of_family(organization_id) > now,
        )
    )
    sessions = union_all(browsers, applications).subquery("sessions")
    statement = select(*columns_of(sessions, PersonSession)).where(sessions.c.session_id > after)
    return await find_rows(connection, statement.order_by(sessions.c.session_id).limit(limit), PersonSession)


async def delete_browser_sessions(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, ids: Collection[UUID] | None, now: datetime
) -> int:
    """Delete sessions of a person's browsers, of these ids if given; return how many of them lasted."""
    statement = (
        delete(browser_sessions)
        .where(
            matches(browser_sessions, organization_id, principal_id=principal_id),
            optional_in(browser_sessions.c.session_id, ids),
        )
        .returning(browser_sessions.c.expires_at)
    )
    ends = (await connection.execute(statement)).scalars()
    return sum(end > now for end in ends)


async def list_living_families(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, ids: Collection[UUID] | None, now: datetime
) -> list[UUID]:
    """List the families of tokens of a person that can be refreshed, of these ids if given."""
    statement = select(oauth_token_families.c.family_id).where(
        matches(oauth_token_families, organization_id, principal_id=principal_id),
        oauth_token_families.c.revoked_at.is_(None),
        _end_of_family(organization_id) > now,
        optional_in(oauth_token_families.c.family_id, ids),
    )
    return list((await connection.execute(statement)).scalars())


def _end_of_family(organization_id: UUID) -> ColumnElement[datetime]:
    newest = select(func.max(oauth_refresh_tokens.c.expires_at)).where(
        matches(oauth_refresh_tokens, organization_id, family_id=oauth_token_families.c.family_id)
    )
    return newest.correlate(oauth_token_families).scalar_subquery()


async def delete_unused_codes_of(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> None:
    statement = delete(oauth_codes).where(
        oauth_codes.c.organization_id == organization_id,
        in_array(oauth_codes.c.principal_id, principal_ids),
        oauth_codes.c.used_at.is_(None),
    )
    await connection.execute(statement)


async def delete_sign_ins(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID], consents: bool
) -> EndedSignIns:
    """Delete people's sessions, sign-ins that wait, unused codes and, with `consents`, consents; revoke the tokens of
    their applications."""
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
    return await delete_rows(connection, table, organization_id, in_array(table.c.principal_id, principal_ids))
