"""SQL of resources, and the conditions of visibility. Grants are stored per access class, and groups are expanded at
authentication. So visibility is a single look at `class_readers`, and a change counts from its commit."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import ResourceReference, Role
from service.auth.callers import Caller
from service.permissions.access import RANKED, Access
from service.platform.batches import Answer, Batch
from service.platform.errors import Forbidden
from service.platform.sql import ORGANIZATION, columns_of, find_row, find_rows, in_array, param, params, rows_of
from service.schema.agents import agents
from service.schema.catalog import collections
from service.schema.identity import access_classes, class_readers, principals, resources
from service.schema.indexing import INDEX_TABLES, space_documents, spaces


class Reader(Protocol):
    """A caller, or a person in a browser, with all ids that carry permissions."""

    @property
    def organization_id(self) -> UUID: ...

    @property
    def principals(self) -> Collection[UUID]:
        """The reader, the reader's groups, and for a user the organization's id."""
        ...


@dataclass(frozen=True)
class Resource:
    """A resource with grants. A file in a container has its container's class; `shares` are roles the owner gave."""

    object_id: UUID
    resource_type: str
    resource_id: str
    access_class: int
    container_id: UUID | None
    shares: Mapping[str, str] | None

    def shared_in(self, access: Access) -> dict[UUID, str]:
        """Return the roles in `access` that the owner gave. `shares` can be stale: release 0.3.0 leaves them as is."""
        given = {UUID(principal_id): role for principal_id, role in (self.shares or {}).items()}
        return dict(given.items() & set(access.grants())) if given else {}


_RESOURCE = columns_of(resources, Resource)
_readers = class_readers.c


def readable_classes(caller: Reader, *, at_least: Role = Role.VIEWER) -> sa.Select[int]:
    """Select the access classes in which the caller has a role: THE condition of visibility, before the LIMIT of every
    query of resources or contents. Raises Forbidden for callers limited to collections."""
    _refuse_narrowed(caller)
    return classes_of(caller, at_least=at_least)


