"""SQL of direct group memberships."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, Boolean, TableValuedAlias, Uuid, column, delete, exists, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import in_array
from service.schema.identity import group_members
from service.schema.signin import provider_memberships


@dataclass(frozen=True)
class Membership:
    """The membership of a principal that is directly in a group."""

    group_id: UUID
    member_id: UUID
    member_is_group: bool


async def count_members(
    connection: AsyncConnection, organization_id: UUID, *, group_ids: Collection[UUID]
) -> dict[UUID, int]:
    """Count the direct members of groups; a group without members is left out."""
    statement = (
        select(group_members.c.group_id, func.count().label("members"))
        .where(group_members.c.organization_id == organization_id, in_array(group_members.c.group_id, group_ids))
        .group_by(group_members.c.group_id)
    )
    return {row.group_id: row.members for row in await connection.execute(statement)}


async def add_members(
    connection: AsyncConnection, organization_id: UUID, *, memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Add memberships, and return the (group, member) pairs that were new.

    They stay when a token of a sign-in provider that brought them before names them no more.
    """
    added = await bring_members(connection, organization_id, memberships=memberships)
    wanted, brought = _unnest_memberships(memberships), provider_memberships.c
    await connection.execute(
        delete(provider_memberships).where(
            brought.organization_id == organization_id,
            brought.group_id == wanted.c.group_id,
            brought.member_id == wanted.c.member_id,
        )
    )
    return added


async def bring_members(
    connection: AsyncConnection, organization_id: UUID, *, memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Add memberships, and leave as they are those that are there; return the (group, member) pairs that were new."""
    wanted = _unnest_memberships(memberships)
    rows = select(literal(organization_id, Uuid), wanted.c.group_id, wanted.c.member_id, wanted.c.member_is_group)
    statement = (
        insert(group_members)
        .from_select(["organization_id", "group_id", "member_id", "member_is_group"], rows)
        .on_conflict_do_nothing()
        .returning(group_members.c.group_id, group_members.c.member_id)
    )
    return [(row.group_id, row.member_id) for row in await connection.execute(statement)]


async def remove_members(
    connection: AsyncConnection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID]
) -> list[UUID]:
    """Remove members from a group; return those that were in the group."""
    statement = (
        delete(group_members)
        .where(
            group_members.c.organization_id == organization_id,
            group_members.c.group_id == group_id,
            in_array(group_members.c.member_id, member_ids),
        )
        .returning(group_members.c.member_id)
    )
    return list((await connection.execute(statement)).scalars())


async def leave_groups(connection: AsyncConnection, organization_id: UUID, *, member_id: UUID) -> list[UUID]:
    """Remove a principal from every group that it is directly in; return those groups."""
    statement = (
        delete(group_members)
        .where(group_members.c.organization_id == organization_id, group_members.c.member_id == member_id)
        .returning(group_members.c.group_id)
    )
    return list((await connection.execute(statement)).scalars())


async def keep_only(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    group_ids: Collection[UUID],
    memberships: Collection[Membership],
) -> list[tuple[UUID, UUID]]:
    """Remove every member of these groups that `memberships` doesn't name; return the (group, member) pairs removed."""
    wanted = _unnest_memberships(memberships)
    kept = exists().where(
        wanted.c.group_id == group_members.c.group_id, wanted.c.member_id == group_members.c.member_id
    )
    statement = (
        delete(group_members)
        .where(group_members.c.organization_id == organization_id, in_array(group_members.c.group_id, group_ids), ~kept)
        .returning(group_members.c.group_id, group_members.c.member_id)
    )
    return [(row.group_id, row.member_id) for row in await connection.execute(statement)]


def _unnest_memberships(memberships: Collection[Membership]) -> TableValuedAlias:
    return (
        func.unnest(
            literal([one.group_id for one in memberships], ARRAY(Uuid)),
            literal([one.member_id for one in memberships], ARRAY(Uuid)),
            literal([one.member_is_group for one in memberships], ARRAY(Boolean)),
        )
        .table_valued(column("group_id", Uuid), column("member_id", Uuid), column("member_is_group", Boolean))
        .render_derived(name="wanted")
    )
