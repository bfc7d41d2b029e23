"""SQL of service accounts, tokens, and the reach of a token. The address of a deleted account stays."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, Label, Select, Text, case, cast, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import Role
from carrel.wire.service_accounts import ReachedAgent, ReachedCollection, ServiceAccount, ServiceAccountToken
from service.auth.callers import Caller
from service.identity.queries import credential_status
from service.permissions.queries import is_deployed, readable_classes
from service.platform import sql
from service.platform.sql import Window
from service.schema.agents import agents
from service.schema.catalog import collections, documents
from service.schema.identity import class_readers, principals, resources, service_account_tokens
from service.schema.indexing import space_documents
from service.schema.search import audit_entries

Row = TypeVar("Row", ReachedAgent, ReachedCollection)
_ACCOUNT = sql.columns_of(
    principals,
    ServiceAccount,
    principals.c.principal_id.label("service_account_id"),
    principals.c.name.label("display_name"),
)
MINTED = "serviceAccountToken.mint"
"""The audit action of a new token."""

_TOKEN = sql.columns_of(service_account_tokens, ServiceAccountToken, credential_status(service_account_tokens))


@dataclass(frozen=True)
class Reached(Generic[Row]):
    """The first collections or agents within an account's reach, and the total. `noted` counts collections open to
    changes, or agents closed to programs."""

    first: Sequence[Row] = ()
    total: int = 0
    noted: int = 0

    def __bool__(self) -> bool:
        return self.total > 0


async def list_taken_addresses(connection: Connection, organization_id: UUID, *, emails: Collection[str]) -> set[str]:
    """Return the addresses (lower case) in use by a principal, or used by a deleted service account."""
    taken = sql.matches(principals, organization_id), sql.in_array(principals.c.email, emails)
    return set((await connection.execute(select(principals.c.email).where(*taken))).scalars())


async def insert_account(
    connection: Connection, organization_id: UUID, *, account_id: UUID, name: str, email: str
) -> ServiceAccount:
    statement = insert(principals).values(
        principal_id=account_id, organization_id=organization_id, kind="serviceAccount", name=name, email=email
    )
    return await sql.get_row(connection, statement.returning(*_ACCOUNT), ServiceAccount)


async def list_accounts(
    connection: Connection, organization_id: UUID, window: Window, *, query: str | None, ids: Collection[UUID] | None
) -> list[ServiceAccount]:
    own_id = principals.c.principal_id
    statement = sql.rows_after(_accounts(organization_id).where(sql.optional_in(own_id, ids)), own_id, *window)
    if query:
        matches = principals.c.name.icontains(query, autoescape=True)
        statement = statement.where(or_(matches, principals.c.email.icontains(query, autoescape=True)))
    return await sql.find_rows(connection, statement, ServiceAccount)


async def get_account(connection: Connection, organization_id: UUID, *, account_id: UUID) -> ServiceAccount | None:
    statement = _accounts(organization_id).where(principals.c.principal_id == account_id)
    return await sql.find_row(connection, statement, ServiceAccount)


async def lock_account(connection: Connection, organization_id: UUID, *, account_id: UUID) -> bool:
    """Lock a service account against deletion until the transaction ends; False if unknown."""
    statement = _accounts(organization_id).where(principals.c.principal_id == account_id)
    return (await connection.execute(statement.with_for_update(read=True))).one_or_none() is not None


async def mark_deleted(connection: Connection, organization_id: UUID, *, account_id: UUID) -> bool:
    """Delete a service account, after waiting for transactions that lock it; False if unknown or already deleted."""
    values, exists = {"active": False, "deleted_at": func.now()}, principals.c.deleted_at.is_(None)
    key = {"principal_id": account_id, "kind": "serviceAccount"}
    return await sql.update_rows(connection, principals, organization_id, values, exists, **key) > 0


def _accounts(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    return select(*_ACCOUNT).where(
        sql.matches(principals, organization_id, kind="serviceAccount"), principals.c.deleted_at.is_(None)
    )


async def insert_token(
    connection: Connection, organization_id: UUID, *, token_id: UUID, row: Mapping[str, object]
) -> None:
    """Add a token; by default it expires on the same day of the next year."""
    values = {**row, "token_id": token_id, "organization_id": organization_id}
    if values.get("expires_at") is None:
        values["expires_at"] = func.now() + func.make_interval(1)
    await connection.execute(insert(service_account_tokens).values(values))


async def get_token(connection: Connection, organization_id: UUID, *, token_id: UUID) -> ServiceAccountToken | None:
    statement = _tokens(organization_id).where(service_account_tokens.c.token_id == token_id)
    return await sql.find_row(connection, statement, ServiceAccountToken)


async def list_tokens(
    connection: Connection,
    organization_id: UUID,
    window: Window,
    *,
    account_id: UUID | None,
    ids: Collection[UUID] | None,
) -> list[ServiceAccountToken]:
    own_id = service_account_tokens.c.token_id
    chosen = sql.optional_in(own_id, ids), sql.optional(service_account_tokens.c.service_account_id, account_id)
    statement = sql.rows_after(_tokens(organization_id).where(*chosen), own_id, *window)
    return await sql.find_rows(connection, statement, ServiceAccountToken)


async def list_tokens_made_by(
    connection: Connection, organization_id: UUID, *, person_id: UUID
) -> list[ServiceAccountToken]:
    """List the working tokens that a person created, or a key created for the person; ordered by id."""
    own, made = service_account_tokens.c, audit_entries.c
    made_by = exists().where(
        made.organization_id == organization_id,
        made.target_id == cast(own.token_id, Text),
        made.action == MINTED,
        or_(made.actor_id == person_id, made.acting_for_id == person_id),
    )
    working = _tokens(organization_id).where(own.revoked_at.is_(None), own.expires_at > func.now(), made_by)
    return await sql.find_rows(connection, working.order_by(own.token_id), ServiceAccountToken)


async def revoke_token(connection: Connection, organization_id: UUID, *, token_id: UUID) -> bool:
    """Revoke a token; False when already revoked or unknown."""
    return await sql.revoke(connection, service_account_tokens, organization_id, token_id=token_id)


async def revoke_tokens_of(connection: Connection, organization_id: UUID, *, account_id: UUID) -> dict[UUID, bool]:
    """Revoke an account's tokens; return whether each newly revoked token worked, or had already expired."""
    statement = (
        update(service_account_tokens)
        .where(
            sql.matches(service_account_tokens, organization_id, service_account_id=account_id),
            service_account_tokens.c.revoked_at.is_(None),
        )
        .values(revoked_at=func.now())
        .returning(
            service_account_tokens.c.token_id, (service_account_tokens.c.expires_at > func.now()).label("worked")
        )
    )
    return {row.token_id: row.worked for row in await connection.execute(statement)}


