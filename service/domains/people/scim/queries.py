"""SQL of provisioning: people and groups visible to a provider, by its filters, without the deleted."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, and_, cast, delete, exists, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.scim_tokens import ScimToken
from service.auth.queries import touch, unused_for_a_minute
from service.domains.people.scim.models import Attributes, Condition, Match
from service.identity.queries import change_user, credential_status
from service.platform import sql
from service.schema.identity import group_members, principals, scim_tokens
from service.schema.signin import upstream_identities

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A person, with the values that decide visibility to the provider."""

    principal_id: UUID
    name: str
    email: str
    external_id: str | None
    active: bool
    is_admin: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group; `member_mark` changes with the members."""

    principal_id: UUID
    name: str
    external_id: str | None
    created_at: datetime
    member_mark: str


@dataclass(frozen=True, slots=True)
class StoredMember:
    group_id: UUID
    principal_id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class Search:
    """A search with filter, order and page; `descending` reverses the order."""

    condition: Condition | None
    sort_by: str | None
    descending: bool
    offset: int
    limit: int


GUEST_MARK = "#ext#@"
_IS_SEEN = or_(principals.c.active, principals.c.released_at.is_(None))
_IS_PERSON_OR_GROUP = principals.c.kind.in_(["user", "group"])
_USER = sql.columns_of(principals, StoredUser)

_COMMON: Mapping[str, ColumnElement[Any]] = {
    "id": principals.c.principal_id,
    "displayname": cast(func.lower(principals.c.name), Text),
    "externalid": principals.c.external_id,
    "meta.created": principals.c.created_at,
}
# The attributes of people for filters and sorting; each person has one address, in lower case.
_EMAILS = {"": principals.c.email, ".value": principals.c.email, ".type": literal("work"), ".primary": true()}
USER_ATTRIBUTES = Attributes(
    {**_COMMON, "username": principals.c.email, "active": principals.c.active}
    | {f"emails{name}": column for name, column in _EMAILS.items()}
)


async def find_visible_user(connection: Connection, organization_id: UUID, *, user_id: UUID) -> StoredUser | None:
    return await sql.find_row(
        connection, _users(organization_id).where(principals.c.principal_id == user_id), StoredUser
    )


async def find_users_by(
    connection: Connection, organization_id: UUID, *, email: str, external_id: str | None
) -> list[StoredUser]:
    """Return the visible people with the address, or with the external id unless None."""
    taken = principals.c.email == email
    if external_id is not None:
        taken = or_(taken, principals.c.external_id == external_id)
    return await sql.find_rows(connection, _users(organization_id).where(taken), StoredUser)


async def find_user_bound_to(connection: Connection, organization_id: UUID, *, subject: str) -> StoredUser | None:
    """Find the person known by this subject to a sign-in provider of the organization, or the guest with this id."""
    bound = select(upstream_identities.c.principal_id).where(
        sql.matches(upstream_identities, organization_id, subject=subject)
    )
    # Earlier releases saved Entra's name for a guest as the address.
    is_guest = and_(principals.c.external_id == subject, principals.c.email.contains(GUEST_MARK, autoescape=True))
    statement = _users(organization_id).where(or_(principals.c.principal_id.in_(bound), is_guest)).limit(1)
    return await sql.find_row(connection, statement, StoredUser)


async def search_users(
    connection: Connection, organization_id: UUID, *, search: Search
) -> tuple[int, list[StoredUser]]:
    return await _search(connection, _users(organization_id), search, USER_ATTRIBUTES, StoredUser)


async def release_user(connection: Connection, organization_id: UUID, *, user_id: UUID) -> None:
    """Deactivate a person, remove admin rights and password, and hide the person from the provider."""
    values = {"active": False, "is_admin": False, "password_hash": None, "external_id": None, "released_at": func.now()}
    await change_user(connection, organization_id, user_id=user_id, values=values)


async def find_group(connection: Connection, organization_id: UUID, *, group_id: UUID) -> StoredGroup | None:
    statement = _groups(organization_id).where(principals.c.principal_id == group_id)
    return await sql.find_row(connection, statement, StoredGroup)


async def find_groups_by(
    connection: Connection, organization_id: UUID, *, name: str, external_id: str | None
) -> list[UUID]:
    """Find groups by external id. If the external id is None, find groups by name that have no external id."""
    same = (
        and_(principals.c.name == name, principals.c.external_id.is_(None))
        if external_id is None
        else principals.c.external_id == external_id
    )
    statement = select(principals.c.principal_id).where(sql.matches(principals, organization_id, kind="group"), same)
    return list((await connection.execute(statement)).scalars())


async def search_groups(
    connection: Connection, organization_id: UUID, *, search: Search
) -> tuple[int, list[StoredGroup]]:
    has_member = partial(_has_member, organization_id)
    attributes = Attributes(_COMMON, many={"members": has_member, "members.value": has_member})
    return await _search(connection, _groups(organization_id), search, attributes, StoredGroup)


async def list_members(
    connection: Connection, organization_id: UUID, *, group_ids: Collection[UUID]
) -> list[StoredMember]:
    statement = (
        select(*sql.columns_of(principals, StoredMember, group_members.c.group_id))
        .join(group_members, group_members.c.member_id == principals.c.principal_id)
        .where(
            group_members.c.organization_id == organization_id,
            sql.in_array(group_members.c.group_id, group_ids),
            _IS_PERSON_OR_GROUP,
            _IS_SEEN,
        )
        .order_by(group_members.c.group_id, group_members.c.member_id)
    )
    return await sql.find_rows(connection, statement, StoredMember)


async def find_kinds(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> dict[UUID, str]:
    """Return the kind of each of the ids that belongs to a visible person or a group."""
    statement = select(principals.c.principal_id, principals.c.kind).where(
        principals.c.organization_id == organization_id,
        sql.in_array(principals.c.principal_id, principal_ids),
        _IS_PERSON_OR_GROUP,
        _IS_SEEN,
    )
    return {row.principal_id: row.kind for row in await connection.execute(statement)}


async def remove_members(
    connection: Connection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID], others: bool = False
) -> list[UUID]:
    """Remove people and groups from a group: these members or, with `others`, all but these. Return the removed."""
    is_named = sql.in_array(group_members.c.member_id, member_ids)
    member = select(principals.c.principal_id).where(
        sql.matches(principals, organization_id, principal_id=group_members.c.member_id), _IS_PERSON_OR_GROUP
    )
    statement = (
        delete(group_members)
        .where(
            sql.matches(group_members, organization_id, group_id=group_id),
            ~is_named if others else is_named,
            exists(member),
        )
        .returning(group_members.c.member_id)
    )
    return list((await connection.execute(statement)).scalars())


def _users(organization_id: UUID) -> Select[Any]:
    return select(*_USER).where(sql.matches(principals, organization_id, kind="user"), _IS_SEEN)


def _groups(organization_id: UUID) -> Select[Any]:
    member = cast(group_members.c.member_id, Text)
    members = func.string_agg(member, aggregate_order_by(literal(","), group_members.c.member_id))
    mark = select(func.md5(func.coalesce(members, ""))).where(
        sql.matches(group_members, organization_id, group_id=principals.c.principal_id)
    )
    columns = sql.columns_of(principals, StoredGroup, mark.scalar_subquery().label("member_mark"))
    return select(*columns).where(sql.matches(principals, organization_id, kind="group"))


def _has_member(organization_id: UUID, is_wanted: Match) -> ColumnElement[bool]:
    member = select(group_members.c.member_id).where(
        sql.matches(group_members, organization_id, group_id=principals.c.principal_id),
        is_wanted(group_members.c.member_id),
    )
    return exists(member)


async def _search(
    connection: Connection, statement: Select[Any], search: Search, attributes: Attributes, kind: type[Found]
) -> tuple[int, list[Found]]:
    """Return the number of all rows that match, and a page of them. Raises InvalidFilterException."""
    if search.condition is not None:
        statement = statement.where(search.condition(attributes))
    order: Sequence[ColumnElement[Any]] = (principals.c.principal_id,)
    if search.sort_by is not None:
        by = attributes.column(search.sort_by)
        order = (by.desc().nulls_last() if search.descending else by.asc().nulls_last(), *order)
    counted = statement.with_only_columns(func.count(), maintain_column_froms=True)
    total = (await connection.execute(counted)).scalar_one()
    page = statement.order_by(*order).offset(search.offset).limit(search.limit)
    return total, await sql.find_rows(connection, page, kind)


@dataclass(frozen=True, slots=True)
class ScimCaller:
    """An identity provider, known by a token: neither a principal of the organization nor an admin. `status` of the
    token is active, expired or revoked."""

    organization_id: UUID
    token_id: UUID
    name: str
    status: str
    unused_for_a_minute: bool
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


_TOKEN_OF_HASH = select(
    *sql.columns_of(
        scim_tokens,
        ScimCaller,
        credential_status(scim_tokens),
        unused_for_a_minute(scim_tokens).label("unused_for_a_minute"),
    ),
    sql.set_organization(scim_tokens.c.organization_id),
).where(scim_tokens.c.secret_hash == sql.param(scim_tokens.c.secret_hash))
_TOKEN = sql.columns_of(scim_tokens, ScimToken, credential_status(scim_tokens))


async def enter_by_token(connection: Connection, *, secret_hash: bytes) -> ScimCaller | None:
    """Find a token by its hash, and set the transaction to the token's organization."""
    return await sql.find_row(connection, _TOKEN_OF_HASH, ScimCaller, {"param_secret_hash": secret_hash})


