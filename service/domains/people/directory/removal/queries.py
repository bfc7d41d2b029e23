"""SQL of what somebody would read less without memberships that they have, and of deleting a group.

A person reads through the groups around them. Without some memberships these are fewer; what is lost are the access
classes of the groups that are gone, but for those in which a principal that is left has a role.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Uuid, bindparam, delete, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import find_rows
from service.schema.identity import group_members, principals

MOST_PEOPLE = 100
"""So many people are looked at, since each has groups and classes of their own."""


@dataclass(frozen=True, slots=True)
class LostResources:
    """The number of resources of a type that somebody would not read any more."""

    principal_id: UUID
    resource_type: str
    count: int


# Active people and service accounts among these principals, or in groups among them.
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

_COUNT_PEOPLE = text(f"WITH RECURSIVE {_PEOPLE} SELECT count(*) FROM people").bindparams(  # noqa: S608 - no foreign text
    bindparam("member_ids", type_=ARRAY(Uuid())), bindparam("organization_id", type_=Uuid())
)

_LOSSES = text(
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
    bindparam("member_ids", type_=ARRAY(Uuid())),
    bindparam("organization_id", type_=Uuid()),
    bindparam("group_id", type_=Uuid()),
    bindparam("limit", type_=Integer()),
)


_COUNT_GRANTED = text("""
SELECT count(*) FROM resources o WHERE o.organization_id = :organization_id AND o.access_class IN (
    SELECT access_class FROM class_readers WHERE organization_id = :organization_id AND principal_id = :group_id)
""").bindparams(bindparam("organization_id", type_=Uuid()), bindparam("group_id", type_=Uuid()))


async def list_member_ids(connection: AsyncConnection, organization_id: UUID, *, group_id: UUID) -> list[UUID]:
    """List the direct members of a group."""
    statement = select(group_members.c.member_id).where(
        group_members.c.organization_id == organization_id, group_members.c.group_id == group_id
    )
    return list((await connection.execute(statement)).scalars())


async def count_granted(connection: AsyncConnection, organization_id: UUID, *, group_id: UUID) -> int:
    """Count the resources that are granted to a group itself."""
    parameters = {"organization_id": organization_id, "group_id": group_id}
    return (await connection.execute(_COUNT_GRANTED, parameters)).scalar_one()


async def delete_group(connection: AsyncConnection, organization_id: UUID, *, group_id: UUID) -> None:
    """Delete a group, and with it (by foreign keys) its memberships on both sides and its roles in access classes.

    The classes stay, as they are found by what they were made of; nothing new comes into those that name the group.
    """
    await connection.execute(
        delete(principals).where(
            principals.c.organization_id == organization_id,
            principals.c.principal_id == group_id,
            principals.c.kind == "group",
        )
    )


async def count_people(connection: AsyncConnection, organization_id: UUID, *, member_ids: Collection[UUID]) -> int:
    """Count the active people and service accounts among these principals and in groups among them."""
    parameters = {"organization_id": organization_id, "member_ids": list(member_ids)}
    return (await connection.execute(_COUNT_PEOPLE, parameters)).scalar_one()


async def list_losses(
    connection: AsyncConnection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID]
) -> list[LostResources]:
    """Count by type what each of the first people would not read any more, if these members were not in the group."""
    parameters = {
        "organization_id": organization_id,
        "group_id": group_id,
        "member_ids": list(member_ids),
        "limit": MOST_PEOPLE,
    }
    return await find_rows(connection, _LOSSES, LostResources, parameters)
