"""SQL of an organization's sign-in providers, with domains and managed memberships."""

from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Text, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.sign_in_providers import GroupsClaim
from service.platform import sql
from service.schema.identity import principals
from service.schema.search import audit_entries
from service.schema.signin import browser_sessions, provider_memberships, sign_in_domains, sign_in_providers

MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class StoredProvider:
    """An organization's provider, deciding about `confirmed_domains`; `sealed_secret` is None if its key was lost."""

    provider_id: UUID
    organization_id: UUID
    name: str
    issuer: str
    client_id: str
    sealed_secret: bytes | None = field(repr=False)
    domains: list[str]
    confirmed_domains: list[str]
    trust_addresses: bool
    groups_claim: GroupsClaim
    create_accounts: bool
    sign_out_there: bool
    created_at: datetime
    accepted_audiences: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class LeftSession:
    """A browser session begun at a provider that offers sign-out."""

    session_id: UUID
    provider_id: UUID
    issuer: str
    sealed_id_token: bytes | None = field(repr=False)


@dataclass(frozen=True)
class ChosenProvider:
    organization_id: UUID
    provider_id: UUID
    entered: InitVar[str] = ""  # not stored: entering the organization (set_organization) uses this column


@dataclass(frozen=True, slots=True)
class Claim:
    """A domain claimed for an organization's provider. The provider decides about the domain once confirmed."""

    domain: str
    organization_id: UUID
    provider_id: UUID
    confirmed_at: datetime | None


def _domains(*conditions: ColumnElement[bool]) -> ColumnElement[Any]:
    own = select(sign_in_domains.c.domain).where(
        sql.matches(sign_in_domains, sign_in_providers.c.organization_id, provider_id=sign_in_providers.c.provider_id),
        *conditions,
    )
    found = own.order_by(sign_in_domains.c.domain).correlate(sign_in_providers)
    return func.array(found.scalar_subquery(), type_=ARRAY(Text))


_IS_CONFIRMED = sign_in_domains.c.confirmed_at.is_not(None)
_PROVIDER = sql.columns_of(
    sign_in_providers,
    StoredProvider,
    sql.as_member(sign_in_providers.c.groups_claim, GroupsClaim),
    _domains().label("domains"),
    _domains(_IS_CONFIRMED).label("confirmed_domains"),
)
_DOMAINS = select(
    sign_in_domains.c.organization_id,
    sign_in_domains.c.provider_id,
    sql.set_organization(sign_in_domains.c.organization_id),
)
_OF_DOMAIN = _DOMAINS.where(sign_in_domains.c.domain == sql.param(sign_in_domains.c.domain), _IS_CONFIRMED)
_OF_ID = _DOMAINS.where(sign_in_domains.c.provider_id == sql.param(sign_in_domains.c.provider_id)).limit(1)


async def enter_by_domain(connection: Connection, *, domain: str) -> ChosenProvider | None:
    """Find the provider deciding about a domain, and set the transaction to the provider's organization."""
    return await sql.find_row(connection, _OF_DOMAIN, ChosenProvider, {"param_domain": domain})


async def enter_by_provider(connection: Connection, *, provider_id: UUID) -> ChosenProvider | None:
    """Find a provider by id, and set the transaction to its organization."""
    return await sql.find_row(connection, _OF_ID, ChosenProvider, {"param_provider_id": provider_id})


async def any_domain(connection: Connection) -> bool:
    """Check, outside of any organization, whether any provider decides about a domain."""
    return (
        await connection.execute(select(exists(select(sign_in_domains.c.domain).where(_IS_CONFIRMED))))
    ).scalar_one()


async def has_domain(connection: Connection, organization_id: UUID, *, domain: str | None = None) -> bool:
    """Check whether a provider of the organization decides about a domain; with None, about any domain."""
    wanted = {} if domain is None else {"domain": domain}
    return await sql.count_rows(connection, sql.matches(sign_in_domains, organization_id, **wanted), _IS_CONFIRMED) > 0


async def list_providers(connection: Connection, organization_id: UUID, window: sql.Window) -> list[StoredProvider]:
    statement = select(*_PROVIDER).where(sign_in_providers.c.organization_id == organization_id)
    statement = sql.rows_after(statement, sign_in_providers.c.provider_id, *window)
    return await sql.find_rows(connection, statement, StoredProvider)


async def count_providers(connection: Connection, organization_id: UUID) -> int:
    return await sql.count_rows(connection, sign_in_providers.c.organization_id == organization_id)


async def find_provider(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, lock: bool = False
) -> StoredProvider | None:
    statement = select(*_PROVIDER).where(sql.matches(sign_in_providers, organization_id, provider_id=provider_id))
    return await sql.find_row(connection, statement.with_for_update() if lock else statement, StoredProvider)


async def insert_provider(connection: Connection, organization_id: UUID, *, values: Mapping[str, Any]) -> bool:
    """Add a provider; False if the organization already has a provider with the issuer."""
    row = {**values, "organization_id": organization_id}
    return await sql.insert_new(connection, sign_in_providers, row, unique=["organization_id", "issuer"])


