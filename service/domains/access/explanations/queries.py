"""SQL of explanations: the groups above a principal, level by level, and which of them hold a role."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Uuid, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import Role
from service.platform.sql import as_member, find_rows, in_array
from service.schema.identity import group_members
from service.schema.permissions import class_readers


@dataclass(frozen=True, slots=True)
class HeldRole:
    """A role that a principal itself holds."""

    principal_id: UUID
    role: Role


@dataclass(frozen=True, slots=True)
class Step:
    """A group and a direct member of it."""

    group_id: UUID
    member_id: UUID


async def list_groups_around(
    connection: AsyncConnection, organization_id: UUID, *, members: Collection[UUID]
) -> Collection[UUID]:
    """List the groups that any of these principals is a direct member of, each once."""
    statement = (
        select(group_members.c.group_id)
        .where(group_members.c.organization_id == organization_id, in_array(group_members.c.member_id, members))
        .distinct()
    )
    return (await connection.execute(statement)).scalars().all()


async def list_roles(
    connection: AsyncConnection, organization_id: UUID, *, access_class: int, grantees: Collection[UUID]
) -> list[HeldRole]:
    """List which of these principals themselves hold which role in an access class."""
    statement = select(class_readers.c.principal_id, as_member(class_readers.c.role, Role)).where(
        class_readers.c.organization_id == organization_id,
        class_readers.c.access_class == access_class,
        in_array(class_readers.c.principal_id, grantees),
    )
    return await find_rows(connection, statement, HeldRole)


async def list_steps_down(
    connection: AsyncConnection, organization_id: UUID, *, levels: Mapping[UUID, int], most: int
) -> list[Step]:
    """List for each group its members of the level below, in order, up to a limit."""
    ids, numbers = literal(list(levels), ARRAY(Uuid)), literal(list(levels.values()), ARRAY(Integer))
    below = func.unnest(ids, numbers).table_valued("id", "level").render_derived(name="below")
    above = func.unnest(ids, numbers).table_valued("id", "level").render_derived(name="above")
    place = func.row_number().over(partition_by=group_members.c.group_id, order_by=group_members.c.member_id)
    steps = (
        select(group_members.c.group_id, group_members.c.member_id, place.label("place"))
        .where(
            group_members.c.organization_id == organization_id,
            group_members.c.member_id == below.c.id,
            group_members.c.group_id == above.c.id,
            above.c.level == below.c.level + 1,
        )
        .subquery("steps")
    )
    statement = (
        select(steps.c.group_id, steps.c.member_id)
        .where(steps.c.place <= most)
        .order_by(steps.c.group_id, steps.c.member_id)
    )
    return await find_rows(connection, statement, Step)
