"""SQL of the admins' directory; each page or count is a statement. Filters need indexes of memberships and sign-ins."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import ResourceCount
from carrel.wire.admin import ListedUser, UserFilters
from carrel.wire.common import SecondFactor
from carrel.wire.people import GroupMembership, TrashedGroup
from service.identity.queries import user_as
from service.platform.sql import (
    Window,
    columns_of,
    count_rows,
    delete_rows,
    find_rows,
    in_array,
    matches,
    optional_in,
    read_sql,
    rows_after,
)
from service.schema.identity import group_members, principals, trashed_groups
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
    """List second factors by user, oldest first; users without a second factor are absent."""
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
    """Select all groups that contain a principal, directly or through other groups. UNION ends cycles."""
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
    await delete_rows(connection, oauth_clients, organization_id, in_array(oauth_clients.c.client_id, ids))


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

_ORGANIZATION = sa.bindparam("organization_id", type_=sa.Uuid())
_GROUP = sa.bindparam("group_id", type_=sa.Uuid())
_MEMBERS = sa.bindparam("member_ids", type_=sa.ARRAY(sa.Uuid()))
_COUNT_PEOPLE = sa.text(f"WITH RECURSIVE {_PEOPLE} SELECT count(*) FROM people").bindparams(_MEMBERS, _ORGANIZATION)  # noqa: S608 - no foreign text
_LOSSES = sa.text(read_sql(__file__, "losses").replace("{people}", _PEOPLE)).bindparams(_MEMBERS, _ORGANIZATION, _GROUP)
_COUNT_GRANTED = sa.text("""
SELECT count(*) FROM resources o WHERE o.organization_id = :organization_id AND o.access_class IN (
    SELECT access_class FROM class_readers WHERE organization_id = :organization_id AND principal_id = :group_id)
""").bindparams(_ORGANIZATION, _GROUP)
# Without memberships from a sign-in provider: the next sign-in adds these again, or not.
_KEEP = sa.text(read_sql(__file__, "keep_group")).bindparams(
    _ORGANIZATION, _GROUP, sa.bindparam("deleted_by", type_=sa.Uuid()), sa.bindparam("kept", type_=JSONB)
)
_RESTORE = sa.text(read_sql(__file__, "restore_group")).bindparams(_ORGANIZATION, _GROUP)


async def list_member_ids(connection: Connection, organization_id: UUID, *, group_id: UUID) -> list[UUID]:
    statement = sa.select(group_members.c.member_id).where(matches(group_members, organization_id, group_id=group_id))
    return list((await connection.execute(statement)).scalars())


async def count_granted(connection: Connection, organization_id: UUID, *, group_id: UUID) -> int:
    parameters = {"organization_id": organization_id, "group_id": group_id}
    return (await connection.execute(_COUNT_GRANTED, parameters)).scalar_one()


async def delete_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> None:
    """Delete a group, with memberships and roles by foreign keys; access classes stay, because found by composition."""
    await delete_rows(connection, principals, organization_id, principal_id=group_id, kind="group")


async def lock_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> None:
    """Lock a group: open grants end first, and later grants find the group deleted."""
    own = matches(principals, organization_id, principal_id=group_id, kind="group")
    await connection.execute(sa.select(principals.c.principal_id).where(own).with_for_update())


async def keep_group(
    connection: Connection, organization_id: UUID, *, group_id: UUID, deleted_by: UUID | None, kept: Mapping[str, Any]
) -> None:
    """Add a group's details (`kept`), members, parent groups and roles to the trash; the group itself stays."""
    parameters = {"organization_id": organization_id, "group_id": group_id, "deleted_by": deleted_by, "kept": kept}
    await connection.execute(_KEEP, parameters)


async def restore_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> list[tuple[UUID, UUID]]:
    """Restore a group from the trash; return its memberships as (group, member) pairs."""
    rows = await connection.execute(_RESTORE, {"organization_id": organization_id, "group_id": group_id})
    return [(row.group_id, row.member_id) for row in rows]


async def has_namesake(connection: Connection, organization_id: UUID, *, group_id: UUID, days: int) -> bool | None:
    """Lock a group in the trash; return whether an existing group has the same external id, or, if neither group has
    an external id, the same name. None if the group is not in the trash."""
    kept, external_id = trashed_groups.c.kept, principals.c.external_id
    same = external_id.is_not_distinct_from(kept["externalId"].astext)
    same &= external_id.is_not(None) | (principals.c.name == kept["name"].astext)
    found = sa.exists().where(matches(principals, organization_id, kind="group"), same)
    chosen = *_in_trash(organization_id, days), trashed_groups.c.group_id == group_id
    return (await connection.execute(sa.select(found).where(*chosen).with_for_update())).scalar_one_or_none()


async def list_trashed(
    connection: Connection, organization_id: UUID, window: Window, *, days: int
) -> list[TrashedGroup]:
    row, kept = trashed_groups.c, trashed_groups.c.kept
    user = sa.select(user_as("deleted_by", principals.c.principal_id))
    facts = (
        kept["name"].astext.label("name"),
        kept["externalId"].astext.label("external_id"),
        sa.func.jsonb_array_length(kept["removed"]).label("member_count"),
        kept["resourceCount"].as_integer().label("resource_count"),
        user.where(matches(principals, organization_id, principal_id=row.deleted_by)).label("deleted_by"),
        (row.deleted_at + timedelta(days=days)).label("kept_until"),
    )
    statement = sa.select(row.group_id, row.deleted_at, *facts).where(*_in_trash(organization_id, days))
    return await find_rows(connection, rows_after(statement, row.group_id, *window), TrashedGroup)


def _in_trash(organization_id: UUID, days: int) -> tuple[sa.ColumnElement[bool], ...]:
    return matches(trashed_groups, organization_id), trashed_groups.c.deleted_at > sa.func.now() - timedelta(days=days)


async def erase_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> Mapping[str, Any] | None:
    """Delete a group in the trash for good; return the group's details from the trash, or None."""
    erased = sa.delete(trashed_groups).where(matches(trashed_groups, organization_id, group_id=group_id))
    return (await connection.execute(erased.returning(trashed_groups.c.kept))).scalar_one_or_none()


async def erase_old_groups(connection: Connection, organization_id: UUID, *, days: int) -> None:
    is_old = trashed_groups.c.deleted_at <= sa.func.now() - timedelta(days=days)
    await delete_rows(connection, trashed_groups, organization_id, is_old)


async def count_people(connection: Connection, organization_id: UUID, *, member_ids: Collection[UUID]) -> int:
    """Count the active people and service accounts among these members, and in the groups among these members."""
    parameters = {"organization_id": organization_id, "member_ids": list(member_ids)}
    return (await connection.execute(_COUNT_PEOPLE, parameters)).scalar_one()


async def list_losses(
    connection: Connection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID]
) -> dict[UUID, list[ResourceCount]]:
    """Count by type the resources that each of the first MOST_PEOPLE people would lose if these members left."""
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
