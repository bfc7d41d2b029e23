"""SQL of access classes and resources, and the one builder of what a caller may see.

Grants are kept per access class; a caller's groups are expanded once, when it is authenticated. So every question of
visibility is one look at `class_readers`, and a change to a grant or a group counts from its commit on.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Select, Uuid, any_, bindparam, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import Role
from service.callers import Caller
from service.identity.tables import principals
from service.permissions.access import RANKED, Access
from service.permissions.tables import access_classes, class_readers, resources
from service.sql import ORGANIZATION, AnyRow, among, given, giving


def readable_classes(caller: Caller, *, at_least: Role = Role.VIEWER) -> Select[int]:
    """The access classes the caller has a role in: THE condition of visibility, default deny.

    Compose it inside every query that lists, counts or ranks resources or their contents, before its LIMIT.
    """
    statement = (
        select(class_readers.c.access_class)
        .where(
            class_readers.c.organization_id == caller.organization_id,
            among(class_readers.c.principal_id, caller.principals),
        )
        .distinct()
    )
    if at_least is Role.VIEWER:
        return statement
    return statement.where(class_readers.c.role.in_(RANKED[: RANKED.index(at_least) + 1]))


def readable_by_parameters() -> Select[int]:
    """`readable_classes` for a statement that is built once: its caller comes with `reader_parameters`."""
    principal: Any = bindparam("reading_principals", type_=ARRAY(Uuid()))
    return (
        select(class_readers.c.access_class)
        .where(
            class_readers.c.organization_id == bindparam("reading_organization", type_=Uuid()),
            class_readers.c.principal_id == any_(principal),
        )
        .distinct()
    )


def reader_parameters(caller: Caller) -> dict[str, object]:
    """The parameters of `readable_by_parameters`; default deny, since a statement can't run without them."""
    return {"reading_organization": caller.organization_id, "reading_principals": list(caller.principals)}


_LOCK_RESOURCE = (
    select(resources.c.access_class)
    .where(
        resources.c.organization_id == ORGANIZATION,
        resources.c.object_id == given(resources.c.object_id),
    )
    .with_for_update()
)


async def lock_resource(connection: AsyncConnection, organization_id: UUID, object_id: UUID) -> int | None:
    """Lock a resource until the transaction ends, and say its access class; None when there is no such resource.

    Whoever changes its access or writes its index does this first, so that neither can undo the other.
    """
    parameters = giving(organization_id, object_id=object_id)
    return (await connection.execute(_LOCK_RESOURCE, parameters)).scalar_one_or_none()


async def lock_resources(
    connection: AsyncConnection, organization_id: UUID, *, identities: Collection[tuple[str, str]]
) -> Sequence[AnyRow]:
    """Lock the resources of these (type, id in its source system), in one order, so that two calls never deadlock."""
    statement = (
        select(resources)
        .where(
            resources.c.organization_id == organization_id,
            tuple_(resources.c.resource_type, resources.c.resource_id).in_(list(identities)),
        )
        .order_by(resources.c.object_id)
        .with_for_update()
    )
    return (await connection.execute(statement)).all()


async def find_resource(
    connection: AsyncConnection, organization_id: UUID, *, resource_type: str, resource_id: str
) -> AnyRow | None:
    """The resource of this identity in its source system."""
    statement = select(resources).where(
        resources.c.organization_id == organization_id,
        resources.c.resource_type == resource_type,
        resources.c.resource_id == resource_id,
    )
    return (await connection.execute(statement)).one_or_none()


async def get_resource(connection: AsyncConnection, organization_id: UUID, *, object_id: UUID) -> AnyRow | None:
    """The resource of this object."""
    statement = select(resources).where(
        resources.c.organization_id == organization_id, resources.c.object_id == object_id
    )
    return (await connection.execute(statement)).one_or_none()


_INSERTED = ("organization_id", "object_id", "resource_type", "resource_id")
_INSERT_RESOURCE = (
    insert(resources)
    .from_select(
        [*_INSERTED, "access_class"],
        select(*(given(resources.c[name]) for name in _INSERTED), access_classes.c.access_class).where(
            access_classes.c.organization_id == ORGANIZATION,
            access_classes.c.digest == given(access_classes.c.digest),
        ),
    )
    .on_conflict_do_nothing()
    .returning(resources.c.object_id)
)


async def insert_resource(
    connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object], digest: bytes
) -> bool:
    """Add a resource with the access of this digest.

    False when its object or its identity is taken, or when there is no class of that access yet.
    """
    parameters = giving(organization_id, digest=digest, **row)
    return (await connection.execute(_INSERT_RESOURCE, parameters)).one_or_none() is not None


