"""SQL of the admins' directory; each page or count is a statement. Filters need indexes of memberships and sign-ins."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import ResourceCount
from carrel.wire.admin import ListedUser, UserFilters
from carrel.wire.common import SecondFactor
from carrel.wire.people import GroupMembership
from service.platform.sql import Window, columns_of, count_rows, find_rows, in_array, matches, optional_in, rows_after
from service.schema.identity import group_members, principals
from service.schema.search import audit_entries
from service.schema.signin import invitations, oauth_clients, passkeys, second_factors


async def list_users(
    connection: Connection, organization_id: UUID, window: Window, *, filters: UserFilters, ids: Collection[UUID] | None
) -> list[ListedUser]:
    """List matching users by id, limited to `ids` if given, without their second factors."""
    own = (principals.c[name] for name in ("email", "name", "is_admin", "active"))
    matching = sa.select(principals.c.principal_id.label("id"), *own, *_facts(organization_id)).where(
        *_conditions(organization_id, filters), optional_in(principals.c.principal_id, ids)
    )
    statement = rows_after(matching, principals.c.principal_id, *window)
    return await find_rows(connection, statement, ListedUser)


async def list_second_factors(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> dict[UUID, list[SecondFactor]]:
    """List the second factors of each user who has one, oldest first."""
    columns = columns_of(second_factors, SecondFactor, passkeys.c.name, passkeys.c.synced)
    statement = (
        sa.select(second_factors.c.principal_id, *columns)
        .outerjoin(passkeys, passkeys.c.factor_id == second_factors.c.factor_id)
        .where(matches(second_factors, organization_id), in_array(second_factors.c.principal_id, principal_ids))
        .order_by(second_factors.c.factor_id)
    )
    found: dict[UUID, list[SecondFactor]] = {}
    for row in (await connection.execute(statement)).mappings():
        found.setdefault(row["principal_id"], []).append(SecondFactor(**{**row, "kind": row["kind"].upper()}))
    return found


async def count_users(connection: Connection, organization_id: UUID, *, filters: UserFilters) -> int:
    return await count_rows(connection, *_conditions(organization_id, filters))


async def list_memberships(
    connection: Connection, organization_id: UUID, window: Window, *, member_id: UUID
) -> list[GroupMembership]:
    """List the groups around a principal, at any distance, by id. A cycle doesn't put a group into itself."""
    around = _groups_around(organization_id, member_id)
    inner = principals.alias("inner")
    named = sa.func.jsonb_build_object("id", inner.c.principal_id, "name", inner.c.name, type_=JSONB)
    through = sa.select(sa.func.jsonb_agg(aggregate_order_by(named, inner.c.principal_id))).where(
        matches(group_members, organization_id, group_id=principals.c.principal_id, member_id=inner.c.principal_id),
        matches(inner, organization_id),
        inner.c.principal_id.in_(sa.select(around.c.group_id)),
    )
    own = matches(group_members, organization_id, group_id=principals.c.principal_id, member_id=member_id)
    facts = (
        _count(organization_id, group_members.c.group_id).label("member_count"),
        sa.exists(sa.select(group_members.c.group_id).where(own)).label("direct"),
        sa.func.coalesce(through.scalar_subquery(), sa.literal([], JSONB)).label("through"),
        principals.c.principal_id.label("id"),
    )
    found = sa.select(*columns_of(principals, GroupMembership, *facts)).where(
        principals.c.organization_id == organization_id,
        principals.c.principal_id.in_(sa.select(around.c.group_id)),
        principals.c.principal_id != member_id,
    )
    statement = rows_after(found, principals.c.principal_id, *window)
    return await find_rows(connection, statement, GroupMembership)


def _facts(organization_id: UUID) -> tuple[Any, ...]:
    invited = sa.select(invitations.c.expires_at).where(
        matches(invitations, organization_id, principal_id=principals.c.principal_id),
        invitations.c.expires_at > sa.func.now(),
    )
    last = _sign_ins(organization_id).with_only_columns(sa.func.max(audit_entries.c.at))
    return (
        _count(organization_id, group_members.c.member_id).label("group_count"),
        principals.c.password_hash.is_not(None).label("has_password"),
        last.scalar_subquery().label("last_signed_in_at"),
        invited.scalar_subquery().label("invited_until"),
    )