def _tokens(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    return select(*_TOKEN).where(service_account_tokens.c.organization_id == organization_id)


_document_resources = resources.alias("document_resources")


async def count_documents(connection: Connection, caller: Caller, *, at_least: Role = Role.VIEWER) -> int:
    """Count the documents on which the caller has a role of at least `at_least`."""
    statement = (
        select(func.count())
        .select_from(resources)
        .join(documents, documents.c.document_id == resources.c.object_id)
        .where(
            resources.c.organization_id == caller.organization_id,
            resources.c.access_class.in_(readable_classes(caller, at_least=at_least)),
        )
    )
    return (await connection.execute(statement)).scalar_one()


async def list_granted_groups(connection: Connection, caller: Caller, *, limit: int) -> Sequence[str]:
    """List the first names of the caller's groups, direct or nested, with a grant on a document."""
    granted = (
        select(class_readers.c.access_class)
        .join(resources, resources.c.access_class == class_readers.c.access_class)
        .join(documents, documents.c.document_id == resources.c.object_id)
        .where(sql.matches(class_readers, caller.organization_id, principal_id=principals.c.principal_id))
    )
    statement = (
        select(principals.c.name)
        .where(
            sql.matches(principals, caller.organization_id, kind="group"),
            sql.in_array(principals.c.principal_id, caller.principals),
            granted.exists(),
        )
        .order_by(principals.c.name, principals.c.principal_id)
        .limit(limit)
    )
    return (await connection.execute(statement)).scalars().all()


async def list_reached_collections(
    connection: Connection, caller: Caller, *, at_least: Role, limit: int
) -> Reached[ReachedCollection]:
    editable = resources.c.access_class.in_(readable_classes(caller, at_least=Role.EDITOR))
    statement = (
        select(
            collections.c.collection_id.label("document_collection_id"),
            collections.c.name.label("collection_name"),
            sql.as_member(_role(caller), Role),
            func.count().over().label("total"),
            func.count().filter(editable).over().label("noted"),
        )
        .join(resources, resources.c.object_id == collections.c.collection_id)
        .where(*_reached_conditions(caller, at_least=at_least))
        .order_by(collections.c.collection_id)
        .limit(limit)
    )
    return await _find_reached(connection, statement, ReachedCollection)


async def count_fruitless_collections(connection: Connection, caller: Caller) -> int:
    """Count the collections the caller may search but without any document the caller may READ."""
    # Not correlated, so that PostgreSQL reads the memberships once for all collections.
    fruitful = (
        select(space_documents.c.space_id)
        .join(_document_resources, _document_resources.c.object_id == space_documents.c.document_id)
        .where(
            space_documents.c.organization_id == caller.organization_id,
            _document_resources.c.access_class.in_(readable_classes(caller)),
        )
        .distinct()
    )
    statement = (
        select(func.count())
        .select_from(collections)
        .join(resources, resources.c.object_id == collections.c.collection_id)
        .where(*_reached_conditions(caller, at_least=Role.VIEWER), collections.c.space_id.not_in(fruitful))
    )
    return (await connection.execute(statement)).scalar_one()


async def list_reached_agents(connection: Connection, caller: Caller, *, limit: int) -> Reached[ReachedAgent]:
    statement = (
        select(
            agents.c.agent_id,
            agents.c.name.label("agent_name"),
            agents.c.api_access_enabled,
            func.count().over().label("total"),
            func.count().filter(~agents.c.api_access_enabled).over().label("noted"),
        )
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*is_deployed(caller))
        .order_by(agents.c.agent_id)
        .limit(limit)
    )
    return await _find_reached(connection, statement, ReachedAgent)


async def _find_reached(connection: Connection, statement: Executable, kind: type[Row]) -> Reached[Row]:
    rows = (await connection.execute(statement)).mappings().all()
    total, noted = (rows[0]["total"], rows[0]["noted"]) if rows else (0, 0)
    return Reached([kind(**row) for row in rows], total, noted)


def _reached_conditions(caller: Caller, *, at_least: Role) -> tuple[ColumnElement[bool], ...]:
    return (
        collections.c.organization_id == caller.organization_id,
        resources.c.access_class.in_(readable_classes(caller, at_least=at_least)),
    )


def _role(caller: Caller) -> Label[str]:
    return case(
        *(
            (resources.c.access_class.in_(readable_classes(caller, at_least=role)), role.value)
            for role in (Role.OWNER, Role.EDITOR)
        ),
        else_=Role.VIEWER.value,
    ).label("role")