async def delete_resource(connection: AsyncConnection, organization_id: UUID, *, object_id: UUID) -> bool:
    """Remove a resource; False when there was none."""
    statement = (
        resources.delete()
        .where(resources.c.organization_id == organization_id, resources.c.object_id == object_id)
        .returning(resources.c.object_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def move_resources(connection: AsyncConnection, organization_id: UUID, *, classes: Mapping[UUID, int]) -> None:
    """Give resources (by object) other access classes; their rows are locked already."""
    if not classes:
        return
    statement = (
        update(resources)
        .where(resources.c.organization_id == organization_id, resources.c.object_id == bindparam("moved"))
        .values(access_class=bindparam("to_class"))
    )
    rows = [{"moved": object_id, "to_class": access_class} for object_id, access_class in sorted(classes.items())]
    await connection.execute(statement, rows)


async def find_classes(
    connection: AsyncConnection, organization_id: UUID, *, digests: Collection[bytes]
) -> dict[bytes, int]:
    """The access classes there are of these digests."""
    statement = select(access_classes.c.digest, access_classes.c.access_class).where(
        access_classes.c.organization_id == organization_id, among(access_classes.c.digest, digests)
    )
    return {row.digest: row.access_class for row in await connection.execute(statement)}


async def insert_classes(
    connection: AsyncConnection, organization_id: UUID, *, accesses: Mapping[bytes, Access]
) -> dict[bytes, int]:
    """Add access classes with their readers; those that another transaction added meanwhile are left out.

    Waits for a transaction that is adding one of them; in one order, so that two calls never deadlock.
    """
    rows = [{"organization_id": organization_id, "digest": digest} for digest in sorted(accesses)]
    statement = (
        insert(access_classes)
        .values(rows)
        .on_conflict_do_nothing()
        .returning(access_classes.c.digest, access_classes.c.access_class)
    )
    added: dict[bytes, int] = {row.digest: row.access_class for row in await connection.execute(statement)}
    readers = [
        {"organization_id": organization_id, "principal_id": holder, "access_class": access_class, "role": role}
        for digest, access_class in added.items()
        for holder, role in accesses[digest].grants()
    ]
    if readers:
        await connection.execute(insert(class_readers), readers)
    return added


async def list_class_readers(
    connection: AsyncConnection, organization_id: UUID, *, access_class: int
) -> Sequence[AnyRow]:
    """Who holds which role in a class, with each principal's kind, name and address, in the order of their ids."""
    statement = (
        select(
            class_readers.c.principal_id, class_readers.c.role, principals.c.kind, principals.c.name, principals.c.email
        )
        .join(principals, principals.c.principal_id == class_readers.c.principal_id)
        .where(class_readers.c.organization_id == organization_id, class_readers.c.access_class == access_class)
        .order_by(class_readers.c.principal_id, class_readers.c.role)
    )
    return (await connection.execute(statement)).all()


async def list_readers(
    connection: AsyncConnection, organization_id: UUID, *, access_classes: Collection[int]
) -> Sequence[AnyRow]:
    """Who holds which role in which of these classes."""
    statement = select(class_readers).where(
        class_readers.c.organization_id == organization_id, among(class_readers.c.access_class, access_classes)
    )
    return (await connection.execute(statement)).all()


async def list_readable_resources(
    connection: AsyncConnection, caller: Caller, *, resource_type: str | None, after: UUID, limit: int
) -> Sequence[AnyRow]:
    """The resources the caller may read, in the order of their objects' ids."""
    statement = (
        select(resources.c.object_id, resources.c.resource_type, resources.c.resource_id)
        .where(
            resources.c.organization_id == caller.organization_id,
            resources.c.object_id > after,
            resources.c.access_class.in_(readable_classes(caller)),
        )
        .order_by(resources.c.object_id)
        .limit(limit)
    )
    if resource_type is not None:
        statement = statement.where(resources.c.resource_type == resource_type)
    return (await connection.execute(statement)).all()


# Nested groups are walked by the index of memberships that are groups. Of each group's people, only those who can
# appear on this page are read: the first `limit` active ones after the last page, in the order of their ids.
_EFFECTIVE_PRINCIPALS = text("""
WITH RECURSIVE holders AS (
    SELECT DISTINCT principal_id FROM class_readers
    WHERE organization_id = :organization_id AND access_class = :access_class
),
groups (group_id) AS (
    SELECT p.principal_id FROM holders h JOIN principals p ON p.principal_id = h.principal_id WHERE p.kind = 'group'
    UNION
    SELECT m.member_id FROM groups g
    JOIN group_members m ON m.organization_id = :organization_id AND m.group_id = g.group_id AND m.member_is_group
),
candidates AS (
    SELECT principal_id FROM holders WHERE principal_id > :after
    UNION
    SELECT group_id FROM groups WHERE group_id > :after
    UNION
    SELECT person.member_id FROM groups g CROSS JOIN LATERAL (
        SELECT m.member_id FROM group_members m JOIN principals p ON p.principal_id = m.member_id
        WHERE m.organization_id = :organization_id AND m.group_id = g.group_id AND m.member_id > :after
          AND NOT m.member_is_group AND p.active
        ORDER BY m.member_id LIMIT :limit
    ) person
    UNION
    SELECT person.principal_id FROM (
        SELECT p.principal_id FROM principals p
        WHERE p.organization_id = :organization_id AND p.kind = 'user' AND p.active AND p.principal_id > :after
          AND EXISTS (SELECT FROM holders WHERE principal_id = :organization_id)
        ORDER BY p.principal_id LIMIT :limit
    ) person
)
SELECT p.principal_id, p.kind, p.name, p.email
FROM candidates c JOIN principals p ON p.principal_id = c.principal_id
WHERE p.organization_id = :organization_id AND p.active AND p.kind <> 'everyone'
ORDER BY p.principal_id
LIMIT :limit
""")


async def list_effective_principals(
    connection: AsyncConnection, organization_id: UUID, *, access_class: int, after: UUID, limit: int
) -> Sequence[AnyRow]:
    """Every group and active person with a role in a class, however they come by it, each once, ordered by id."""
    parameters = {
        "organization_id": organization_id,
        "access_class": access_class,
        "after": after,
        "limit": limit,
    }
    return (await connection.execute(_EFFECTIVE_PRINCIPALS, parameters)).all()
