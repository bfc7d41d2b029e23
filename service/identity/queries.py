"""SQL of organizations, principals, and API keys."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.api_keys import ApiKey
from service.platform import sql
from service.platform.background import for_each_organization
from service.platform.batches import Answer, Batch
from service.platform.database import Database, enter_organization
from service.platform.sql import Window
from service.schema.identity import api_keys, group_members, organizations, principals, trashed_groups
from service.schema.signin import provider_memberships

# The columns that replacing a principal changes; id, kind and address stay.
_CHANGEABLE = ("active", "external_id", "is_admin", "name", "password_hash")


@dataclass(frozen=True)
class Principal:
    """A row of principals. `email` is None for groups, `external_id` for principals unknown to a source system."""

    principal_id: UUID
    kind: str
    name: str
    email: str | None = None
    external_id: str | None = None
    is_admin: bool = False
    active: bool = True
    password_hash: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PrincipalSummary:
    """A principal as shown to people; `deleted_at` is set for a deleted service account."""

    principal_id: UUID
    kind: str
    name: str
    email: str | None
    is_admin: bool
    active: bool
    deleted_at: datetime | None


@dataclass(frozen=True)
class Organization:
    organization_id: UUID
    name: str
    domain: str
    service_accounts_enabled: bool
    second_factor: str
    passwords_enabled: bool
    client_document_hosts: Sequence[str]
    enable_reranking: bool
    enable_query_model: bool
    owner_sharing_enabled: bool


_PRINCIPAL = sql.columns_of(principals, Principal)
_SUMMARY = sql.columns_of(principals, PrincipalSummary)
_ORGANIZATION = sql.columns_of(organizations, Organization)
_ORGANIZATION_OF_ID = sa.select(*_ORGANIZATION).where(organizations.c.organization_id == sql.ORGANIZATION)


async def lock_bootstrap(connection: Connection) -> None:
    """Wait while another replica bootstraps the database; hold the lock until the transaction ends."""
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("carrel.bootstrap"))))


async def list_organizations(connection: Connection) -> list[Organization]:
    """List all organizations by name. The transaction must be outside any organization."""
    return await sql.find_rows(connection, sa.select(*_ORGANIZATION).order_by(organizations.c.name), Organization)


async def is_only_organization(connection: Connection, organization_id: UUID) -> bool:
    """Return whether there is no other organization. Read outside of any, where row-level security shows all."""
    await enter_organization(connection, None)
    others = sa.exists(
        sa.select(organizations.c.organization_id).where(organizations.c.organization_id != organization_id)
    )
    alone = (await connection.execute(sa.select(~others))).scalar_one()
    await enter_organization(connection, organization_id)
    return alone


async def any_organization(connection: Connection) -> bool:
    """Return whether the database has an organization. The transaction must be outside any organization."""
    return (await connection.execute(sa.select(sa.exists(sa.select(organizations.c.organization_id))))).scalar_one()


async def lock_organization(connection: Connection, organization_id: UUID) -> None:
    """Lock an organization's principals and agents against concurrent changes; readers don't wait."""
    statement = sa.select(organizations.c.organization_id).where(organizations.c.organization_id == organization_id)
    await connection.execute(statement.with_for_update(key_share=True))


async def get_organization(connection: Connection, organization_id: UUID) -> Organization:
    return await sql.get_row(connection, _ORGANIZATION_OF_ID, Organization, sql.params(organization_id))


def ask_organization(batch: Batch, organization_id: UUID) -> Answer[Organization]:
    return batch.ask(_ORGANIZATION_OF_ID, Organization, sql.params(organization_id))


async def insert_organization(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(organizations).values({**row, "organization_id": organization_id}))


async def update_organization(connection: Connection, organization_id: UUID, *, values: Mapping[str, object]) -> None:
    await sql.update_rows(connection, organizations, organization_id, values)


async def find_principals(
    connection: Connection,
    organization_id: UUID,
    *,
    emails: Collection[str] = (),
    ids: Collection[UUID] = (),
    deleted: bool = False,
) -> list[Principal]:
    """Return people and service accounts by address (lower case), groups and service accounts by id; with `deleted`,
    also deleted service accounts."""
    by_email = sql.in_array(principals.c.email, emails)
    by_id = sa.and_(sql.in_array(principals.c.principal_id, ids), principals.c.kind.in_(["group", "serviceAccount"]))
    statement = sa.select(*_PRINCIPAL).where(principals.c.organization_id == organization_id, sa.or_(by_email, by_id))
    if not deleted:
        statement = statement.where(principals.c.deleted_at.is_(None))
    return await sql.find_rows(connection, statement, Principal)


async def find_groups(
    connection: Connection,
    organization_id: UUID,
    *,
    ids: Collection[UUID] = (),
    external_ids: Collection[str] = (),
    names: Collection[str] = (),
) -> list[Principal]:
    """Return groups by ids, by external ids, and by names; by name only groups without an external id."""
    statement = sa.select(*_PRINCIPAL).where(
        sql.matches(principals, organization_id, kind="group"),
        sa.or_(
            sql.in_array(principals.c.principal_id, ids),
            sql.in_array(principals.c.external_id, external_ids),
            sa.and_(sql.in_array(principals.c.name, names), principals.c.external_id.is_(None)),
        ),
    )
    return await sql.find_rows(connection, statement, Principal)


async def put_principals(connection: Connection, organization_id: UUID, *, rows: Sequence[Principal]) -> None:
    """Insert principals. For a known id, replace name, rights, activity, password and external id instead."""
    if not rows:
        return
    put = sql.rows_of(_PRINCIPAL, [asdict(row) for row in rows])
    new = insert(principals).from_select(
        ["organization_id", *put.c.keys()], sa.select(sa.literal(organization_id, sa.Uuid), *put.c)
    )
    statement = new.on_conflict_do_update(
        index_elements=[principals.c.principal_id],
        set_={
            **{name: new.excluded[name] for name in _CHANGEABLE},
            # An active person is visible to the identity provider again.
            "released_at": sa.case((new.excluded.active, None), else_=principals.c.released_at),
        },
        where=principals.c.organization_id == organization_id,
    )
    await connection.execute(statement)


async def has_active_admin(connection: Connection, organization_id: UUID) -> bool:
    admin = sa.select(principals.c.principal_id).where(
        sql.matches(principals, organization_id, kind="user"), principals.c.is_admin, principals.c.active
    )
    return (await connection.execute(sa.select(sa.exists(admin)))).scalar_one()


async def list_groups(
    connection: Connection, organization_id: UUID, window: Window, *, query: str | None, ids: Collection[UUID] | None
) -> list[Principal]:
    """List groups with a name containing `query`, optionally only `ids`, ordered by id."""
    own_id = principals.c.principal_id
    chosen = sql.matches(principals, organization_id, kind="group"), sql.optional_in(own_id, ids)
    statement = sql.rows_after(sa.select(*_PRINCIPAL).where(*chosen), own_id, *window)
    if query:
        statement = statement.where(principals.c.name.icontains(query, autoescape=True))
    return await sql.find_rows(connection, statement, Principal)


async def list_members(
    connection: Connection, organization_id: UUID, window: Window, *, group_id: UUID
) -> list[Principal]:
    """List the direct members of a group, ordered by id, without deleted members."""
    statement = (
        sa.select(*_PRINCIPAL)
        .join(group_members, group_members.c.member_id == principals.c.principal_id)
        .where(sql.matches(group_members, organization_id, group_id=group_id), principals.c.deleted_at.is_(None))
    )
    return await sql.find_rows(connection, sql.rows_after(statement, group_members.c.member_id, *window), Principal)


async def insert_api_key(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await connection.execute(insert(api_keys).values({**row, "organization_id": organization_id}))


async def revoke_api_key(connection: Connection, organization_id: UUID, *, api_key_id: UUID) -> bool:
    """Revoke an API key. Return False if the key was already revoked or doesn't exist."""
    return await sql.revoke(connection, api_keys, organization_id, api_key_id=api_key_id)