async def touch_token(connection: Connection, organization_id: UUID, *, token_id: UUID) -> None:
    """Record the use of a token; skip the write while another request has locked the row."""
    key = scim_tokens.c.token_id
    found = select(key).where(scim_tokens.c.organization_id == organization_id, key == token_id)
    await touch(connection, scim_tokens, key, found)


async def insert_token(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(scim_tokens).values({**row, "organization_id": organization_id}))


async def get_token(connection: Connection, organization_id: UUID, *, token_id: UUID) -> ScimToken | None:
    statement = select(*_TOKEN).where(sql.matches(scim_tokens, organization_id, token_id=token_id))
    return await sql.find_row(connection, statement, ScimToken)


async def list_tokens(
    connection: Connection, organization_id: UUID, window: sql.Window, *, ids: Collection[UUID] | None
) -> list[ScimToken]:
    own_id = scim_tokens.c.token_id
    statement = select(*_TOKEN).where(sql.matches(scim_tokens, organization_id), sql.optional_in(own_id, ids))
    return await sql.find_rows(connection, sql.rows_after(statement, own_id, *window), ScimToken)


async def revoke_token(connection: Connection, organization_id: UUID, *, token_id: UUID) -> bool:
    """Revoke a token; False when already revoked or unknown."""
    return await sql.revoke(connection, scim_tokens, organization_id, token_id=token_id)
