"""SQL of all resources, by name, type, owner and reader. Each page or count is a single statement."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import AccessHolder, AccessThrough, ClassedResource, GroupPerson, ResourceCount, ResourceFilters
from carrel.wire.common import ResourceType
from service.auth.queries import Grantee
from service.domains.access.lookups.queries import holder_type_of, resources_in, to_access_through
from service.permissions.queries import open_classes, owned_classes, readable_classes
from service.platform import base64url
from service.platform.sql import Window, as_member, find_rows, in_array, matches, params
from service.schema.agents import agents
from service.schema.catalog import collections, documents
from service.schema.identity import access_classes, class_readers, group_members, principals, resources
from service.schema.search import audit_entries

_NAMED = {documents.c.document_id: documents, collections.c.collection_id: collections, agents.c.agent_id: agents}


@dataclass(frozen=True, slots=True)
class ResourceFilter:
    """The filters of a request, with the principals named there; None means no filter."""

    asked: ResourceFilters
    readable_by: Grantee | None
    not_readable_by: Grantee | None
    owner_id: UUID | None

    @property
    def is_of_classes(self) -> bool:
        """Whether readers and types are the only filters, so access classes alone give the answer."""
        return all(item is None for item in (self.asked.object_ids, self.asked.query, self.asked.resource_ids))


async def list_resources(
    connection: Connection, organization_id: UUID, window: Window, *, resource_filter: ResourceFilter
) -> list[tuple[ClassedResource, str]]:
    """List matching resources, ordered by their objects' ids, each with an empty sort key."""
    classes = _classes(organization_id, resource_filter)
    if classes is not None and resource_filter.is_of_classes:
        page = resources_in(sa.literal(organization_id), classes, resource_type=_type(resource_filter))
    else:
        page = (
            sa.select(resources.c.object_id, resources.c.resource_type, resources.c.resource_id)
            .where(*_conditions(organization_id, resource_filter), resources.c.object_id > window.after)
            .order_by(resources.c.object_id)
            .limit(window.limit)
        )
    page_rows = page.add_columns(resources.c.access_class).subquery("page")
    statement = (
        sa.select(*_columns(page_rows))
        .select_from(_with_names(organization_id, page_rows))
        .join(access_classes, access_classes.c.access_class == page_rows.c.access_class)
        .where(access_classes.c.organization_id == organization_id)
        .order_by(page_rows.c.object_id)
    )
    parameters = params(organization_id, **window._asdict())
    return await find_rows(connection, statement, _to_keyed, parameters)