async def get_api_key(connection: Connection, organization_id: UUID, *, api_key_id: UUID) -> ApiKey | None:
    statement = _api_keys(organization_id).where(api_keys.c.api_key_id == api_key_id)
    return await sql.find_row(connection, statement, ApiKey)


async def list_api_keys(
    connection: Connection, organization_id: UUID, window: Window, *, ids: Collection[UUID] | None, owner: str | None
) -> list[ApiKey]:
    """List API keys, optionally only `ids` or only those of the address `owner` (lower case), ordered by id."""
    chosen = sql.optional_in(api_keys.c.api_key_id, ids), sql.optional(principals.c.email, owner)
    statement = sql.rows_after(_api_keys(organization_id).where(*chosen), api_keys.c.api_key_id, *window)
    return await sql.find_rows(connection, statement, ApiKey)


async def list_working_keys_of(connection: Connection, organization_id: UUID, *, owner_id: UUID) -> list[ApiKey]:
    """List a user's API keys, except revoked and expired keys, ordered by id."""
    status = credential_status(api_keys).element
    statement = _api_keys(organization_id).where(api_keys.c.owner_id == owner_id, status == "active")
    return await sql.find_rows(connection, statement.order_by(api_keys.c.api_key_id), ApiKey)


async def revoke_keys_of(connection: Connection, organization_id: UUID, *, owner_id: UUID) -> list[UUID]:
    """Revoke every API key of a user; return the newly revoked keys, in order."""
    statement = (
        sa.update(api_keys)
        .where(sql.matches(api_keys, organization_id, owner_id=owner_id), api_keys.c.revoked_at.is_(None))
        .values(revoked_at=sa.func.now())
        .returning(api_keys.c.api_key_id)
    )
    return sorted((await connection.execute(statement)).scalars())


