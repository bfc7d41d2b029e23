"""SQL of access classes and their readers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Uuid, exists, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import Role
from service.permissions.access import Access
from service.platform.sql import columns_of, find_rows, in_array, rows_of
from service.schema.identity import principals
from service.schema.permissions import access_classes, class_readers


@dataclass(frozen=True)
class ClassReader:
    """A principal that has a role in an access class."""

    access_class: int
    principal_id: UUID
    role: str


@dataclass(frozen=True)
class Grant:
    """A role that a principal was granted."""

    principal_id: UUID
    role: str
    kind: str
    name: str
    email: str | None


async def find_classes(
    connection: AsyncConnection, organization_id: UUID, *, digests: Collection[bytes]
) -> dict[bytes, int]:
    """Find the access classes of these digests."""
    statement = select(access_classes.c.digest, access_classes.c.access_class).where(
        access_classes.c.organization_id == organization_id, in_array(access_classes.c.digest, digests)
    )
    return {row.digest: row.access_class for row in await connection.execute(statement)}


async def insert_classes(
    connection: AsyncConnection, organization_id: UUID, *, accesses: Mapping[bytes, Access]
) -> dict[bytes, int]:
    """Add access classes with their readers; leave out classes that another transaction added meanwhile.

    Waits for a transaction that is adding one of them; in one order, so that two calls never deadlock.
    """
    organization = literal(organization_id, Uuid)
    digests = rows_of([access_classes.c.digest], [{"digest": digest} for digest in sorted(accesses)])
    statement = (
        insert(access_classes)
        .from_select(["organization_id", "digest"], select(organization, digests.c.digest))
        .on_conflict_do_nothing()
        .returning(access_classes.c.digest, access_classes.c.access_class)
    )
    added: dict[bytes, int] = {row.digest: row.access_class for row in await connection.execute(statement)}
    readers = [
        {"principal_id": grantee, "access_class": access_class, "role": role}
        for digest, access_class in added.items()
        for grantee, role in accesses[digest].grants()
    ]
    rows = rows_of([class_readers.c[name] for name in ("principal_id", "access_class", "role")], readers)
    await connection.execute(
        insert(class_readers).from_select(["organization_id", *rows.c.keys()], select(organization, *rows.c))
    )
    return added


async def list_readers(
    connection: AsyncConnection, organization_id: UUID, *, access_classes: Collection[int]
) -> list[ClassReader]:
    """List the readers of these access classes, with their roles."""
    statement = select(*columns_of(class_readers, ClassReader)).where(
        class_readers.c.organization_id == organization_id, in_array(class_readers.c.access_class, access_classes)
    )
    return await find_rows(connection, statement, ClassReader)


async def has_role(
    connection: AsyncConnection, organization_id: UUID, *, access_class: int, principal_id: UUID
) -> bool:
    """Check whether a principal itself (not one of its groups) has a role in an access class."""
    held = select(class_readers.c.principal_id).where(
        class_readers.c.organization_id == organization_id,
        class_readers.c.access_class == access_class,
        class_readers.c.principal_id == principal_id,
    )
    return (await connection.execute(select(exists(held)))).scalar_one()


async def list_grants(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    access_class: int,
    after: tuple[UUID, str] | None = None,
    limit: int | None = None,
) -> list[Grant]:
    """List the roles granted in a class, by principal and role.

    The roles of the owner, of everyone and of deleted service accounts are left out. `after` is a principal and a role.
    """
    held = class_readers.c
    statement = (
        select(held.principal_id, held.role, principals.c.kind, principals.c.name, principals.c.email)
        .join(principals, principals.c.principal_id == held.principal_id)
        .where(
            held.organization_id == organization_id,
            held.access_class == access_class,
            held.role != Role.OWNER,
            principals.c.organization_id == organization_id,
            principals.c.kind != "everyone",
            principals.c.deleted_at.is_(None),
        )
        .order_by(held.principal_id, held.role)
        .limit(limit)
    )
    if after is not None:
        # The first condition is one that the index can begin at; the second knows the roles of one principal apart.
        statement = statement.where(held.principal_id >= after[0], tuple_(held.principal_id, held.role) > after)
    return await find_rows(connection, statement, Grant)
