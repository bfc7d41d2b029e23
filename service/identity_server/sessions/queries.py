"""SQL of a person's sessions: of browsers, and of applications (families of tokens). Times come from the caller."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Text, Uuid, delete, func, literal, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.sessions import PersonSession, SessionKind
from service.platform.sql import Window, columns_of, find_rows, matches, optional_in, rows_after
from service.schema.signin import browser_sessions, oauth_clients, oauth_refresh_tokens, oauth_token_families

_OF_BOTH = ("created_at", "last_used_at", "address", "device")


async def list_sessions(
    connection: Connection, organization_id: UUID, window: Window, *, principal_id: UUID, now: datetime
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
    statement = rows_after(select(*columns_of(sessions, PersonSession)), sessions.c.session_id, *window)
    return await find_rows(connection, statement, PersonSession)


async def delete_browser_sessions(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, ids: Collection[UUID] | None, now: datetime
) -> int:
    """Delete a person's browser sessions, optionally only some ids; return the number still valid until then."""
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
    """List a person's families of refreshable tokens, optionally only some ids."""
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