def _api_keys(organization_id: UUID) -> sa.Select[*tuple[Any, ...]]:
    owner_email = principals.c.email.label("owner_email")
    return (
        sa.select(*sql.columns_of(api_keys, ApiKey, owner_email, credential_status(api_keys)))
        .join(principals, principals.c.principal_id == api_keys.c.owner_id)
        .where(api_keys.c.organization_id == organization_id)
    )


def credential_status(table: sa.Table, now: sa.ColumnElement[datetime] | None = None) -> sa.Label[str]:
    """Return a column with a credential's status by the database's clock: `active`, `expired` or `revoked`."""
    now = sa.func.now() if now is None else now
    return sa.case(
        (table.c.revoked_at.is_not(None), "revoked"), (table.c.expires_at <= now, "expired"), else_="active"
    ).label("status")


async def find_person(connection: Connection, organization_id: UUID, *, email: str) -> PrincipalSummary | None:
    """Return the user or service account by address (lower case), also if inactive or deleted."""
    statement = sa.select(*_SUMMARY).where(sql.matches(principals, organization_id, email=email))
    return await sql.find_row(connection, statement, PrincipalSummary)


async def find_principal(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, kind: str
) -> PrincipalSummary | None:
    """Return the principal of a kind by id, also if inactive or deleted."""
    statement = sa.select(*_SUMMARY).where(
        sql.matches(principals, organization_id, principal_id=principal_id, kind=kind)
    )
    return await sql.find_row(connection, statement, PrincipalSummary)


async def list_principals(
    connection: Connection, organization_id: UUID, *, principal_ids: Collection[UUID]
) -> list[PrincipalSummary]:
    """Return the principals by id, of every kind, also inactive and deleted principals."""
    statement = sa.select(*_SUMMARY).where(
        principals.c.organization_id == organization_id, sql.in_array(principals.c.principal_id, principal_ids)
    )
    return await sql.find_rows(connection, statement, PrincipalSummary)


async def change_user(
    connection: Connection, organization_id: UUID, *, user_id: UUID, values: Mapping[str, object]
) -> None:
    await sql.update_rows(connection, principals, organization_id, values, kind="user", principal_id=user_id)


def select_to_enter(key: sa.Column[Any], kind: type[Any], *others: sa.Label[Any]) -> sa.Select[*tuple[Any, ...]]:
    """Look up by a key, bound as sql.param(key), with the organization's id and name, and enter the organization."""
    table, name = key.table, organizations.c.name.label("organization_name")
    return (
        sa.select(*sql.columns_of(table, kind, name, *others), sql.set_organization(table.c.organization_id))
        .join(organizations, organizations.c.organization_id == table.c.organization_id)
        .where(key == sql.param(key))
    )


async def organization_ids(database: Database) -> Sequence[UUID]:
    async with database.transaction(None, read_only=True) as connection:
        return [row.organization_id for row in await list_organizations(connection)]


async def in_each_organization(database: Database, work: Callable[[Connection, UUID], Awaitable[object]]) -> None:
    """Call `work` in a transaction of each organization. Failures are logged, and raised together after the last."""

    async def work_in(organization_id: UUID) -> None:
        async with database.transaction(organization_id) as connection:
            await work(connection, organization_id)

    await for_each_organization(await organization_ids(database), work_in)


def user_as(name: str, principal_id: sa.ColumnElement[UUID]) -> sa.Label[Any]:
    """Return the column of a user in the form of `UserPrincipal`. The name and address of an erased user are empty."""
    texts = (sa.func.coalesce(column, "") for column in (principals.c.name, principals.c.email))
    members = zip(("type", "id", "name", "email"), ("user", sa.cast(principal_id, sa.Text), *texts), strict=True)
    return sa.func.jsonb_build_object(*chain.from_iterable(members), type_=JSONB).label(name)


