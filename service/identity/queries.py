"""SQL of organizations, principals, memberships and API keys."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    Boolean,
    ColumnElement,
    Interval,
    Select,
    Table,
    TableValuedAlias,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    false,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.database import ORGANIZATION_SETTING
from service.identity.tables import api_keys, group_members, organizations, principals, service_account_tokens
from service.oauth.tables import oauth_access_tokens, oauth_clients
from service.sql import ORGANIZATION, AnyRow, among, given, giving

LAST_USED_PRECISION = timedelta(minutes=1)

# What changes when a principal is put again; its id, kind and address stay.
_CHANGEABLE = ("active", "external_id", "is_admin", "name", "password_hash")

_ACTING = (
    principals.c.principal_id,
    principals.c.organization_id,
    principals.c.kind,
    principals.c.name,
    principals.c.email,
    principals.c.is_admin,
    principals.c.active,
)


@dataclass(frozen=True)
class Principal:
    """A row of principals; `email` is None for groups, `external_id` for whatever no source system knows."""

    principal_id: UUID
    kind: str
    name: str
    email: str | None = None
    external_id: str | None = None
    is_admin: bool = False
    active: bool = True
    password_hash: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Membership:
    """That a principal is a direct member of a group."""

    group_id: UUID
    member_id: UUID
    member_is_group: bool


_PRINCIPAL = tuple(principals.c[one.name] for one in fields(Principal))


CredentialKind = Literal["apiKey", "serviceAccountToken", "accessToken"]

# How far the clock that credentials expire by is from the database's (`service.clock`).
_OFFSET = bindparam("given_offset", type_=Interval())


def credential_status(table: Table, now: ColumnElement[datetime] | None = None) -> ColumnElement[str]:
    """Whether a credential of this table works now, by the database's clock: `active`, `expired` or `revoked`."""
    now = func.now() if now is None else now
    return case(
        (table.c.revoked_at.is_not(None), "revoked"), (table.c.expires_at <= now, "expired"), else_="active"
    ).label("status")


