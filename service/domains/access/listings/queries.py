"""SQL of the lists of all access; each is walked in the order of an index, and a page is one statement."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    Table,
    Text,
    Uuid,
    bindparam,
    exists,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.access import GroupPerson
from service.platform.sql import find_rows, in_array
from service.schema.audit import audit_entries
from service.schema.identity import group_members, principals
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class ClassGrantee:
    """A principal that holds a role in the access class of this digest."""

    digest: bytes
    principal_id: UUID
    kind: str
    role: str


# The first condition is one that the index can begin at; the second knows the holders of one class apart.
_HOLDERS = text("""
SELECT c.digest, r.principal_id, p.kind, r.role
FROM access_classes c
JOIN class_readers r ON r.organization_id = :organization_id AND r.access_class = c.access_class
JOIN principals p ON p.organization_id = :organization_id AND p.principal_id = r.principal_id
WHERE c.organization_id = :organization_id
  AND c.digest >= :digest AND (c.digest, r.principal_id, r.role) > (:digest, :principal_id, :role)
  AND p.active
  AND EXISTS (SELECT FROM resources o WHERE o.organization_id = :organization_id AND o.access_class = c.access_class)
ORDER BY c.digest, r.principal_id, r.role
LIMIT :limit
""").bindparams(bindparam("digest", type_=LargeBinary()), bindparam("principal_id", type_=Uuid()))


async def list_grantees(
    connection: AsyncConnection, organization_id: UUID, *, after: tuple[bytes, UUID, str], limit: int
) -> list[ClassGrantee]:
    """List the grantees of each access class that a resource has, ordered by class digest, principal and role.

    Inactive people, and service accounts that were deleted, are left out.
    """
    digest, principal_id, role = after
    parameters = {
        "organization_id": organization_id,
        "digest": digest,
        "principal_id": principal_id,
        "role": role,
        "limit": limit,
    }
    return await find_rows(connection, _HOLDERS, ClassGrantee, parameters)


# Group by group, so that a page reads the groups it shows and the one that it ends in, not all there are.
_GROUP_PEOPLE = text("""
SELECT g.principal_id AS group_id, person.member_id AS principal_id
FROM principals g CROSS JOIN LATERAL (
    WITH RECURSIVE inside (group_id) AS (
        SELECT g.principal_id
        UNION
        SELECT m.member_id FROM inside i
        JOIN group_members m ON m.organization_id = :organization_id AND m.group_id = i.group_id AND m.member_is_group
    )
    SELECT DISTINCT m.member_id FROM inside i
    JOIN group_members m ON m.organization_id = :organization_id AND m.group_id = i.group_id AND NOT m.member_is_group
    JOIN principals p ON p.organization_id = :organization_id AND p.principal_id = m.member_id AND p.active
    WHERE g.principal_id > :group_id OR m.member_id > :member_id
    ORDER BY m.member_id LIMIT :limit
) person
WHERE g.organization_id = :organization_id AND g.kind = 'group' AND g.principal_id >= :group_id
ORDER BY g.principal_id, person.member_id
LIMIT :limit
""").bindparams(bindparam("group_id", type_=Uuid()), bindparam("member_id", type_=Uuid()))


async def list_group_people(
    connection: AsyncConnection, organization_id: UUID, *, after: tuple[UUID, UUID], limit: int
) -> list[GroupPerson]:
    """List every active person in every group, nested or not, each once per group; ordered by group, then person."""
    group_id, member_id = after
    parameters = {
        "organization_id": organization_id,
        "group_id": group_id,
        "member_id": member_id,
        "limit": limit,
    }
    return await find_rows(connection, _GROUP_PEOPLE, GroupPerson, parameters)


def _total(organization_id: UUID, table: Table, *ids: ColumnElement[UUID]) -> list[ColumnElement[str]]:
    """Return how many rows there are, and a sum that any row written anew changes, whatever is written.

    A row's `xmin` is the transaction that wrote it: setting something back doesn't bring it back.
    """
    sum_of: ColumnElement[int] = sql_cast(sql_cast(literal_column(f"{table.name}.xmin"), Text), BigInteger)
    for one in ids:
        sum_of = func.uuid_hash_extended(one, sum_of)
    of_organization = table.c.organization_id == organization_id
    return [
        sql_cast(select(value).select_from(table).where(of_organization).scalar_subquery(), Text)
        for value in (func.count(), func.coalesce(func.sum(sum_of), 0))
    ]


async def read_totals(connection: AsyncConnection, organization_id: UUID) -> tuple[Sequence[str], datetime]:
    """Read the values that change whenever resources, people or groups change, and the time of reading.

    An access class never changes, so its holders need not be looked at.
    """
    statement = select(
        *_total(organization_id, resources, resources.c.object_id),
        *_total(organization_id, principals, principals.c.principal_id),
        *_total(organization_id, group_members, group_members.c.group_id, group_members.c.member_id),
        func.now(),
    )
    row: Sequence[Any] = (await connection.execute(statement)).one()
    return row[:-1], row[-1]


async def has_entry_since(
    connection: AsyncConnection, organization_id: UUID, *, since: datetime, but: Collection[str]
) -> bool:
    """Check whether the audit log has an entry of a later transaction, with an action other than these."""
    later = select(audit_entries.c.audit_log_id).where(
        audit_entries.c.organization_id == organization_id,
        audit_entries.c.at > since,
        ~in_array(audit_entries.c.action, but),
    )
    return (await connection.execute(select(exists(later)))).scalar_one()