@dataclass(frozen=True)
class Membership:
    group_id: UUID
    member_id: UUID
    member_is_group: bool


async def mark_members(
    connection: Connection, organization_id: UUID, *, group_ids: Collection[UUID]
) -> dict[UUID, tuple[int, str]]:
    """Count the direct members of groups, with a digest of the member ids. A group without members is left out."""
    member = group_members.c.member_id
    mark = sa.func.md5(sa.func.string_agg(sa.cast(member, sa.Text), aggregate_order_by(sa.literal(","), member)))
    statement = (
        sa.select(group_members.c.group_id, sa.func.count().label("members"), mark.label("mark"))
        .where(group_members.c.organization_id == organization_id, sql.in_array(group_members.c.group_id, group_ids))
        .group_by(group_members.c.group_id)
    )
    return {row.group_id: (row.members, row.mark) for row in await connection.execute(statement)}


async def add_members(
    connection: Connection, organization_id: UUID, *, memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Add memberships and return the new pairs. A sign-in provider's memberships become permanent."""
    added = await bring_members(connection, organization_id, memberships=memberships)
    wanted, brought = _unnest_memberships(memberships), provider_memberships.c
    await connection.execute(
        sa.delete(provider_memberships).where(
            brought.organization_id == organization_id,
            brought.group_id == wanted.c.group_id,
            brought.member_id == wanted.c.member_id,
        )
    )
    return added


async def bring_members(
    connection: Connection, organization_id: UUID, *, memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Add missing memberships and return the new (group, member) pairs. Existing memberships are unchanged."""
    wanted = _unnest_memberships(memberships)
    rows = sa.select(
        sa.literal(organization_id, sa.Uuid), wanted.c.group_id, wanted.c.member_id, wanted.c.member_is_group
    )
    statement = (
        insert(group_members)
        .from_select(["organization_id", "group_id", "member_id", "member_is_group"], rows)
        .on_conflict_do_nothing()
        .returning(group_members.c.group_id, group_members.c.member_id)
    )
    return [(row.group_id, row.member_id) for row in await connection.execute(statement)]


async def remove_members(
    connection: Connection, organization_id: UUID, *, group_id: UUID, member_ids: Collection[UUID]
) -> list[UUID]:
    """Remove members from a group; return the members actually removed."""
    named = group_members.c.group_id == group_id, sql.in_array(group_members.c.member_id, member_ids)
    return [member_id for _, member_id in await _delete_members(connection, organization_id, *named)]


async def leave_groups(connection: Connection, organization_id: UUID, *, member_id: UUID) -> list[UUID]:
    """Remove a principal from all direct groups; return the groups. Groups in the trash lose a person for good."""
    kept, gone = trashed_groups.c.kept, str(member_id)
    is_group = sa.exists().where(sql.matches(principals, organization_id, principal_id=member_id, kind="group"))
    without = sa.func.jsonb_build_object("members", kept["members"].op("-")(gone))
    trashed = {"kept": kept.op("||")(without)}
    await sql.update_rows(
        connection, trashed_groups, organization_id, trashed, kept["members"].has_key(gone), ~is_group
    )
    left = await _delete_members(connection, organization_id, group_members.c.member_id == member_id)
    return [group_id for group_id, _ in left]


async def keep_only(
    connection: Connection, organization_id: UUID, *, group_ids: Collection[UUID], memberships: Collection[Membership]
) -> list[tuple[UUID, UUID]]:
    """Remove every member of the groups missing in `memberships`; return the removed (group, member) pairs."""
    wanted = _unnest_memberships(memberships)
    kept = sa.exists().where(
        wanted.c.group_id == group_members.c.group_id, wanted.c.member_id == group_members.c.member_id
    )
    return await _delete_members(connection, organization_id, sql.in_array(group_members.c.group_id, group_ids), ~kept)


async def _delete_members(
    connection: Connection, organization_id: UUID, *conditions: sa.ColumnElement[bool]
) -> list[tuple[UUID, UUID]]:
    ended = sa.delete(group_members).where(group_members.c.organization_id == organization_id, *conditions)
    pairs = ended.returning(group_members.c.group_id, group_members.c.member_id)
    return [(row.group_id, row.member_id) for row in await connection.execute(pairs)]


def _unnest_memberships(memberships: Collection[Membership]) -> sa.TableValuedAlias:
    columns = group_members.c.group_id, group_members.c.member_id, group_members.c.member_is_group
    return sql.rows_of(columns, [asdict(membership) for membership in memberships])