def _credential_of_hash(table: Table, **columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    entered = func.set_config(ORGANIZATION_SETTING, cast(table.c.organization_id, Text), True)
    return (
        select(
            table.c.organization_id,
            table.c.secret_hash,
            credential_status(table, func.now() + _OFFSET),
            *(column.label(name) for name, column in columns.items()),
            organizations.c.service_accounts_enabled,
            _unused_for_a_minute(table).label("unused_for_a_minute"),
            entered.label("entered"),
        )
        .join(organizations, organizations.c.organization_id == table.c.organization_id)
        .where(table.c.secret_hash == given(table.c.secret_hash))
    )


def _unused_for_a_minute(table: Table) -> ColumnElement[bool]:
    if "last_used_at" not in table.c:
        return false()
    return func.coalesce(table.c.last_used_at < func.now() - LAST_USED_PRECISION, True)


_CREDENTIAL_OF_HASH: Mapping[CredentialKind, Select[*tuple[Any, ...]]] = {
    "apiKey": _credential_of_hash(
        api_keys,
        credential_id=api_keys.c.api_key_id,
        principal_id=api_keys.c.owner_id,
        may_act_for_users=api_keys.c.may_act_for_users,
        scopes=null(),
    ),
    "serviceAccountToken": _credential_of_hash(
        service_account_tokens,
        credential_id=service_account_tokens.c.token_id,
        principal_id=service_account_tokens.c.service_account_id,
        may_act_for_users=false(),
        scopes=service_account_tokens.c.scopes,
    ),
    # What a client may no longer be given stops in the tokens that it has.
    "accessToken": _credential_of_hash(
        oauth_access_tokens,
        credential_id=oauth_access_tokens.c.token_id,
        principal_id=oauth_access_tokens.c.principal_id,
        may_act_for_users=false(),
        scopes=oauth_access_tokens.c.scopes,
        client_scopes=oauth_clients.c.scopes,
    ).join(oauth_clients, oauth_clients.c.client_id == oauth_access_tokens.c.client_id),
}


async def enter_by_credential(
    connection: AsyncConnection, kind: CredentialKind, *, secret_hash: bytes, clock_offset: timedelta
) -> AnyRow | None:
    """The credential of this hash with its organization's settings; the transaction is in that organization now."""
    parameters = {"given_secret_hash": secret_hash, "given_offset": clock_offset}
    return (await connection.execute(_CREDENTIAL_OF_HASH[kind], parameters)).one_or_none()


async def touch_credential(
    connection: AsyncConnection, organization_id: UUID, *, kind: CredentialKind, credential_id: UUID
) -> None:
    """Note that it is in use now; a request that would have to wait for another's note leaves it at that."""
    table, key = (
        (api_keys, api_keys.c.api_key_id)
        if kind == "apiKey"
        else (service_account_tokens, service_account_tokens.c.token_id)
    )
    free = (
        select(key)
        .where(key == credential_id, table.c.organization_id == organization_id)
        .with_for_update(skip_locked=True, key_share=True)
    )
    await connection.execute(update(table).where(key == free.scalar_subquery()).values(last_used_at=func.now()))


def _memberships_of(start: CTE) -> CTE:
    """The principals of `start` and every group they are in, directly or through others; UNION ends cycles."""
    found = select(start.c.principal_id).cte("memberships", recursive=True)
    above = (
        select(group_members.c.group_id)
        .join(found, group_members.c.member_id == found.c.principal_id)
        .where(group_members.c.organization_id == ORGANIZATION)
    )
    return found.union(above)


def _acting(one: Select[UUID]) -> Select[*tuple[Any, ...]]:
    start = one.cte("start")
    groups = _memberships_of(start)
    all_groups = func.array(select(groups.c.principal_id).scalar_subquery(), type_=ARRAY(Uuid))
    return (
        select(*_ACTING, all_groups.label("memberships"))
        .join(start, start.c.principal_id == principals.c.principal_id)
        .where(principals.c.organization_id == ORGANIZATION, principals.c.kind.in_(["user", "serviceAccount"]))
    )


_ACTING_BY_ID = _acting(select(given(principals.c.principal_id).label("principal_id")))
_ACTING_BY_EMAIL = _acting(
    select(principals.c.principal_id).where(
        principals.c.organization_id == ORGANIZATION,
        principals.c.email == given(principals.c.email),
        principals.c.kind == "user",
        principals.c.active,
    )
)


async def get_acting_principal(
    connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID
) -> AnyRow | None:
    """A user or service account with its `memberships`: its own id and every group's it is in, each once."""
    parameters = giving(organization_id, principal_id=principal_id)
    return (await connection.execute(_ACTING_BY_ID, parameters)).one_or_none()


async def find_acting_user(connection: AsyncConnection, organization_id: UUID, *, email: str) -> AnyRow | None:
    """The same for the active user of this address (lower case)."""
    parameters = giving(organization_id, email=email)
    return (await connection.execute(_ACTING_BY_EMAIL, parameters)).one_or_none()


async def lock_bootstrap(connection: AsyncConnection) -> None:
    """Wait for another replica that is bootstrapping the same database; held until the transaction ends."""
    await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("carrel.bootstrap"))))


async def list_organizations(connection: AsyncConnection) -> Sequence[AnyRow]:
    """Every organization's `organization_id` and `name`, for an operator; outside of any."""
    statement = select(organizations.c.organization_id, organizations.c.name).order_by(organizations.c.name)
    return (await connection.execute(statement)).all()


async def any_organization(connection: AsyncConnection) -> bool:
    """Whether the database has an organization; the one question that is asked outside of any."""
    return (await connection.execute(select(exists(select(organizations.c.organization_id))))).scalar_one()


async def lock_organization(connection: AsyncConnection, organization_id: UUID) -> None:
    """Let one change to the organization's principals happen at a time; readers and other writers do not wait."""
    statement = select(organizations.c.organization_id).where(organizations.c.organization_id == organization_id)
    await connection.execute(statement.with_for_update(key_share=True))


async def get_organization(connection: AsyncConnection, organization_id: UUID) -> AnyRow:
    """The organization's settings."""
    statement = select(organizations).where(organizations.c.organization_id == organization_id)
    return (await connection.execute(statement)).one()


