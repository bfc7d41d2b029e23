"""SQL from a credential to the acting principal. Each statement is built once, because it runs on every request."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.auth.lifetimes import LAST_USED_PRECISION
from service.identity.queries import credential_status
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, find_row, in_array, matches, param, params, set_organization
from service.schema.identity import api_keys, group_members, organizations, principals, service_account_tokens
from service.schema.signin import oauth_access_tokens, oauth_clients, oauth_consents, oauth_token_families

CredentialKind = Literal["apiKey", "serviceAccountToken", "accessToken"]


@dataclass(frozen=True)
class Credential:
    """A credential and the organization's settings. `scopes` None: no limit. `client_scopes`: allowed to the client."""

    organization_id: UUID
    secret_hash: bytes = field(repr=False)
    status: str
    credential_id: UUID
    principal_id: UUID
    may_act_for_users: bool
    scopes: Sequence[str] | None
    client_scopes: Sequence[str] | None
    audience: str | None
    client_id: UUID | None
    service_accounts_enabled: bool
    unused_for_a_minute: bool
    entered: InitVar[str]  # not stored: entering the organization (set_organization) uses this column


@dataclass(frozen=True, slots=True)
class Consent:
    """The collections readable by a client as the person allowed; None for all readable collections."""

    collection_ids: Sequence[UUID] | None


@dataclass(frozen=True, slots=True)
class Grantable:
    """Scopes allowed to an access token's client, and whether the person is an admin."""

    client_scopes: Sequence[str]
    is_admin: bool


@dataclass(frozen=True)
class Grantee:
    """A user, service account or group. `memberships` are the own id and the ids of all groups, each once."""

    memberships: Sequence[UUID]
    principal_id: UUID
    organization_id: UUID
    kind: str
    active: bool

    @property
    def principals(self) -> tuple[UUID, ...]:
        """All ids that give roles: the memberships and, for a user, the organization; empty if inactive."""
        everyone = [self.organization_id] if self.kind == "user" else []
        return tuple(sorted([*self.memberships, *everyone])) if self.active else ()


@dataclass(frozen=True)
class ActingPrincipal(Grantee):
    """A user or service account, allowed to act."""

    kind: Literal["user", "serviceAccount"]
    name: str
    email: str
    is_admin: bool


# The difference between the database's clock and the clock by which credentials expire (`service.platform.sql`).
_OFFSET = sa.bindparam("param_offset", type_=sa.Interval())


_UNLESS_GIVEN: Mapping[str, sa.ColumnElement[Any]] = {
    "may_act_for_users": sa.false(),
    **dict.fromkeys(("scopes", "client_scopes", "audience", "client_id"), sa.null()),
}


class _Stored(NamedTuple):
    """The table of a kind of credential, with its id column and the column of the principal acted for."""

    table: sa.Table
    credential_id: sa.ColumnElement[UUID]
    principal_id: sa.ColumnElement[UUID]


_of_account = service_account_tokens.c
_STORED: Mapping[CredentialKind, _Stored] = {
    "apiKey": _Stored(api_keys, api_keys.c.api_key_id, api_keys.c.owner_id),
    "serviceAccountToken": _Stored(service_account_tokens, _of_account.token_id, _of_account.service_account_id),
    "accessToken": _Stored(oauth_access_tokens, oauth_access_tokens.c.token_id, oauth_access_tokens.c.principal_id),
}


def _credential_of_hash(kind: CredentialKind, **columns: sa.ColumnElement[Any]) -> sa.Select[*tuple[Any, ...]]:
    table, credential_id, principal_id = _STORED[kind]
    named = {"credential_id": credential_id, "principal_id": principal_id, **_UNLESS_GIVEN, **columns}
    return (
        sa.select(
            table.c.organization_id,
            table.c.secret_hash,
            credential_status(table, sa.func.now() + _OFFSET),
            *(column.label(name) for name, column in named.items()),
            organizations.c.service_accounts_enabled,
            unused_for_a_minute(table).label("unused_for_a_minute"),
            set_organization(table.c.organization_id),
        )
        .join(organizations, organizations.c.organization_id == table.c.organization_id)
        .where(table.c.secret_hash == param(table.c.secret_hash))
    )


