"""SQL of the trash. A deleted document is kept under a new id that no query of documents finds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import Role
from carrel.wire.trash import TrashedDocument
from service.auth.callers import Caller
from service.domains.documents.stored.queries import DocumentFields
from service.identity.queries import user_as
from service.platform.sql import columns_of, find_rows, in_array, matches
from service.schema.catalog import (
    collections,
    document_contents,
    document_versions,
    documents,
    scanned_pages,
    trashed_documents,
)
from service.schema.identity import class_readers, principals, resources
from service.schema.indexing import space_documents

# Tables with the document's id whose rows return with the document.
_KEPT = (document_versions, document_contents, scanned_pages)
_ID, _KEPT_ID = documents.c.document_id, trashed_documents.c.trashed_document_id


@dataclass(frozen=True, slots=True)
class Kept:
    """A document in the trash; `document_id` is the former id, `version` the last version."""

    trashed_document_id: UUID
    document_id: UUID
    version: int
    created_at: datetime
    fields: DocumentFields
    resource_type: str
    resource_id: str
    readers: Sequence[Mapping[str, str]]
    collections: Sequence[Mapping[str, Any]]


async def keep_document(
    connection: Connection, organization_id: UUID, *, document_id: UUID, trashed_document_id: UUID, deleted_by: UUID
) -> None:
    """Move the contents of a locked document, without rights and index, to an id of the trash."""
    new_id, reader, entry = sa.literal(trashed_document_id, sa.Uuid), class_readers.c, space_documents.c
    copied: dict[str, Any] = {column.name: column for column in documents.columns}
    copied |= {"document_id": new_id, "deleted_at": sa.func.now()}
    own = matches(documents, organization_id, document_id=document_id)
    copy = insert(documents).from_select(list(copied), sa.select(*copied.values()).where(own))
    shares = sa.func.coalesce(resources.c.shares, sa.literal({}, JSONB), type_=JSONB)
    readers = (
        sa.select(_as_list(id=reader.principal_id, role=reader.role, name=principals.c.name))
        .join_from(class_readers, principals, principals.c.principal_id == reader.principal_id)
        .where(reader.access_class == resources.c.access_class, reader.role != Role.OWNER)
        # Leave out shares: they end with the document, and its owner could not end a restored share after losing the
        # document. A lower role of the same reader was given by an admin.
        .where(sa.func.coalesce(shares[sa.cast(reader.principal_id, sa.Text)].astext, "") != reader.role)
    )
    place = {name: collections.c[name] for name in ("collection_id", "name", "created_by")}
    place |= {name: entry[name] for name in ("custom_metadata", "caller_chunks")}
    places = (
        sa.select(_as_list(**place))
        .join_from(space_documents, collections, collections.c.space_id == entry.space_id)
        .where(matches(space_documents, organization_id, document_id=document_id))
    )
    row = {
        "organization_id": resources.c.organization_id,
        "trashed_document_id": new_id,
        "document_id": resources.c.object_id,
        "resource_type": resources.c.resource_type,
        "resource_id": resources.c.resource_id,
        "readers": readers.scalar_subquery(),
        "collections": places.scalar_subquery(),
        "deleted_by": sa.literal(deleted_by, sa.Uuid),
    }
    found = sa.select(*row.values()).where(matches(resources, organization_id, object_id=document_id))
    kept = insert(trashed_documents).from_select(list(row), found)
    moved = _build_moves(organization_id, document_id, trashed_document_id)
    await connection.execute(kept.add_cte(copy.cte("copied"), *moved))


def _as_list(**members: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    rows = sa.func.jsonb_agg(sa.func.jsonb_build_object(*(part for pair in members.items() for part in pair)))
    return sa.func.coalesce(rows, sa.literal([], JSONB))


def _build_moves(organization_id: UUID, before: UUID, after: UUID) -> list[sa.CTE]:
    return [
        sa.update(table)
        .where(matches(table, organization_id, document_id=before))
        .values(document_id=after)
        .cte(f"moved_{table.name}")
        for table in _KEPT
    ]


async def give_back(connection: Connection, organization_id: UUID, kept: Kept) -> None:
    """Move a document's contents from the trash back to the former id, without fields, rights and index."""
    own = matches(documents, organization_id, document_id=kept.document_id)
    returned = sa.update(documents).where(own).values(deleted_at=None, created_at=kept.created_at)
    moved = _build_moves(organization_id, kept.trashed_document_id, kept.document_id)
    rows = _delete_rows(organization_id, [kept.trashed_document_id])
    await connection.execute(rows.add_cte(returned.cte("returned"), *moved))


async def erase_kept(connection: Connection, organization_id: UUID, *, ids: Collection[UUID]) -> None:
    """Erase documents from the trash. Their files become unused."""
    parts = [
        sa.delete(table)
        .where(table.c.organization_id == organization_id, in_array(table.c.document_id, ids))
        .cte(f"erased_{table.name}")
        for table in _KEPT
    ]
    await connection.execute(_delete_rows(organization_id, ids).add_cte(*parts))


