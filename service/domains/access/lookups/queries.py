"""SQL of the look-ups. Each page is a single statement, so all rows show the same moment. Few classes or groups are
read from indexes. For many, the list is walked first, and an unfilled page is then completed."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import AccessThrough, HolderType
from carrel.wire.common import GroupPrincipal, Principal, ResourceIdentifier, ResourceType, UserPrincipal
from service.auth.callers import Caller
from service.permissions.queries import readable_by_parameters, readable_classes, reader_parameters
from service.platform.sql import (
    ORGANIZATION,
    Window,
    as_member,
    count_of,
    find_rows,
    in_array,
    matches,
    param,
    params,
    read_sql,
)
from service.schema.identity import api_keys, group_members, principals, resources, service_account_tokens
from service.schema.signin import oauth_access_tokens, oauth_clients

FEW = 32
"""The most classes or groups to query directly for a page."""

STRETCH = 20_000
"""The most index rows to walk for a page: a few milliseconds, like querying a thousand classes."""


_AFTER = param(resources.c.object_id, "after")
_LIMIT = sa.bindparam("param_limit", type_=sa.Integer())

Bound: TypeAlias = sa.ColumnElement[UUID]
Key = TypeVar("Key")


def _readable_resources(*, resource_type: sa.ColumnElement[str] | None) -> sa.Select[UUID, Any, str]:
    return resources_in(ORGANIZATION, readable_by_parameters(), resource_type=resource_type)


def resources_in(
    organization_id: Bound,
    classes: sa.Select[int] | sa.CompoundSelect[int],
    *,
    resource_type: sa.ColumnElement[str] | None,
) -> sa.Select[UUID, Any, str]:
    """Select a page of the classes' resources by object id; `resource_type` is a type, `any_(…)`, or None for all."""
    every = _objects(organization_id, resource_type=resource_type, after=_AFTER)
    readable = classes.cte("readable")
    stretch = every.add_columns(resources.c.access_class).limit(STRETCH).subquery("stretch")
    # `IS TRUE` prevents a join in the plan, which would lose the order and read the whole stretch.
    may_read = stretch.c.access_class.in_(sa.select(readable.c.access_class)).is_(sa.true())
    walked = sa.select(stretch.c.object_id).where(may_read, count_of(readable) > FEW)
    walked = walked.order_by(stretch.c.object_id).limit(_LIMIT).cte("walked")
    # The position where the walk ended; NULL after the last resource.
    end = every.offset(STRETCH - 1).limit(1).scalar_subquery()
    begin = sa.select(sa.case((count_of(readable) <= FEW, _AFTER), else_=end).label("after")).cte("begin")
    start = sa.select(begin.c.after).scalar_subquery()

    # The page's rows are in the classes whose first resources come first: at most as many classes as rows.
    head = _first_of(organization_id, readable, resource_type=resource_type, after=start).limit(1).lateral()
    nearest = (
        sa.select(readable.c.access_class)
        .join(head, sa.true())
        .where(count_of(walked) < _LIMIT, start.is_not(None))
        .order_by(head.c.object_id)
        .limit(_LIMIT)
        .cte("nearest")
    )
    firsts = _first_of(organization_id, nearest, resource_type=resource_type, after=start).limit(_LIMIT).lateral()
    object_ids = sa.select(walked.c.object_id).union_all(
        sa.select(firsts.c.object_id).select_from(nearest.join(firsts, sa.true()))
    )
    page = object_ids.order_by("object_id").limit(_LIMIT).cte("page")
    return (
        sa.select(resources.c.object_id, as_member(resources.c.resource_type, ResourceType), resources.c.resource_id)
        .join(page, page.c.object_id == resources.c.object_id)
        .where(resources.c.organization_id == organization_id)
        .order_by(resources.c.object_id)
    )


def _objects(
    organization_id: Bound,
    *,
    resource_type: sa.ColumnElement[str] | None,
    after: Bound,
    table: sa.FromClause = resources,
) -> sa.Select[UUID]:
    statement = sa.select(table.c.object_id).where(table.c.organization_id == organization_id)
    if resource_type is not None:
        statement = statement.where(table.c.resource_type == resource_type)
    return statement.where(table.c.object_id > after).order_by(table.c.object_id)


def _first_of(
    organization_id: Bound, classes: sa.CTE, *, resource_type: sa.ColumnElement[str] | None, after: Bound
) -> sa.Select[UUID]:
    resource = resources.alias()
    every = _objects(organization_id, resource_type=resource_type, after=after, table=resource)
    return every.where(resource.c.access_class == classes.c.access_class)


_READABLE_RESOURCES = _readable_resources(resource_type=None)
_READABLE_RESOURCES_OF_TYPE = _readable_resources(resource_type=param(resources.c.resource_type))


async def list_readable_resources(
    connection: Connection, caller: Caller, window: Window, *, resource_type: str | None
) -> list[tuple[UUID, ResourceIdentifier]]:
    """List pairs (object id, resource) of the resources that the caller may read."""
    parameters = params(caller.organization_id, **window._asdict(), resource_type=resource_type)
    statement = _READABLE_RESOURCES if resource_type is None else _READABLE_RESOURCES_OF_TYPE
    return await find_rows(connection, statement, _to_identifier, parameters | reader_parameters(caller))


def _to_identifier(*, object_id: UUID, **columns: Any) -> tuple[UUID, ResourceIdentifier]:
    return object_id, ResourceIdentifier(**columns)