def unused_for_a_minute(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.func.coalesce(table.c.last_used_at < sa.func.now() - LAST_USED_PRECISION, True)


_CREDENTIAL_OF_HASH: Mapping[CredentialKind, sa.Select[*tuple[Any, ...]]] = {
    "apiKey": _credential_of_hash("apiKey", may_act_for_users=api_keys.c.may_act_for_users),
    "serviceAccountToken": _credential_of_hash("serviceAccountToken", scopes=service_account_tokens.c.scopes),
    # Scopes that a client loses stop in the tokens that it already has.
    "accessToken": _credential_of_hash(
        "accessToken",
        scopes=oauth_access_tokens.c.scopes,
        client_scopes=oauth_clients.c.scopes,
        audience=oauth_clients.c.audience,
        client_id=oauth_clients.c.client_id,
    ).join(oauth_clients, oauth_clients.c.client_id == oauth_access_tokens.c.client_id),
}


def ask_credential(
    batch: Batch, kind: CredentialKind, *, secret_hash: bytes, clock_offset: timedelta
) -> tuple[Answer[Credential], Answer[ActingPrincipal]]:
    """Ask for a credential and its owner, even inactive. The first question enters the organization."""
    parameters = {"param_secret_hash": secret_hash, "param_offset": clock_offset}
    credential = batch.ask(_CREDENTIAL_OF_HASH[kind], Credential, parameters)
    return credential, batch.ask(_OWNER_OF_HASH[kind], ActingPrincipal, parameters)


_CONSENT_OF_HASH = (
    sa.select(oauth_consents.c.collection_ids)
    .join(
        oauth_access_tokens,
        sa.and_(
            oauth_access_tokens.c.client_id == oauth_consents.c.client_id,
            oauth_access_tokens.c.principal_id == oauth_consents.c.principal_id,
        ),
    )
    .where(
        oauth_consents.c.organization_id == oauth_access_tokens.c.organization_id,
        oauth_access_tokens.c.secret_hash == param(oauth_access_tokens.c.secret_hash),
    )
)


def ask_consent(batch: Batch, *, secret_hash: bytes) -> Answer[Consent]:
    """Ask for the consent behind an access token; no row if withdrawn. Call after `ask_credential`."""
    return batch.ask(_CONSENT_OF_HASH, Consent, {"param_secret_hash": secret_hash})


async def get_confirmation(
    connection: Connection, organization_id: UUID, *, token_id: UUID
) -> tuple[UUID, datetime | None, str] | None:
    """Return an access token's family, its person's last proof of identity, and the organization's policy; None for a
    token that no longer exists."""
    families = oauth_token_families
    statement = (
        sa.select(families.c.family_id, families.c.confirmed_at, organizations.c.second_factor)
        .join(oauth_access_tokens, oauth_access_tokens.c.family_id == families.c.family_id)
        .join(organizations, organizations.c.organization_id == families.c.organization_id)
        .where(families.c.organization_id == organization_id, oauth_access_tokens.c.token_id == token_id)
    )
    return (await connection.execute(statement)).one_or_none()


def is_by_hand(origin: sa.ColumnElement[Any], organization_id: UUID) -> sa.ColumnElement[bool]:
    """Return the condition that an origin is not a program: neither a key's owner nor a client of /mcp."""
    owners = sa.select(principals.c.principal_id).where(matches(principals, organization_id, principal_id=origin))
    assistants = sa.select(oauth_clients.c.client_id).where(
        matches(oauth_clients, organization_id, client_id=origin, audience="mcp")
    )
    return sa.or_(origin.is_(None), ~(owners.exists() | assistants.exists()))


async def get_grantable(connection: Connection, organization_id: UUID, *, token_id: UUID) -> Grantable | None:
    """Return the rights that an access token's person could grant to the client; None if the token is gone."""
    statement = (
        sa.select(oauth_clients.c.scopes.label("client_scopes"), principals.c.is_admin)
        .select_from(oauth_access_tokens)
        .join(oauth_clients, oauth_clients.c.client_id == oauth_access_tokens.c.client_id)
        .join(principals, principals.c.principal_id == oauth_access_tokens.c.principal_id)
        .where(matches(oauth_access_tokens, organization_id, token_id=token_id))
    )
    return await find_row(connection, statement, Grantable)


async def touch_credential(
    connection: Connection, organization_id: UUID, *, kind: CredentialKind, credential_id: UUID
) -> None:
    """Record the use of a credential, and of an access token's family. A locked row is skipped."""
    table, key, _ = _STORED[kind]
    found = sa.select(key).where(key == credential_id, table.c.organization_id == organization_id)
    await touch(connection, table, key, found)
    if kind == "accessToken":
        family_id = oauth_token_families.c.family_id
        of_token = sa.select(oauth_access_tokens.c.family_id).where(
            oauth_access_tokens.c.organization_id == organization_id, key == credential_id
        )
        found = sa.select(family_id).where(
            oauth_token_families.c.organization_id == organization_id, family_id == of_token.scalar_subquery()
        )
        await touch(connection, oauth_token_families, family_id, found)


async def touch(connection: Connection, table: sa.Table, key: sa.ColumnElement[UUID], found: sa.Select[UUID]) -> None:
    """Record the use of the row that `found` selects by `key`, unless another request has locked the row."""
    free = found.with_for_update(skip_locked=True, key_share=True).scalar_subquery()
    await connection.execute(sa.update(table).where(key == free).values(last_used_at=sa.func.now()))


def _memberships_of(start: sa.CTE, organization_id: sa.ColumnElement[UUID]) -> sa.CTE:
    """Select the principals of `start` and every group around them, directly or through groups. UNION ends cycles."""
    found = sa.select(start.c.principal_id).cte("memberships", recursive=True)
    above = (
        sa.select(group_members.c.group_id)
        .join(found, group_members.c.member_id == found.c.principal_id)
        .where(group_members.c.organization_id == organization_id)
    )
    return found.union(above)


def _with_memberships(
    select: sa.Select[UUID],
    row: type[Grantee],
    *,
    kinds: Collection[str],
    organization_id: sa.ColumnElement[UUID] = ORGANIZATION,
) -> sa.Select[*tuple[Any, ...]]:
    """Select the principals of `select` that have these kinds, with memberships, as the columns of `row`."""
    start = select.cte("start")
    groups = _memberships_of(start, organization_id)
    all_groups = sa.func.array(sa.select(groups.c.principal_id).scalar_subquery(), type_=sa.ARRAY(sa.Uuid))
    return (
        sa.select(all_groups.label("memberships"), *(principals.c[item.name] for item in fields(row)[1:]))
        .join(start, start.c.principal_id == principals.c.principal_id)
        .where(principals.c.organization_id == organization_id, in_array(principals.c.kind, kinds))
    )


def _owner_of_hash(table: sa.Table, owner_id: sa.ColumnElement[UUID]) -> sa.Select[*tuple[Any, ...]]:
    of_hash = table.c.secret_hash == param(table.c.secret_hash)
    return _with_memberships(
        sa.select(owner_id.label("principal_id")).where(of_hash),
        ActingPrincipal,
        kinds=("user", "serviceAccount"),
        organization_id=sa.select(table.c.organization_id).where(of_hash).scalar_subquery(),
    )


_OWNER_OF_HASH: Mapping[CredentialKind, sa.Select[*tuple[Any, ...]]] = {
    kind: _owner_of_hash(stored.table, stored.principal_id) for kind, stored in _STORED.items()
}
_BY_EMAIL = sa.select(principals.c.principal_id).where(
    matches(principals, ORGANIZATION, email=param(principals.c.email), kind="user"), principals.c.active
)
_GRANTEE_BY_ID = _with_memberships(
    sa.select(param(principals.c.principal_id).label("principal_id")),
    Grantee,
    kinds=("user", "serviceAccount", "group"),
)
_ACTING_BY_ID = _with_memberships(
    sa.select(param(principals.c.principal_id).label("principal_id")), ActingPrincipal, kinds=("user", "serviceAccount")
)
_ACTING_BY_EMAIL = _with_memberships(_BY_EMAIL, ActingPrincipal, kinds=("user",))


async def get_acting_principal(
    connection: Connection, organization_id: UUID, *, principal_id: UUID
) -> ActingPrincipal | None:
    """Return a user or service account, also if inactive or deleted; None for a group or an unknown id."""
    parameters = params(organization_id, principal_id=principal_id)
    return await find_row(connection, _ACTING_BY_ID, ActingPrincipal, parameters)


async def get_grantee(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> Grantee | None:
    """Return a user, service account or group, also if inactive or deleted."""
    parameters = params(organization_id, principal_id=principal_id)
    return await find_row(connection, _GRANTEE_BY_ID, Grantee, parameters)


def ask_acting_user(batch: Batch, organization_id: UUID, *, email: str) -> Answer[ActingPrincipal]:
    """Ask for the active user by address (lower case)."""
    return batch.ask(_ACTING_BY_EMAIL, ActingPrincipal, params(organization_id, email=email))


async def find_acting_user(connection: Connection, organization_id: UUID, *, email: str) -> ActingPrincipal | None:
    """Return the active user by address (lower case)."""
    return await find_row(connection, _ACTING_BY_EMAIL, ActingPrincipal, params(organization_id, email=email))