def is_readable(caller: Reader, resource: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that the caller, even if limited to collections, may read the document of `resource`."""
    readable = resource.c.access_class.in_(classes_of(caller))
    narrowed_to = collections_of(caller)
    if narrowed_to is None:
        return readable
    within = documents_within(
        sa.literal(caller.organization_id, sa.Uuid), sa.literal(list(narrowed_to), sa.ARRAY(sa.Uuid))
    )
    return sa.and_(readable, resource.c.object_id.in_(within))


def documents_within(organization_id: sa.ColumnElement[UUID], collection_ids: sa.ColumnElement[Any]) -> sa.Select[UUID]:
    return (
        sa.select(space_documents.c.document_id)
        .join(collections, collections.c.space_id == space_documents.c.space_id)
        .where(
            space_documents.c.organization_id == organization_id,
            collections.c.organization_id == organization_id,
            collections.c.collection_id == sa.any_(collection_ids),
        )
    )


async def is_within(connection: Connection, caller: Caller, *, object_id: UUID) -> bool:
    """Return whether a document is in the collections of a limited caller; always False for other callers."""
    narrowed_to = sa.literal(list(caller.collection_ids or ()), sa.ARRAY(sa.Uuid))
    within = documents_within(sa.literal(caller.organization_id, sa.Uuid), narrowed_to)
    held = within.where(space_documents.c.document_id == object_id).exists()
    return (await connection.execute(sa.select(held))).scalar_one()


def collections_of(caller: Reader) -> frozenset[UUID] | None:
    """Return the only collections that a caller may read; None if the caller is not limited to collections."""
    return caller.collection_ids if isinstance(caller, Caller) else None


def _refuse_narrowed(caller: Reader) -> None:
    if collections_of(caller) is not None:
        message = "You allowed this client only some collections. To allow more, authorize the client again."
        raise Forbidden(message, code="narrowed_to_collections")


def classes_of(caller: Reader, *, at_least: Role = Role.VIEWER) -> sa.Select[int]:
    """Select the access classes with at least a role of the caller, without regard to a limit to collections."""
    own = _readers.organization_id == caller.organization_id, in_array(_readers.principal_id, caller.principals)
    statement = sa.select(_readers.access_class).where(*own).distinct()
    if at_least is Role.VIEWER:
        return statement
    return statement.where(class_readers.c.role.in_(RANKED[: RANKED.index(at_least) + 1]))


def readable_by_parameters() -> sa.Select[int]:
    """Return `readable_classes` for a statement built once; `reader_parameters` passes the caller."""
    principal: Any = sa.bindparam("reading_principals", type_=sa.ARRAY(sa.Uuid()))
    of_organization = _readers.organization_id == sa.bindparam("reading_organization", type_=sa.Uuid())
    return (
        sa.select(_readers.access_class).where(of_organization, _readers.principal_id == sa.any_(principal)).distinct()
    )


def reader_parameters(caller: Caller, *, is_narrowing: bool = False) -> dict[str, object]:
    """Return the values of `readable_by_parameters` and, if narrowing, `within_parameters`. Default: deny."""
    if not is_narrowing:
        _refuse_narrowed(caller)
    return {
        "reading_organization": caller.organization_id,
        "reading_principals": list(caller.principals),
        "narrowed_to": list(caller.collection_ids or ()),
    }


def within_parameters() -> sa.Select[UUID]:
    """Return `documents_within` for a statement built once; `reader_parameters` passes the collections."""
    narrowed_to: Any = sa.bindparam("narrowed_to", type_=sa.ARRAY(sa.Uuid()))
    return documents_within(sa.bindparam("reading_organization", type_=sa.Uuid()), narrowed_to)


def owned_classes(organization_id: UUID, owner_id: UUID) -> sa.Select[int]:
    """Select the access classes owned directly by a principal, active or not."""
    owned = _readers.principal_id == owner_id, _readers.role == Role.OWNER
    return sa.select(_readers.access_class).where(_readers.organization_id == organization_id, *owned)


def shared_classes(organization_id: UUID) -> sa.Select[int]:
    """Select the access classes with a role besides the owner's, once for each such role."""
    return sa.select(_readers.access_class).where(
        _readers.organization_id == organization_id, _readers.role != Role.OWNER
    )


def open_classes(organization_id: UUID) -> sa.Select[int]:
    """Select the access classes in which everyone in the organization has a role."""
    everybody = _readers.organization_id == organization_id, _readers.principal_id == organization_id
    return sa.select(_readers.access_class).where(*everybody).distinct()


_OF_OBJECT = resources.c.organization_id == ORGANIZATION, resources.c.object_id == param(resources.c.object_id)
_LOCK_RESOURCE = sa.select(resources.c.access_class).where(*_OF_OBJECT).with_for_update()


def ask_lock(batch: Batch, organization_id: UUID, object_id: UUID) -> Answer[dict[str, int]]:
    """Like `lock_resource`, but in a batch."""
    return batch.ask(_LOCK_RESOURCE, dict[str, int], params(organization_id, object_id=object_id))


async def lock_resource(connection: Connection, organization_id: UUID, object_id: UUID) -> int | None:
    """Lock a resource, before changes of access or index, and return the class; None without a resource."""
    parameters = params(organization_id, object_id=object_id)
    return (await connection.execute(_LOCK_RESOURCE, parameters)).scalar_one_or_none()


# Containers before their files, the order of changes of a container.
_LOCK_ORDER = resources.c.container_id.is_not(None), resources.c.object_id


async def lock_objects(connection: Connection, organization_id: UUID, *, object_ids: Collection[UUID]) -> None:
    """Lock the resources of objects until the transaction ends, in a fixed order, so that two calls never deadlock."""
    own = resources.c.organization_id == organization_id, in_array(resources.c.object_id, object_ids)
    statement = sa.select(resources.c.object_id).where(*own).order_by(*_LOCK_ORDER)
    await connection.execute(statement.with_for_update())


async def lock_resources(
    connection: Connection, organization_id: UUID, *, identities: Collection[tuple[str, str]]
) -> list[Resource]:
    """Lock the resources by (type, id in the source system), in a fixed order, so that two calls never deadlock."""
    named = sa.tuple_(resources.c.resource_type, resources.c.resource_id).in_(list(identities))
    statement = sa.select(*_RESOURCE).where(resources.c.organization_id == organization_id, named)
    return await find_rows(connection, statement.order_by(*_LOCK_ORDER).with_for_update(), Resource)


async def lock_owned_resources(
    connection: Connection, organization_id: UUID, *, owner_id: UUID, resource_types: Collection[str] | None, limit: int
) -> list[Resource]:
    """Lock a principal's first `limit` resources, optionally of some types, by object id; skip files in containers."""
    statement = (
        sa.select(*_RESOURCE)
        .where(
            resources.c.organization_id == organization_id,
            resources.c.access_class.in_(owned_classes(organization_id, owner_id)),
            resources.c.container_id.is_(None),
        )
        .order_by(resources.c.object_id)
        .limit(limit)
        .with_for_update()
    )
    if resource_types is not None:
        statement = statement.where(in_array(resources.c.resource_type, resource_types))
    return await find_rows(connection, statement, Resource)


async def lock_shared(
    connection: Connection, organization_id: UUID, *, owner_ids: Collection[UUID], after: UUID | None, limit: int
) -> list[Resource]:
    """Lock the next resources that some owners share, also with a group in the trash alone, in the usual order."""
    owned = _readers.organization_id == organization_id, _readers.role == Role.OWNER
    classes = sa.select(_readers.access_class).where(*owned, in_array(_readers.principal_id, owner_ids))
    statement = (
        sa.select(*_RESOURCE)
        .where(
            resources.c.organization_id == organization_id,
            resources.c.access_class.in_(classes),
            resources.c.shares.is_not(None),
            sa.true() if after is None else resources.c.object_id > after,
        )
        .order_by(resources.c.object_id)
        .limit(limit)
        .with_for_update()
    )
    return await find_rows(connection, statement, Resource)


async def set_shares(connection: Connection, organization_id: UUID, resource: Resource) -> None:
    """Save `resource.shares`, the roles that the owner gave; the resource must be locked."""
    own = resources.c.organization_id == organization_id, resources.c.object_id == resource.object_id
    await connection.execute(sa.update(resources).where(*own).values(shares=resource.shares or sa.null()))


async def lock_contained(
    connection: Connection, organization_id: UUID, *, container_ids: Collection[UUID]
) -> dict[UUID, UUID]:
    """Lock the files in containers, at every depth; return the direct container of each file."""
    found: dict[UUID, UUID] = {}
    outer = container_ids
    # Level by level: a job that adds a file to a container holds the container's lock.
    while outer:
        statement = (
            sa.select(resources.c.object_id, resources.c.container_id)
            .where(resources.c.organization_id == organization_id, in_array(resources.c.container_id, outer))
            .order_by(resources.c.object_id)
            .with_for_update()
        )
        inner = {row.object_id: row.container_id for row in await connection.execute(statement)}
        found |= inner
        outer = inner.keys()
    return found


async def find_resource(connection: Connection, organization_id: UUID, reference: ResourceReference) -> Resource | None:
    named = resources.c.resource_type == reference.resource_type, resources.c.resource_id == reference.resource_id
    statement = sa.select(*_RESOURCE).where(resources.c.organization_id == organization_id, *named)
    return await find_row(connection, statement, Resource)


async def get_resource(connection: Connection, organization_id: UUID, *, object_id: UUID) -> Resource | None:
    own = resources.c.organization_id == organization_id, resources.c.object_id == object_id
    return await find_row(connection, sa.select(*_RESOURCE).where(*own), Resource)


_INSERTED = ("organization_id", "object_id", "resource_type", "resource_id", "container_id")
_INSERTED_RESOURCE = (
    insert(resources)
    .from_select(
        [*_INSERTED, "access_class"],
        sa.select(*(param(resources.c[name]) for name in _INSERTED), access_classes.c.access_class).where(
            access_classes.c.organization_id == ORGANIZATION, access_classes.c.digest == param(access_classes.c.digest)
        ),
    )
    .on_conflict_do_nothing()
    .returning(resources.c.object_id)
    .cte("inserted")
)
_INSERT_RESOURCE = sa.select(_INSERTED_RESOURCE.c.object_id)


def ask_new_resource(
    batch: Batch, organization_id: UUID, *, row: Mapping[str, object], digest: bytes
) -> Answer[dict[str, UUID]]:
    """Add a resource with this digest's access. No row if the object or identity is taken, or the class missing."""
    return batch.ask(_INSERT_RESOURCE, dict[str, UUID], params(organization_id, digest=digest, **row))


async def delete_resources(connection: Connection, organization_id: UUID, *, object_ids: Collection[UUID]) -> None:
    """Remove objects' resources with all grants, and with a container all files inside."""
    own = resources.c.organization_id == organization_id, in_array(resources.c.object_id, object_ids)
    await connection.execute(resources.delete().where(*own))


async def move_resources(connection: Connection, organization_id: UUID, *, classes: Mapping[UUID, int]) -> None:
    """Move resources (by object) with locked rows to other access classes; owners' shares keep roles of both
    classes."""
    moved = _unnest_classes(classes)
    own = resources.c.organization_id == organization_id, resources.c.object_id == moved.c.object_id
    given = sa.func.jsonb_each_text(resources.c.shares).table_valued("key", "value", name="shared")
    stays = [
        sa.exists().where(
            _readers.organization_id == resources.c.organization_id,
            _readers.access_class == access_class,
            _readers.principal_id == sa.cast(given.c.key, sa.Uuid),
            _readers.role == given.c.value,
        )
        for access_class in (resources.c.access_class, moved.c.access_class)
    ]
    kept = sa.select(sa.func.jsonb_object_agg(given.c.key, given.c.value)).where(*stays).scalar_subquery()
    shares = sa.case((resources.c.shares.is_not(None), kept))
    await connection.execute(sa.update(resources).where(*own).values(access_class=moved.c.access_class, shares=shares))


async def move_access_classes(connection: Connection, organization_id: UUID, *, classes: Mapping[UUID, int]) -> None:
    """Move documents' index entries, in every space, to different access classes. The resources must be locked."""
    moved = _unnest_classes(classes)
    # Read with the resources locked: later writers to spaces with other dimensions see the new classes.
    used = await connection.execute(
        sa.select(spaces.c.dimensions).distinct().where(spaces.c.organization_id == organization_id)
    )
    for dimensions in used.scalars().all():
        for table in INDEX_TABLES[dimensions].all:
            own = table.c.organization_id == organization_id, table.c.document_id == moved.c.object_id
            await connection.execute(sa.update(table).where(*own).values(access_class=moved.c.access_class))


def _unnest_classes(classes: Mapping[UUID, int]) -> sa.TableValuedAlias:
    rows = [{"object_id": object_id, "access_class": access_class} for object_id, access_class in classes.items()]
    return rows_of([resources.c.object_id, resources.c.access_class], rows)


def is_deployed(caller: Reader) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of agents usable by the caller; the query must join the agents' resources."""
    return (
        agents.c.organization_id == caller.organization_id,
        agents.c.deleted_at.is_(None),
        resources.c.access_class.in_(classes_of(caller)),
    )


@dataclass(frozen=True)
class ClassReader:
    access_class: int
    principal_id: UUID
    role: str


@dataclass(frozen=True)
class Grant:
    principal_id: UUID
    role: str
    kind: str
    name: str
    email: str | None


async def find_classes(
    connection: Connection, organization_id: UUID, *, digests: Collection[bytes]
) -> dict[bytes, int]:
    statement = sa.select(access_classes.c.digest, access_classes.c.access_class).where(
        access_classes.c.organization_id == organization_id, in_array(access_classes.c.digest, digests)
    )
    return {row.digest: row.access_class for row in await connection.execute(statement)}


async def insert_classes(
    connection: Connection, organization_id: UUID, *, accesses: Mapping[bytes, Access]
) -> dict[bytes, int]:
    """Add access classes with readers, in a fixed order against deadlocks, except another transaction's additions."""
    organization = sa.literal(organization_id, sa.Uuid)
    digests = rows_of([access_classes.c.digest], [{"digest": digest} for digest in sorted(accesses)])
    new = insert(access_classes).from_select(["organization_id", "digest"], sa.select(organization, digests.c.digest))
    statement = new.on_conflict_do_nothing().returning(access_classes.c.digest, access_classes.c.access_class)
    added: dict[bytes, int] = {row.digest: row.access_class for row in await connection.execute(statement)}
    readers = [
        {"principal_id": grantee, "access_class": access_class, "role": role}
        for digest, access_class in added.items()
        for grantee, role in accesses[digest].grants()
    ]
    rows = rows_of([class_readers.c[name] for name in ("principal_id", "access_class", "role")], readers)
    await connection.execute(
        insert(class_readers).from_select(["organization_id", *rows.c.keys()], sa.select(organization, *rows.c))
    )
    return added


async def list_readers(
    connection: Connection, organization_id: UUID, *, access_classes: Collection[int]
) -> list[ClassReader]:
    statement = sa.select(*columns_of(class_readers, ClassReader)).where(
        class_readers.c.organization_id == organization_id, in_array(class_readers.c.access_class, access_classes)
    )
    return await find_rows(connection, statement, ClassReader)


async def list_grants(
    connection: Connection,
    organization_id: UUID,
    *,
    access_class: int,
    after: tuple[UUID, str] | None = None,
    limit: int | None = None,
) -> list[Grant]:
    """List an access class's grants after a (principal, role); skip the owner, everyone and deleted accounts."""
    held = class_readers.c
    statement = (
        sa.select(held.principal_id, held.role, principals.c.kind, principals.c.name, principals.c.email)
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
        # The index begins at the first condition; the second distinguishes the roles of one principal.
        statement = statement.where(held.principal_id >= after[0], sa.tuple_(held.principal_id, held.role) > after)
    return await find_rows(connection, statement, Grant)