async def find_subject(connection: Connection, organization_id: UUID, *, email: str) -> UUID | None:
    """Find the active or inactive user or service account with an address (lower case), unless deleted."""
    statement = sa.select(principals.c.principal_id).where(
        matches(principals, organization_id, email=email), principals.c.deleted_at.is_(None)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def list_readable_among(
    connection: Connection, caller: Caller, *, identities: Collection[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the given resources (type, id in the source system) that the caller may read."""
    types, ids = ([identity[place] for identity in identities] for place in (0, 1))
    requested = (
        sa.func.unnest(sa.literal(types, sa.ARRAY(sa.Text)), sa.literal(ids, sa.ARRAY(sa.Text)))
        .table_valued("type", "id")
        .render_derived()
    )
    statement = sa.select(resources.c.resource_type, resources.c.resource_id).where(
        matches(resources, caller.organization_id, resource_type=requested.c.type, resource_id=requested.c.id),
        # `IS TRUE` prevents a join in the plan, which is slow with many classes and few resources.
        resources.c.access_class.in_(readable_classes(caller)).is_(sa.true()),
    )
    return {(row.resource_type, row.resource_id) for row in await connection.execute(statement)}


_EFFECTIVE_PRINCIPALS = sa.text(read_sql(__file__, "effective_principals")).bindparams(
    sa.bindparam("after", type_=sa.Uuid())
)


async def list_effective_principals(
    connection: Connection, organization_id: UUID, window: Window, *, access_class: int
) -> list[Principal]:
    """List every group and active person with a direct or inherited role in a class, each once, ordered by id."""
    parameters = {"organization_id": organization_id, "access_class": access_class, "few": FEW, "stretch": STRETCH}
    return await find_rows(connection, _EFFECTIVE_PRINCIPALS, _to_principal, parameters | window._asdict())


def _to_principal(*, principal_id: UUID, kind: str, name: str, email: str | None) -> Principal:
    if kind == "group":
        return GroupPrincipal(id=str(principal_id), name=name)
    return UserPrincipal(id=str(principal_id), name=name, email=email or "")


_WAYS = sa.text(read_sql(__file__, "ways")).bindparams(sa.bindparam("readers", type_=sa.ARRAY(sa.Uuid)))


async def list_ways(
    connection: Connection, organization_id: UUID, *, access_class: int, readers: Collection[UUID], most: int
) -> list[tuple[UUID, AccessThrough]]:
    """List pairs (reader, principal with a role in the class that counts for the reader); at most `most` per reader,
    and the reader's own roles first."""
    parameters = {"organization_id": organization_id, "access_class": access_class, "most": most}
    return await find_rows(connection, _WAYS, to_access_through, parameters | {"readers": list(readers)})


def to_access_through(*, of: Key, kind: str, **columns: Any) -> tuple[Key, AccessThrough]:
    """Build the pair (key, principal with a role). The key `of` is the reader or class that gets this role."""
    return of, AccessThrough(principal_type=holder_type_of(kind), **columns)


def holder_type_of(kind: str) -> HolderType:
    return HolderType.ORGANIZATION if kind == "everyone" else HolderType(kind)


async def get_credential(connection: Connection, caller: Caller) -> tuple[str, datetime | None] | None:
    """Return the name (for an access token, of the application) and expiry of the caller's credential; None if gone."""
    organization_id = caller.organization_id
    keys, tokens, access = api_keys.c, service_account_tokens.c, oauth_access_tokens.c
    statement = {
        "apiKey": sa.select(keys.name, keys.expires_at).where(
            matches(api_keys, organization_id, api_key_id=caller.credential_id)
        ),
        "serviceAccountToken": sa.select(tokens.name, tokens.expires_at).where(
            matches(service_account_tokens, organization_id, token_id=caller.credential_id)
        ),
        "accessToken": sa.select(oauth_clients.c.name, access.expires_at).where(
            matches(oauth_access_tokens, organization_id, token_id=caller.credential_id),
            matches(oauth_clients, organization_id, client_id=access.client_id),
        ),
    }[caller.credential]
    return (await connection.execute(statement)).one_or_none()


async def list_groups_around(
    connection: Connection, organization_id: UUID, *, members: Collection[UUID]
) -> Collection[UUID]:
    statement = (
        sa.select(group_members.c.group_id)
        .where(group_members.c.organization_id == organization_id, in_array(group_members.c.member_id, members))
        .distinct()
    )
    return (await connection.execute(statement)).scalars().all()


async def list_steps_down(
    connection: Connection, organization_id: UUID, *, levels: Mapping[UUID, int], most: int
) -> dict[UUID, list[UUID]]:
    """Return each group's members on the level below, in order, up to a limit."""
    ids, numbers = sa.literal(list(levels), sa.ARRAY(sa.Uuid)), sa.literal(list(levels.values()), sa.ARRAY(sa.Integer))
    below = sa.func.unnest(ids, numbers).table_valued("id", "level").render_derived(name="below")
    parents = sa.func.unnest(ids, numbers).table_valued("id", "level").render_derived(name="above")
    place = sa.func.row_number().over(partition_by=group_members.c.group_id, order_by=group_members.c.member_id)
    steps = (
        sa.select(group_members.c.group_id, group_members.c.member_id, place.label("place"))
        .where(
            matches(group_members, organization_id, member_id=below.c.id, group_id=parents.c.id),
            parents.c.level == below.c.level + 1,
        )
        .subquery("steps")
    )
    statement = (
        sa.select(steps.c.group_id, steps.c.member_id)
        .where(steps.c.place <= most)
        .order_by(steps.c.group_id, steps.c.member_id)
    )
    members_of: dict[UUID, list[UUID]] = {}
    for step in await connection.execute(statement):
        members_of.setdefault(step.group_id, []).append(step.member_id)
    return members_of