async def list_resources_by_name(
    connection: Connection,
    organization_id: UUID,
    *,
    resource_filter: ResourceFilter,
    after: tuple[str, UUID] | None,
    limit: int,
) -> list[tuple[ClassedResource, str]]:
    """List matching resources ordered by name, each with its sort key. Every page sorts all matching resources."""
    key = sa.func.lower(sa.func.coalesce(_name().element, resources.c.resource_id))
    statement = (
        sa.select(*_columns(resources), key.label("sort_key"))
        .select_from(_with_names(organization_id, resources))
        .join(access_classes, access_classes.c.access_class == resources.c.access_class)
        .where(*_conditions(organization_id, resource_filter), access_classes.c.organization_id == organization_id)
        .order_by(key, resources.c.object_id)
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(sa.tuple_(key, resources.c.object_id) > after)
    return await find_rows(connection, statement, _to_keyed)


def _columns(source: sa.FromClause) -> tuple[sa.ColumnElement[Any], ...]:
    resource_type = as_member(source.c.resource_type, ResourceType)
    return source.c.object_id, source.c.resource_id, resource_type, access_classes.c.digest, _name()


def _to_keyed(*, digest: bytes, sort_key: str = "", **columns: Any) -> tuple[ClassedResource, str]:
    return ClassedResource(access_class=base64url.encode(digest), **columns), sort_key


async def list_through(
    connection: Connection, organization_id: UUID, *, grantee: Grantee, classes: Collection[str], most: int
) -> list[tuple[bytes, AccessThrough]]:
    """List the memberships of a principal with a role in each class: the principal first, at most `most` each."""
    order = (
        principals.c.principal_id != grantee.principal_id,
        sa.func.lower(principals.c.name),
        principals.c.principal_id,
    )
    place = sa.func.row_number().over(partition_by=access_classes.c.access_class, order_by=order)
    holders = (
        sa.select(
            access_classes.c.digest.label("of"),
            principals.c.principal_id,
            principals.c.kind,
            principals.c.name,
            class_readers.c.role,
            place.label("place"),
        )
        .join(class_readers, class_readers.c.access_class == access_classes.c.access_class)
        .join(principals, principals.c.principal_id == class_readers.c.principal_id)
        .where(
            access_classes.c.organization_id == organization_id,
            in_array(access_classes.c.digest, map(base64url.decode, classes)),
            class_readers.c.organization_id == organization_id,
            in_array(class_readers.c.principal_id, grantee.principals),
            principals.c.organization_id == organization_id,
        )
        .subquery("held")
    )
    columns = (holders.c[name] for name in ("of", "principal_id", "kind", "name", "role"))
    statement = sa.select(*columns).where(holders.c.place <= most).order_by(holders.c.of, holders.c.place)
    return await find_rows(connection, statement, to_access_through)


async def find_name(connection: Connection, organization_id: UUID, *, object_id: UUID) -> str | None:
    """Return the name of a document, collection or agent; None for another object."""
    statement = (
        sa.select(_name())
        .select_from(_with_names(organization_id, resources))
        .where(matches(resources, organization_id, object_id=object_id))
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def count_resources(
    connection: Connection, organization_id: UUID, *, resource_filter: ResourceFilter
) -> list[ResourceCount]:
    statement = (
        sa.select(resources.c.resource_type, sa.func.count().label("count"))
        .where(*_conditions(organization_id, resource_filter))
        .group_by(resources.c.resource_type)
        .order_by(resources.c.resource_type)
    )
    return await find_rows(connection, statement, ResourceCount)


def _conditions(organization_id: UUID, resource_filter: ResourceFilter) -> Iterator[sa.ColumnElement[bool]]:
    request = resource_filter.asked
    yield resources.c.organization_id == organization_id
    if request.object_ids is not None:
        yield in_array(resources.c.object_id, request.object_ids)
    if request.resource_ids is not None:
        yield in_array(resources.c.resource_id, request.resource_ids)
    of_type = _type(resource_filter)
    if of_type is not None:
        yield resources.c.resource_type == of_type
    classes = _classes(organization_id, resource_filter)
    if classes is not None:
        # `IS TRUE` prevents a join in the plan, which would lose the order.
        yield resources.c.access_class.in_(classes).is_(sa.true())
    if request.query is not None:
        # A hash of the matching names: a join would read the name of each resource that the walk passes.
        yield sa.or_(
            resources.c.resource_id.icontains(request.query, autoescape=True),
            resources.c.object_id.in_(_name_matches(organization_id, request.query)),
        )


def _name_matches(organization_id: UUID, text: str) -> sa.CompoundSelect[UUID]:
    return sa.union_all(
        *(
            sa.select(own_id).where(matches(table, organization_id), table.c.name.icontains(text, autoescape=True))
            for own_id, table in _NAMED.items()
        )
    )


def _classes(organization_id: UUID, resource_filter: ResourceFilter) -> sa.Select[int] | sa.CompoundSelect[int] | None:
    """Select the access classes that fit the filters of owner, readers and everyone; None without such a filter."""
    reader, but, owner_id = resource_filter.readable_by, resource_filter.not_readable_by, resource_filter.owner_id
    selections: list[sa.Select[int] | sa.CompoundSelect[int]] = []
    if owner_id is not None:
        selections.append(owned_classes(organization_id, owner_id))
    if resource_filter.asked.organization_wide:
        selections.append(open_classes(organization_id))
    if reader is not None:
        readable = readable_classes(reader)
        selections.append(readable if but is None else readable.except_(readable_classes(but)))
    return sa.intersect(*selections) if len(selections) > 1 else next(iter(selections), None)


def _type(resource_filter: ResourceFilter) -> sa.ColumnElement[str] | None:
    if resource_filter.asked.resource_types is None:
        return None
    types: Any = sa.literal([*resource_filter.asked.resource_types], sa.ARRAY(sa.Text))
    any_type: Any = sa.any_(types)
    return any_type


def _with_names(organization_id: UUID, source: sa.FromClause) -> sa.FromClause:
    object_id = source.c.object_id
    for own_id, table in _NAMED.items():
        source = source.outerjoin(table, sa.and_(own_id == object_id, table.c.organization_id == organization_id))
    return source


def _name() -> sa.Label[str | None]:
    return sa.func.coalesce(*(table.c.name for table in _NAMED.values())).label("name")


# The index begins at the first condition; the second distinguishes the holders of one class.
_HOLDERS = sa.text("""
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
""").bindparams(sa.bindparam("digest", type_=sa.LargeBinary()), sa.bindparam("principal_id", type_=sa.Uuid()))


async def list_grantees(
    connection: Connection, organization_id: UUID, *, after: tuple[bytes, UUID, str], limit: int
) -> list[tuple[bytes, AccessHolder]]:
    """List used classes' grantees by digest, principal and role, without inactive people and deleted accounts."""
    digest, principal_id, role = after
    parameters = {
        "organization_id": organization_id,
        "digest": digest,
        "principal_id": principal_id,
        "role": role,
        "limit": limit,
    }
    return await find_rows(connection, _HOLDERS, _to_holder, parameters)


def _to_holder(*, digest: bytes, kind: str, **columns: Any) -> tuple[bytes, AccessHolder]:
    holder = AccessHolder(access_class=base64url.encode(digest), principal_type=holder_type_of(kind), **columns)
    return digest, holder


# Group by group, so that a page reads only the groups that it shows.
_GROUP_PEOPLE = sa.text("""
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
""").bindparams(sa.bindparam("group_id", type_=sa.Uuid()), sa.bindparam("member_id", type_=sa.Uuid()))


async def list_group_people(
    connection: Connection, organization_id: UUID, *, after: tuple[UUID, UUID], limit: int
) -> list[GroupPerson]:
    """List every active person in every group, directly or nested, once per group; ordered by group, then person."""
    group_id, member_id = after
    parameters = {"organization_id": organization_id, "group_id": group_id, "member_id": member_id, "limit": limit}
    return await find_rows(connection, _GROUP_PEOPLE, GroupPerson, parameters)


def _total(organization_id: UUID, table: sa.Table, *ids: sa.ColumnElement[UUID]) -> list[sa.ColumnElement[str]]:
    """Return the row count, and a sum that changes with each rewritten row, because a row's `xmin` never repeats."""
    sum_of: sa.ColumnElement[int] = sa.cast(sa.cast(sa.literal_column(f"{table.name}.xmin"), sa.Text), sa.BigInteger)
    for element in ids:
        sum_of = sa.func.uuid_hash_extended(element, sum_of)
    of_organization = table.c.organization_id == organization_id
    return [
        sa.cast(sa.select(value).select_from(table).where(of_organization).scalar_subquery(), sa.Text)
        for value in (sa.func.count(), sa.func.coalesce(sa.func.sum(sum_of), 0))
    ]


async def read_totals(connection: Connection, organization_id: UUID) -> tuple[Sequence[str], datetime]:
    """Read the time, and values that change with resources, people or groups. Access classes never change."""
    statement = sa.select(
        *_total(organization_id, resources, resources.c.object_id),
        *_total(organization_id, principals, principals.c.principal_id),
        *_total(organization_id, group_members, group_members.c.group_id, group_members.c.member_id),
        sa.func.now(),
    )
    row: Sequence[Any] = (await connection.execute(statement)).one()
    return row[:-1], row[-1]


async def has_entry_since(
    connection: Connection, organization_id: UUID, *, since: datetime, but: Collection[str]
) -> bool:
    """Check for an audit log entry of a later transaction, ignoring the actions in `but`."""
    later = audit_entries.c.at > since, ~in_array(audit_entries.c.action, but)
    has_later_entry = sa.exists().where(matches(audit_entries, organization_id), *later)
    return (await connection.execute(sa.select(has_later_entry))).scalar_one()
