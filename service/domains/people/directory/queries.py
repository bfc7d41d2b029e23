"""SQL of the directory as admins look at it: users with what is known of them, groups' members, clients of hosts.

A page or a count is a statement. Rows of 50,000 users are filtered by an index each: of memberships, of sign-ins.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Select,
    Text,
    Uuid,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.admin import UserFilters
from service.platform.sql import columns_of, find_rows, in_array, optional_in
from service.schema.audit import audit_entries
from service.schema.identity import group_members, principals
from service.schema.oauth import oauth_clients
from service.schema.signin import invitations, passkeys, second_factors


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user in a list, with their direct groups counted and their last sign-in with a browser."""

    principal_id: UUID
    name: str
    email: str
    is_admin: bool
    active: bool
    group_count: int
    has_password: bool
    last_signed_in_at: datetime | None
    invited_until: datetime | None


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """A second factor of a user; a passkey has a name."""

    principal_id: UUID
    kind: str
    name: str | None
    synced: bool | None
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Membership:
    """A group that somebody is in; `through` are their groups that are members of it."""

    principal_id: UUID
    name: str
    external_id: str | None
    member_count: int
    direct: bool
    through: Sequence[UUID]


async def list_users(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    filters: UserFilters,
    ids: Collection[UUID] | None,
    after: UUID,
    limit: int,
) -> list[ListedUser]:
    """List matching users (of these ids, if any), ordered by id."""
    statement = (
        select(*columns_of(principals, ListedUser, *_facts(organization_id)))
        .where(
            *_conditions(organization_id, filters),
            optional_in(principals.c.principal_id, ids),
            principals.c.principal_id > after,
        )
        .order_by(principals.c.principal_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, ListedUser)


async def list_second_factors(
    connection: AsyncConnection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> list[SecondFactor]:
    """List the second factors of users, oldest first."""
    statement = (
        select(*columns_of(second_factors, SecondFactor, passkeys.c.name, passkeys.c.synced))
        .outerjoin(passkeys, passkeys.c.factor_id == second_factors.c.factor_id)
        .where(
            second_factors.c.organization_id == organization_id,
            in_array(second_factors.c.principal_id, principal_ids),
        )
        .order_by(second_factors.c.factor_id)
    )
    return await find_rows(connection, statement, SecondFactor)


async def count_users(connection: AsyncConnection, organization_id: UUID, *, filters: UserFilters) -> int:
    """Count the matching users."""
    statement = select(func.count()).select_from(principals).where(*_conditions(organization_id, filters))
    return (await connection.execute(statement)).scalar_one()


async def list_memberships(
    connection: AsyncConnection, organization_id: UUID, *, member_id: UUID, after: UUID, limit: int
) -> list[Membership]:
    """List the groups around a principal, however far out, ordered by id; a cycle doesn't put a group into itself."""
    around = _groups_around(organization_id, member_id)
    inner = select(group_members.c.member_id).where(
        group_members.c.organization_id == organization_id,
        group_members.c.group_id == principals.c.principal_id,
        group_members.c.member_id.in_(select(around.c.group_id)),
    )
    statement = (
        select(
            *columns_of(
                principals,
                Membership,
                _count(organization_id, group_members.c.group_id).label("member_count"),
                exists(_direct(organization_id, member_id)).label("direct"),
                func.array(inner.scalar_subquery(), type_=ARRAY(Uuid)).label("through"),
            )
        )
        .where(
            principals.c.organization_id == organization_id,
            principals.c.principal_id.in_(select(around.c.group_id)),
            principals.c.principal_id != member_id,
            principals.c.principal_id > after,
        )
        .order_by(principals.c.principal_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, Membership)


def _facts(organization_id: UUID) -> tuple[Any, ...]:
    invited = select(invitations.c.expires_at).where(
        invitations.c.organization_id == organization_id,
        invitations.c.principal_id == principals.c.principal_id,
        invitations.c.expires_at > func.now(),
    )
    last = _sign_ins(organization_id).with_only_columns(func.max(audit_entries.c.at))
    return (
        _count(organization_id, group_members.c.member_id).label("group_count"),
        principals.c.password_hash.is_not(None).label("has_password"),
        last.scalar_subquery().label("last_signed_in_at"),
        invited.scalar_subquery().label("invited_until"),
    )


def _conditions(organization_id: UUID, filters: UserFilters) -> Iterator[ColumnElement[bool]]:
    yield principals.c.organization_id == organization_id
    yield principals.c.kind == "user"
    if filters.query:
        matches = principals.c.name.icontains(filters.query, autoescape=True)
        yield or_(matches, principals.c.email.icontains(filters.query, autoescape=True))
    memberships = select(group_members.c.group_id).where(
        group_members.c.organization_id == organization_id, group_members.c.member_id == principals.c.principal_id
    )
    facts = (
        (filters.active, principals.c.active),
        (filters.is_admin, principals.c.is_admin),
        (filters.signed_in, exists(_sign_ins(organization_id))),
        (filters.in_group, exists(memberships)),
    )
    for expected, fact in facts:
        if expected is not None:
            yield fact if expected else ~fact


def _sign_ins(organization_id: UUID) -> Select[UUID]:
    """Select the sign-ins of the user of the outer statement; the action stands there as their index has it."""
    return select(audit_entries.c.audit_log_id).where(
        audit_entries.c.organization_id == organization_id,
        audit_entries.c.actor_id == principals.c.principal_id,
        audit_entries.c.action == literal_column("'session.begin'"),
    )


def _count(organization_id: UUID, column: ColumnElement[UUID]) -> ColumnElement[int]:
    """Count the memberships whose member, or group, is the principal of the outer statement."""
    counted = select(func.count()).where(
        group_members.c.organization_id == organization_id, column == principals.c.principal_id
    )
    return counted.scalar_subquery()


def _direct(organization_id: UUID, member_id: UUID) -> Select[UUID]:
    return select(group_members.c.group_id).where(
        group_members.c.organization_id == organization_id,
        group_members.c.group_id == principals.c.principal_id,
        group_members.c.member_id == member_id,
    )


def _groups_around(organization_id: UUID, member_id: UUID) -> CTE:
    """Select every group around a principal, directly or through others; UNION ends cycles."""
    start = select(group_members.c.group_id).where(
        group_members.c.organization_id == organization_id, group_members.c.member_id == literal(member_id, Uuid)
    )
    around = start.cte("around", recursive=True)
    above = (
        select(group_members.c.group_id)
        .join(around, group_members.c.member_id == around.c.group_id)
        .where(group_members.c.organization_id == organization_id)
    )
    return around.union(above)


async def list_described_clients(
    connection: AsyncConnection, organization_id: UUID, *, other_than: Collection[str]
) -> Mapping[UUID, str]:
    """List the clients that documents of other hosts describe, with the addresses of the documents."""
    statement = select(oauth_clients.c.client_id, oauth_clients.c.document_url).where(
        oauth_clients.c.organization_id == organization_id,
        oauth_clients.c.document_url.is_not(None),
        ~in_array(func.lower(func.split_part(oauth_clients.c.document_url, "/", 3), type_=Text()), other_than),
    )
    return {row.client_id: row.document_url for row in await connection.execute(statement)}


async def delete_clients(connection: AsyncConnection, organization_id: UUID, *, ids: Collection[UUID]) -> None:
    """Delete OAuth clients with what people allowed them and their tokens."""
    statement = delete(oauth_clients).where(
        oauth_clients.c.organization_id == organization_id, in_array(oauth_clients.c.client_id, ids)
    )
    await connection.execute(statement)
