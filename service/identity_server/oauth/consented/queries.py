"""SQL of people's consents to applications."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, and_, any_, delete, exists, false, func, or_, select, true, tuple_
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.oauth_clients import OAuthConsent
from service.permissions.queries import Reader, classes_of
from service.platform.identifiers import NIL
from service.platform.sql import columns_of, delete_rows, find_rows, in_array, matches
from service.schema.catalog import collections
from service.schema.identity import principals, resources
from service.schema.search import audit_entries
from service.schema.signin import oauth_clients, oauth_codes, oauth_consents, oauth_token_families

BEFORE_ALL = (NIL, NIL)  # the ids of client and person before all others


@dataclass(frozen=True, slots=True)
class ReadableCollection:
    collection_id: UUID
    name: str


def _is_of(organization_id: UUID, principal_id: UUID | None, client_id: UUID | None) -> ColumnElement[bool]:
    return and_(
        oauth_consents.c.organization_id == organization_id,
        true() if principal_id is None else oauth_consents.c.principal_id == principal_id,
        true() if client_id is None else oauth_consents.c.client_id == client_id,
    )


async def get_consent(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, client_id: UUID
) -> Sequence[str]:
    """Return the scopes a person has allowed a client, empty if none. Locks the consent until the transaction ends."""
    statement = select(oauth_consents.c.scopes).where(_is_of(organization_id, principal_id, client_id))
    held = statement.with_for_update(read=True, key_share=True)
    return (await connection.execute(held)).scalar_one_or_none() or ()


async def get_narrowing(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, client_id: UUID
) -> Sequence[UUID] | None:
    """Return the collections a client is limited to by a person; None if unlimited or without a consent."""
    statement = select(oauth_consents.c.collection_ids).where(_is_of(organization_id, principal_id, client_id))
    return (await connection.execute(statement)).scalar_one_or_none()


async def list_readable_collections(
    connection: Connection,
    caller: Reader,
    *,
    chosen: Collection[UUID] = (),
    name_contains: str | None = "",
    limit: int | None,
) -> list[ReadableCollection]:
    """List a person's searchable collections: first the chosen ids, then by part of a name (None: only chosen ids)."""
    is_chosen = in_array(collections.c.collection_id, chosen)
    is_found = false() if name_contains is None else collections.c.name.icontains(name_contains, autoescape=True)
    statement = (
        select(*columns_of(collections, ReadableCollection))
        .join(resources, resources.c.object_id == collections.c.collection_id)
        .where(
            collections.c.organization_id == caller.organization_id,
            resources.c.access_class.in_(classes_of(caller)),
            or_(is_chosen, is_found),
        )
        .order_by(is_chosen.desc(), collections.c.name, collections.c.collection_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, ReadableCollection)


async def put_consent(
    connection: Connection,
    organization_id: UUID,
    *,
    principal_id: UUID,
    client_id: UUID,
    scopes: Sequence[str],
    collection_ids: Collection[UUID] | None,
    now: datetime,
) -> None:
    """Add scopes to a person's consent to a client, and set its collections (None: all)."""
    narrowed_to = None if collection_ids is None else sorted(collection_ids)
    new = insert(oauth_consents).values(
        organization_id=organization_id,
        principal_id=principal_id,
        client_id=client_id,
        scopes=scopes,
        collection_ids=narrowed_to,
        granted_at=now,
    )
    both = func.array_cat(oauth_consents.c.scopes, new.excluded.scopes)
    merged = select(func.array_agg(func.unnest(both).column_valued("scope").distinct())).scalar_subquery()
    statement = new.on_conflict_do_update(
        index_elements=[oauth_consents.c.principal_id, oauth_consents.c.client_id],
        set_={"scopes": merged, "collection_ids": narrowed_to, "granted_at": now},
        where=oauth_consents.c.organization_id == organization_id,
    )
    await connection.execute(statement)


async def list_consents(
    connection: Connection,
    organization_id: UUID,
    *,
    principal_id: UUID | None,
    client_id: UUID | None = None,
    reader: Reader | None = None,
    after: tuple[UUID, UUID] = BEFORE_ALL,
    limit: int | None = None,
) -> list[OAuthConsent]:
    """List consents ordered by client and person, after the key `after`, optionally of a single person or client. With
    `reader`, a consent names only collections that this reader may read."""
    named = matches(collections, organization_id, collection_id=any_(oauth_consents.c.collection_ids))
    if reader is not None:
        of_resource = matches(resources, organization_id, object_id=collections.c.collection_id)
        named &= exists().where(of_resource, resources.c.access_class.in_(classes_of(reader)))
    further = (
        oauth_consents.c.principal_id.label("person_id"),
        oauth_clients.c.name.label("application_name"),
        oauth_clients.c.audience,
        principals.c.email,
        principals.c.name.label("person_name"),
        func.greatest(oauth_consents.c.last_used_at, _select_last_use(organization_id)).label("last_used_at"),
        select(func.array_agg(aggregate_order_by(collections.c.name, collections.c.name)))
        .where(named)
        .scalar_subquery()
        .label("collection_names"),
    )
    both = (oauth_consents.c.client_id, oauth_consents.c.principal_id)
    statement = (
        select(*columns_of(oauth_consents, OAuthConsent, *further))
        .join(oauth_clients, oauth_clients.c.client_id == oauth_consents.c.client_id)
        .join(principals, principals.c.principal_id == oauth_consents.c.principal_id)
        .where(_is_of(organization_id, principal_id, client_id), tuple_(*both) > tuple_(*after))
        .order_by(*both)
        .limit(limit)
    )
    return await find_rows(connection, statement, OAuthConsent)


async def find_reuses(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> dict[str, datetime]:
    """Return when each of a person's clients last lost its tokens because of token reuse, by client id."""
    client_id = audit_entries.c.details["clientId"].astext
    statement = (
        select(client_id.label("client_id"), func.max(audit_entries.c.at).label("at"))
        .where(matches(audit_entries, organization_id, target_id=str(principal_id), action="oauth.reuseDetected"))
        .group_by(client_id)
    )
    return {row.client_id: row.at for row in await connection.execute(statement)}


def _select_last_use(organization_id: UUID) -> ScalarSelect[Any]:
    return (
        select(func.max(oauth_token_families.c.last_used_at))
        .where(
            matches(
                oauth_token_families,
                organization_id,
                principal_id=oauth_consents.c.principal_id,
                client_id=oauth_consents.c.client_id,
            )
        )
        .scalar_subquery()
    )


async def delete_consents(
    connection: Connection, organization_id: UUID, *, client_id: UUID, principal_id: UUID | None
) -> list[UUID]:
    """Delete consents to a client and unused codes, optionally of a single person; return the affected people's ids."""
    statement = (
        delete(oauth_consents)
        .where(_is_of(organization_id, principal_id, client_id))
        .returning(oauth_consents.c.principal_id)
    )
    found = list((await connection.execute(statement)).scalars())
    unused = in_array(oauth_codes.c.principal_id, found), oauth_codes.c.used_at.is_(None)
    await delete_rows(connection, oauth_codes, organization_id, *unused, client_id=client_id)
    return found