def _delete_rows(organization_id: UUID, ids: Collection[UUID]) -> sa.Delete:
    copies = sa.delete(documents).where(documents.c.organization_id == organization_id, in_array(_ID, ids))
    rows = sa.delete(trashed_documents).where(trashed_documents.c.organization_id == organization_id)
    return rows.where(in_array(_KEPT_ID, ids)).add_cte(copies.cte("copies"))


async def hand_over_kept(
    connection: Connection,
    organization_id: UUID,
    *,
    owner_id: UUID,
    new_owner_id: UUID,
    resource_types: Collection[str] | None,
    limit: int,
) -> Mapping[UUID, str]:
    """Give up to `limit` of an owner's documents in the trash another owner; return types by ids in the trash."""
    resource_type = trashed_documents.c.resource_type
    own = matches(documents, organization_id, owner_id=owner_id)
    kept = sa.select(_KEPT_ID, resource_type).join(documents, _ID == _KEPT_ID).where(own)
    if resource_types is not None:
        kept = kept.where(in_array(resource_type, resource_types))
    some = kept.order_by(_KEPT_ID).limit(limit).with_for_update(of=documents).cte("some")
    given = sa.update(documents).where(matches(documents, organization_id), some.c[0] == _ID)
    rows = await connection.execute(given.values(owner_id=new_owner_id).returning(some.c[0], some.c[1]))
    return {row[0]: row[1] for row in rows}


def _select_for(caller: Caller, days: int, *columns: Any) -> sa.Select[*tuple[Any, ...]]:
    """Select documents restorable by the caller: the caller's own, for an admin all, within the time of the trash."""
    own = sa.true() if caller.is_admin else documents.c.owner_id == caller.principal_id
    return (
        sa.select(*columns)
        .join_from(trashed_documents, documents, _ID == _KEPT_ID)
        .where(
            trashed_documents.c.organization_id == caller.organization_id,
            trashed_documents.c.deleted_at > sa.func.now() - timedelta(days=days),
            # Default deny: no collection contains the trash.
            own if caller.collection_ids is None else sa.false(),
        )
    )


async def lock_kept(connection: Connection, caller: Caller, *, ids: Collection[UUID], days: int) -> list[Kept]:
    """Lock the documents in the trash that the caller may restore, so that the owner can't change."""
    names = ("trashed_document_id", "document_id", "resource_type", "resource_id", "readers", "collections")
    columns = (*(trashed_documents.c[name] for name in names), documents.c.version, documents.c.created_at)
    statement = _select_for(caller, days, *columns, *columns_of(documents, DocumentFields))
    statement = statement.where(in_array(_KEPT_ID, ids)).order_by(_KEPT_ID)
    return await find_rows(connection, statement.with_for_update(), _to_kept)


def _to_kept(**columns: Any) -> Kept:
    own = DocumentFields(**{field.name: columns.pop(field.name) for field in fields(DocumentFields)})
    return Kept(fields=own, **columns)


async def list_kept(
    connection: Connection,
    caller: Caller,
    *,
    days: int,
    name: str | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[TrashedDocument]:
    """List the documents that the caller may restore, last deleted first, after a (time, id), if named like `name`."""
    deleted_at, version = trashed_documents.c.deleted_at, document_versions.c
    statement = _select_for(
        caller,
        days,
        *(_KEPT_ID, trashed_documents.c.document_id, deleted_at),
        documents.c.name.label("document_name"),
        documents.c.external_id.label("document_external_id"),
        *(version[name] for name in ("file_name", "file_size", "media_type")),
        _select_user(caller, "owner", documents.c.owner_id),
        _select_user(caller, "deleted_by", trashed_documents.c.deleted_by),
        (deleted_at + timedelta(days=days)).label("kept_until"),
    ).join(document_versions, (version.document_id == _ID) & (version.version == documents.c.version))
    if name is not None:
        named = documents.c.name, documents.c.external_id
        statement = statement.where(sa.or_(*(column.icontains(name, autoescape=True) for column in named)))
    if after is not None:
        statement = statement.where(sa.tuple_(deleted_at, _KEPT_ID) < sa.tuple_(*after))
    page = statement.order_by(deleted_at.desc(), _KEPT_ID.desc()).limit(limit)
    return await find_rows(connection, page, TrashedDocument)


def _select_user(caller: Caller, name: str, principal_id: sa.ColumnElement[UUID]) -> sa.Label[Any]:
    own = matches(principals, caller.organization_id, principal_id=principal_id)
    user = sa.select(user_as(name, principals.c.principal_id)).where(own)
    return user.correlate(documents, trashed_documents).scalar_subquery().label(name)


async def lock_due(connection: Connection, organization_id: UUID, *, days: int, limit: int) -> Sequence[UUID]:
    """Lock up to `limit` documents over `days` old in the trash, except rows locked by others; return the ids there."""
    own = trashed_documents.c.organization_id == organization_id
    is_old = trashed_documents.c.deleted_at <= sa.func.now() - timedelta(days=days)
    some = sa.select(_KEPT_ID).join(documents, _ID == _KEPT_ID).where(own, is_old).limit(limit)
    return (await connection.execute(some.with_for_update(skip_locked=True))).scalars().all()