def _conditions(organization_id: UUID, filters: UserFilters) -> Iterator[sa.ColumnElement[bool]]:
    yield principals.c.organization_id == organization_id
    yield principals.c.kind == "user"
    if filters.query:
        is_named = principals.c.name.icontains(filters.query, autoescape=True)
        yield sa.or_(is_named, principals.c.email.icontains(filters.query, autoescape=True))
    memberships = sa.select(group_members.c.group_id).where(
        matches(group_members, organization_id, member_id=principals.c.principal_id)
    )
    facts = (
        (filters.active, principals.c.active),
        (filters.is_admin, principals.c.is_admin),
        (filters.signed_in, sa.exists(_sign_ins(organization_id))),
        (filters.in_group, sa.exists(memberships)),
    )
    for expected, fact in facts:
        if expected is not None:
            yield fact if expected else ~fact


def _sign_ins(organization_id: UUID) -> sa.Select[UUID]:
    """Select the sign-ins of the outer statement's user. The action is a literal, as in the index."""
    return sa.select(audit_entries.c.audit_log_id).where(
        matches(audit_entries, organization_id, actor_id=principals.c.principal_id),
        audit_entries.c.action == sa.literal_column("'session.begin'"),
    )


def _count(organization_id: UUID, column: sa.ColumnElement[UUID]) -> sa.ColumnElement[int]:
    counted = sa.select(sa.func.count()).where(
        matches(group_members, organization_id), column == principals.c.principal_id
    )
    return counted.scalar_subquery()


def _groups_around(organization_id: UUID, member_id: UUID) -> sa.CTE:
    """Select every group around a principal, direct or through others; UNION ends cycles."""
    start = sa.select(group_members.c.group_id).where(
        matches(group_members, organization_id, member_id=sa.literal(member_id, sa.Uuid))
    )
    around = start.cte("around", recursive=True)
    above = (
        sa.select(group_members.c.group_id)
        .join(around, group_members.c.member_id == around.c.group_id)
        .where(group_members.c.organization_id == organization_id)
    )
    return around.union(above)


async def list_described_clients(
    connection: Connection, organization_id: UUID, *, other_than: Collection[str]
) -> Mapping[UUID, str]:
    """List clients described by documents of other hosts, with the documents' addresses."""
    statement = sa.select(oauth_clients.c.client_id, oauth_clients.c.document_url).where(
        oauth_clients.c.organization_id == organization_id,
        oauth_clients.c.document_url.is_not(None),
        ~in_array(sa.func.lower(sa.func.split_part(oauth_clients.c.document_url, "/", 3), type_=sa.Text()), other_than),
    )
    return {row.client_id: row.document_url for row in await connection.execute(statement)}


async def delete_clients(connection: Connection, organization_id: UUID, *, ids: Collection[UUID]) -> None:
    own = matches(oauth_clients, organization_id), in_array(oauth_clients.c.client_id, ids)
    await connection.execute(sa.delete(oauth_clients).where(*own))


MOST_PEOPLE = 100
"""The most people to examine, since each has separate groups and classes."""


# The active people and service accounts among these principals and in their groups.
_PEOPLE = """
inside (principal_id) AS (
    SELECT unnest(:member_ids)
    UNION
    SELECT m.member_id FROM inside
    JOIN group_members m ON m.organization_id = :organization_id AND m.group_id = inside.principal_id
),
people AS (
    SELECT p.principal_id, p.kind FROM inside
    JOIN principals p ON p.organization_id = :organization_id AND p.principal_id = inside.principal_id
    WHERE p.kind IN ('user', 'serviceAccount') AND p.active
)
"""

_COUNT_PEOPLE = sa.text(f"WITH RECURSIVE {_PEOPLE} SELECT count(*) FROM people").bindparams(  # noqa: S608 - no foreign text
    sa.bindparam("member_ids", type_=sa.ARRAY(sa.Uuid())), sa.bindparam("organization_id", type_=sa.Uuid())
)