async def insert_organization(connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    """Add an organization."""
    await connection.execute(insert(organizations).values({**row, "organization_id": organization_id}))


async def update_organization(
    connection: AsyncConnection, organization_id: UUID, *, values: Mapping[str, object]
) -> None:
    """Change the organization's settings."""
    statement = update(organizations).where(organizations.c.organization_id == organization_id)
    await connection.execute(statement.values(values))


async def find_principals(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    emails: Collection[str] = (),
    ids: Collection[UUID] = (),
    deleted: bool = False,
) -> list[Principal]:
    """The people of these addresses (lower case), and the groups and service accounts of these ids.

    A deleted service account is not there any more, except for `deleted`: its address stays taken.
    """
    by_email = among(principals.c.email, emails)
    by_id = and_(among(principals.c.principal_id, ids), principals.c.kind.in_(["group", "serviceAccount"]))
    statement = select(*_PRINCIPAL).where(principals.c.organization_id == organization_id, or_(by_email, by_id))
    if not deleted:
        statement = statement.where(principals.c.deleted_at.is_(None))
    return [Principal(*row) for row in await connection.execute(statement)]


async def find_groups(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    ids: Collection[UUID] = (),
    external_ids: Collection[str] = (),
    names: Collection[str] = (),
) -> list[Principal]:
    """The groups of these ids or external ids, and those of these names that have no external id."""
    statement = select(*_PRINCIPAL).where(
        principals.c.organization_id == organization_id,
        principals.c.kind == "group",
        or_(
            among(principals.c.principal_id, ids),
            among(principals.c.external_id, external_ids),
            and_(among(principals.c.name, names), principals.c.external_id.is_(None)),
        ),
    )
    return [Principal(*row) for row in await connection.execute(statement)]


async def put_principals(connection: AsyncConnection, organization_id: UUID, *, rows: Sequence[Principal]) -> None:
    """Add or replace principals by id, in one round trip."""
    if not rows:
        return
    new = insert(principals)
    statement = new.on_conflict_do_update(
        index_elements=[principals.c.principal_id],
        set_={name: new.excluded[name] for name in _CHANGEABLE},
        where=principals.c.organization_id == organization_id,
    )
    await connection.execute(statement, [{**asdict(row), "organization_id": organization_id} for row in rows])


async def has_active_admin(connection: AsyncConnection, organization_id: UUID) -> bool:
    """Whether anybody could still administer the organization."""
    admin = select(principals.c.principal_id).where(
        principals.c.organization_id == organization_id,
        principals.c.kind == "user",
        principals.c.is_admin,
        principals.c.active,
    )
    return (await connection.execute(select(exists(admin)))).scalar_one()


async def list_users(
    connection: AsyncConnection, organization_id: UUID, *, query: str | None, after: UUID, limit: int
) -> list[Principal]:
    """Users whose name or address contains `query`, in the order of their ids."""
    statement = _page(organization_id, "user", after=after, limit=limit)
    if query:
        matches = principals.c.name.icontains(query, autoescape=True)
        statement = statement.where(or_(matches, principals.c.email.icontains(query, autoescape=True)))
    return [Principal(*row) for row in await connection.execute(statement)]


async def list_groups(
    connection: AsyncConnection, organization_id: UUID, *, query: str | None, after: UUID, limit: int
) -> list[Principal]:
    """Groups whose name contains `query`, in the order of their ids."""
    statement = _page(organization_id, "group", after=after, limit=limit)
    if query:
        statement = statement.where(principals.c.name.icontains(query, autoescape=True))
    return [Principal(*row) for row in await connection.execute(statement)]


def _page(organization_id: UUID, kind: str, *, after: UUID, limit: int) -> Select[*tuple[Any, ...]]:
    return (
        select(*_PRINCIPAL)
        .where(
            principals.c.organization_id == organization_id,
            principals.c.kind == kind,
            principals.c.principal_id > after,
        )
        .order_by(principals.c.principal_id)
        .limit(limit)
    )


async def list_members(
    connection: AsyncConnection, organization_id: UUID, *, group_id: UUID, after: UUID, limit: int
) -> list[Principal]:
    """The direct members of a group, in the order of their ids; what was deleted is no member."""
    statement = (
        select(*_PRINCIPAL)
        .join(group_members, group_members.c.member_id == principals.c.principal_id)
        .where(
            group_members.c.organization_id == organization_id,
            group_members.c.group_id == group_id,
            group_members.c.member_id > after,
            principals.c.deleted_at.is_(None),
        )
        .order_by(group_members.c.member_id)
        .limit(limit)
    )
    return [Principal(*row) for row in await connection.execute(statement)]


async def count_members(
    connection: AsyncConnection, organization_id: UUID, *, group_ids: Collection[UUID]
) -> dict[UUID, int]:
    """How many direct members groups have; one without members is left out."""
    statement = (
        select(group_members.c.group_id, func.count().label("members"))
        .where(group_members.c.organization_id == organization_id, among(group_members.c.group_id, group_ids))
        .group_by(group_members.c.group_id)
    )
    return {row.group_id: row.members for row in await connection.execute(statement)}


async def add_members(
    connection: AsyncConnection, organization_id: UUID, *, memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Add memberships; the (group, member) that were new."""
    wanted = _wanted(memberships)
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
    """Remove members from a group; those that were in it."""
    statement = (
        delete(group_members)
        .where(
            group_members.c.organization_id == organization_id,
            group_members.c.group_id == group_id,
            among(group_members.c.member_id, member_ids),
        )
        .returning(group_members.c.member_id)
    )
    return list((await connection.execute(statement)).scalars())


async def leave_groups(connection: AsyncConnection, organization_id: UUID, *, member_id: UUID) -> list[UUID]:
    """Remove a principal from every group it is directly in; those groups."""
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
    """Remove every member of these groups who is not among `memberships`; the (group, member) that were removed."""
    wanted = _wanted(memberships)
    kept = exists().where(
        wanted.c.group_id == group_members.c.group_id, wanted.c.member_id == group_members.c.member_id
    )
    statement = (
        delete(group_members)
        .where(group_members.c.organization_id == organization_id, among(group_members.c.group_id, group_ids), ~kept)
        .returning(group_members.c.group_id, group_members.c.member_id)
    )
    return [(row.group_id, row.member_id) for row in await connection.execute(statement)]


def _wanted(memberships: Collection[Membership]) -> TableValuedAlias:
    return (
        func.unnest(
            literal([one.group_id for one in memberships], ARRAY(Uuid)),
            literal([one.member_id for one in memberships], ARRAY(Uuid)),
            literal([one.member_is_group for one in memberships], ARRAY(Boolean)),
        )
        .table_valued(column("group_id", Uuid), column("member_id", Uuid), column("member_is_group", Boolean))
        .render_derived(name="wanted")
    )


async def insert_api_key(connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    """Add an API key."""
    await connection.execute(insert(api_keys).values({**row, "organization_id": organization_id}))


async def revoke_api_key(connection: AsyncConnection, organization_id: UUID, *, api_key_id: UUID) -> bool:
    """Stop an API key; False when it was revoked already, or there is none."""
    statement = (
        update(api_keys)
        .where(
            api_keys.c.organization_id == organization_id,
            api_keys.c.api_key_id == api_key_id,
            api_keys.c.revoked_at.is_(None),
        )
        .values(revoked_at=func.now())
        .returning(api_keys.c.api_key_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def get_api_key(connection: AsyncConnection, organization_id: UUID, *, api_key_id: UUID) -> AnyRow | None:
    """An API key with its `owner_email` and `status`."""
    statement = _api_keys(organization_id).where(api_keys.c.api_key_id == api_key_id)
    return (await connection.execute(statement)).one_or_none()


async def list_api_keys(
    connection: AsyncConnection, organization_id: UUID, *, after: UUID, limit: int
) -> Sequence[AnyRow]:
    """API keys like that, in the order of their ids."""
    statement = _api_keys(organization_id).where(api_keys.c.api_key_id > after)
    return (await connection.execute(statement.order_by(api_keys.c.api_key_id).limit(limit))).all()


def _api_keys(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    return (
        select(api_keys, principals.c.email.label("owner_email"), credential_status(api_keys))
        .join(principals, principals.c.principal_id == api_keys.c.owner_id)
        .where(api_keys.c.organization_id == organization_id)
    )