async def update_provider(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, values: Mapping[str, Any]
) -> None:
    await sql.update_rows(connection, sign_in_providers, organization_id, values, provider_id=provider_id)


async def replace_domains(
    connection: Connection,
    organization_id: UUID,
    *,
    provider_id: UUID,
    domains: Collection[str],
    confirmed_at: datetime | None,
) -> set[str]:
    """Replace the domains of a provider, keeping existing rows; return the domains that belong to another provider."""
    others = ~sql.in_array(sign_in_domains.c.domain, domains)
    await sql.delete_rows(connection, sign_in_domains, organization_id, others, provider_id=provider_id)
    same = {"provider_id": provider_id, "organization_id": organization_id, "confirmed_at": confirmed_at}
    rows = [{**same, "domain": domain} for domain in domains]
    await connection.execute(insert(sign_in_domains).values(rows).on_conflict_do_nothing())
    own = select(sign_in_domains.c.domain).where(sql.matches(sign_in_domains, organization_id, provider_id=provider_id))
    return set(domains) - set((await connection.execute(own)).scalars())


async def list_claims(connection: Connection) -> list[Claim]:
    """List, outside of any organization, all claimed domains, by domain and organization."""
    order = (sign_in_domains.c.domain, sign_in_domains.c.organization_id)
    return await sql.find_rows(connection, select(*sql.columns_of(sign_in_domains, Claim)).order_by(*order), Claim)


async def confirm_domain(
    connection: Connection, organization_id: UUID, *, domain: str, confirmed_at: datetime | None
) -> UUID | None:
    """Confirm an organization's domain, or withdraw the confirmation (None); return its provider, None if unchanged."""
    statement = (
        update(sign_in_domains)
        .where(
            sql.matches(sign_in_domains, organization_id, domain=domain),
            _IS_CONFIRMED if confirmed_at is None else ~_IS_CONFIRMED,
        )
        .values(confirmed_at=confirmed_at)
        .returning(sign_in_domains.c.provider_id)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def delete_provider(connection: Connection, organization_id: UUID, *, provider_id: UUID) -> None:
    await sql.delete_rows(connection, sign_in_providers, organization_id, provider_id=provider_id)


async def find_session_there(
    connection: Connection, organization_id: UUID, *, secret_hash: bytes
) -> LeftSession | None:
    """Find a browser's session begun at a provider that offers sign-out."""
    statement = (
        select(*sql.columns_of(browser_sessions, LeftSession, sign_in_providers.c.issuer))
        .join(sign_in_providers, sign_in_providers.c.provider_id == browser_sessions.c.provider_id)
        .where(
            sql.matches(browser_sessions, organization_id, secret_hash=secret_hash),
            sign_in_providers.c.organization_id == organization_id,
            sign_in_providers.c.sign_out_there,
        )
    )
    return await sql.find_row(connection, statement, LeftSession)


async def list_people_of_session(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, session_id: str
) -> set[UUID]:
    statement = select(browser_sessions.c.principal_id).where(
        sql.matches(browser_sessions, organization_id, provider_id=provider_id, provider_session=session_id)
    )
    return set((await connection.execute(statement)).scalars())


async def find_groups_of_newest(connection: Connection, organization_id: UUID, *, provider_id: UUID) -> str | None:
    """Find the audit log's note on groups for a provider's newest sign-in; only the newest sign-ins are searched."""
    newest = (
        select(audit_entries.c.details, audit_entries.c.at)
        .where(sql.matches(audit_entries, organization_id, action="session.begin"))
        .order_by(audit_entries.c.at.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
    of_provider = newest.c.details["providerId"].astext == str(provider_id)
    statement = select(newest.c.details["groups"].astext).where(of_provider).order_by(newest.c.at.desc()).limit(1)
    return (await connection.execute(statement)).scalar_one_or_none()


async def list_group_ids(connection: Connection, organization_id: UUID, *, external_ids: Collection[str]) -> set[UUID]:
    statement = select(principals.c.principal_id).where(
        sql.matches(principals, organization_id, kind="group"), sql.in_array(principals.c.external_id, external_ids)
    )
    return set((await connection.execute(statement)).scalars())


async def list_provider_groups(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, member_id: UUID
) -> set[UUID]:
    """List a person's groups that come from a provider's tokens."""
    statement = select(provider_memberships.c.group_id).where(
        sql.matches(provider_memberships, organization_id, provider_id=provider_id, member_id=member_id)
    )
    return set((await connection.execute(statement)).scalars())


async def add_provider_memberships(
    connection: Connection, organization_id: UUID, *, provider_id: UUID, member_id: UUID, group_ids: Collection[UUID]
) -> None:
    same = {"organization_id": organization_id, "provider_id": provider_id, "member_id": member_id}
    rows = [{**same, "group_id": group_id} for group_id in group_ids]
    if rows:
        await connection.execute(insert(provider_memberships).values(rows).on_conflict_do_nothing())
