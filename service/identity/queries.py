"""SQL of organizations, principals, memberships and API keys."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    Select,
    Uuid,
    and_,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.database import enter_organization
from service.identity.tables import api_keys, group_members, organizations, principals
from service.sql import AnyRow, among

LAST_USED_PRECISION = timedelta(minutes=1)


async def enter_by_api_key(connection: AsyncConnection, secret_hash: bytes) -> AnyRow | None:
    """The API key of this hash with its organization's page key, whose organization_id the transaction now has."""
    now = func.now()
    last_used = api_keys.c.last_used_at
    statement = (
        select(
            api_keys,
            organizations.c.page_key,
            func.coalesce(api_keys.c.expires_at <= now, False).label("expired"),
            func.coalesce(last_used < now - LAST_USED_PRECISION, True).label("unused_for_a_minute"),
        )
        .join(organizations, organizations.c.organization_id == api_keys.c.organization_id)
        .where(api_keys.c.secret_hash == secret_hash)
    )
    key = (await connection.execute(statement)).one_or_none()
    if key is not None:
        await enter_organization(connection, key.organization_id)
    return key


async def touch_api_key(connection: AsyncConnection, organization_id: UUID, *, api_key_id: UUID) -> None:
    """Note that the key is in use now; a request that would have to wait for another's note leaves it at that."""
    free = (
        select(api_keys.c.api_key_id)
        .where(api_keys.c.api_key_id == api_key_id, api_keys.c.organization_id == organization_id)
        .with_for_update(skip_locked=True, key_share=True)
    )
    await connection.execute(
        update(api_keys).where(api_keys.c.api_key_id == free.scalar_subquery()).values(last_used_at=func.now())
    )


async def get_acting_principal(
    connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID
) -> AnyRow | None:
    """A user or service account with its `memberships`: its own id and every group's it is in, each once."""
    statement = _acting(organization_id, select(literal(principal_id, Uuid).label("principal_id")))
    return (await connection.execute(statement)).one_or_none()


async def find_acting_user(connection: AsyncConnection, organization_id: UUID, *, email: str) -> AnyRow | None:
    """The same for the active user of this address (lower case)."""
    user = select(principals.c.principal_id).where(
        principals.c.organization_id == organization_id,
        principals.c.email == email,
        principals.c.kind == "user",
        principals.c.active,
    )
    return (await connection.execute(_acting(organization_id, user))).one_or_none()


def _acting(organization_id: UUID, one: Select[UUID]) -> Select[Any]:
    start = one.cte("start")
    groups = memberships_of(organization_id, start)
    all_groups = func.array(select(groups.c.principal_id).scalar_subquery(), type_=ARRAY(Uuid))
    return (
        select(principals, all_groups.label("memberships"))
        .join(start, start.c.principal_id == principals.c.principal_id)
        .where(principals.c.organization_id == organization_id, principals.c.kind.in_(["user", "serviceAccount"]))
    )


def memberships_of(organization_id: UUID, start: CTE) -> CTE:
    """The principals of `start` and every group they are in, directly or through others; UNION ends cycles."""
    found = select(start.c.principal_id).cte("memberships", recursive=True)
    above = (
        select(group_members.c.group_id)
        .join(found, group_members.c.member_id == found.c.principal_id)
        .where(group_members.c.organization_id == organization_id)
    )
    return found.union(above)


async def find_principals(
    connection: AsyncConnection, organization_id: UUID, *, emails: Collection[str], ids: Collection[UUID]
) -> Sequence[AnyRow]:
    """The people of these addresses (lower case), and the groups and service accounts of these ids."""
    by_email = among(principals.c.email, emails)
    by_id = and_(among(principals.c.principal_id, ids), principals.c.kind.in_(["group", "serviceAccount"]))
    statement = select(
        principals.c.principal_id, principals.c.kind, principals.c.email, principals.c.name, principals.c.active
    ).where(principals.c.organization_id == organization_id, or_(by_email, by_id))
    return (await connection.execute(statement)).all()