_LOSSES = sa.text(
    f"""
WITH RECURSIVE {_PEOPLE},
looked_at AS (SELECT principal_id, kind FROM people ORDER BY principal_id LIMIT :limit),
before (person_id, principal_id) AS (
    SELECT principal_id, principal_id FROM looked_at
    UNION
    SELECT b.person_id, m.group_id FROM before b
    JOIN group_members m ON m.organization_id = :organization_id AND m.member_id = b.principal_id
),
after (person_id, principal_id) AS (
    SELECT principal_id, principal_id FROM looked_at
    UNION
    SELECT a.person_id, m.group_id FROM after a
    JOIN group_members m ON m.organization_id = :organization_id AND m.member_id = a.principal_id
    WHERE NOT (m.group_id = :group_id AND m.member_id = ANY(:member_ids))
),
-- Everybody's principal has the organization's id, and people alone hold roles through it.
left_over (person_id, principal_id) AS (
    SELECT person_id, principal_id FROM after
    UNION ALL
    SELECT principal_id, :organization_id FROM looked_at WHERE kind = 'user'
),
gone (person_id, principal_id) AS (
    SELECT person_id, principal_id FROM before EXCEPT SELECT person_id, principal_id FROM after
),
lost (person_id, access_class) AS (
    SELECT g.person_id, r.access_class FROM gone g
    JOIN class_readers r ON r.organization_id = :organization_id AND r.principal_id = g.principal_id
    EXCEPT
    SELECT l.person_id, r.access_class FROM left_over l
    JOIN class_readers r ON r.organization_id = :organization_id AND r.principal_id = l.principal_id
),
sizes AS (
    SELECT o.access_class, o.resource_type, count(*) AS count FROM resources o
    WHERE o.organization_id = :organization_id AND o.access_class IN (SELECT access_class FROM lost)
    GROUP BY o.access_class, o.resource_type
)
SELECT l.person_id AS principal_id, s.resource_type, sum(s.count)::bigint AS count
FROM lost l JOIN sizes s ON s.access_class = l.access_class
GROUP BY l.person_id, s.resource_type
ORDER BY l.person_id, s.resource_type
"""  # noqa: S608 - no foreign text
).bindparams(
    sa.bindparam("member_ids", type_=sa.ARRAY(sa.Uuid())),
    sa.bindparam("organization_id", type_=sa.Uuid()),
    sa.bindparam("group_id", type_=sa.Uuid()),
    sa.bindparam("limit", type_=sa.Integer()),
)


_COUNT_GRANTED = sa.text("""
SELECT count(*) FROM resources o WHERE o.organization_id = :organization_id AND o.access_class IN (
    SELECT access_class FROM class_readers WHERE organization_id = :organization_id AND principal_id = :group_id)
""").bindparams(sa.bindparam("organization_id", type_=sa.Uuid()), sa.bindparam("group_id", type_=sa.Uuid()))


async def list_member_ids(connection: Connection, organization_id: UUID, *, group_id: UUID) -> list[UUID]:
    statement = sa.select(group_members.c.member_id).where(matches(group_members, organization_id, group_id=group_id))
    return list((await connection.execute(statement)).scalars())


async def count_granted(connection: Connection, organization_id: UUID, *, group_id: UUID) -> int:
    parameters = {"organization_id": organization_id, "group_id": group_id}
    return (await connection.execute(_COUNT_GRANTED, parameters)).scalar_one()


async def delete_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> None:
    """Delete a group, with memberships and roles by foreign keys; access classes stay, because found by composition."""
    own = matches(principals, organization_id, principal_id=group_id, kind="group")
    await connection.execute(sa.delete(principals).where(own))


async def count_people(connection: Connection, organization_id: UUID, *, member_ids: Collection[UUID]) -> int:
    """Count the active people and service accounts among these principals and in groups among them."""
    parameters = {"organization_id": organization_id, "member_ids": list(member_ids)}
    return (await connection.execute(_COUNT_PEOPLE, parameters)).scalar_one()


async def list_losses(
    connection: Connection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID]
) -> dict[UUID, list[ResourceCount]]:
    """Count by type the resources each of the first people would lose if these members were not in the group."""
    parameters = {
        "organization_id": organization_id,
        "group_id": group_id,
        "member_ids": list(member_ids),
        "limit": MOST_PEOPLE,
    }
    losses: dict[UUID, list[ResourceCount]] = {}
    for row in (await connection.execute(_LOSSES, parameters)).mappings():
        losses.setdefault(row["principal_id"], []).append(ResourceCount(**row))
    return losses
