"""SQL of index spaces: finding the searched space, adding a space, and deleting a space with its index."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import CTE, ColumnElement, ScalarSelect, and_, func, literal_column, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.index.forms import APART, FORMS, RULES
from service.index.stemming import ENGLISH
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, columns_of, delete_rows, find_row, matches, param, params, update_rows
from service.schema.indexing import INDEX_TABLES, space_documents, spaces, term_deltas, term_statistics
from service.text.embedding import EmbeddingModel


@dataclass(frozen=True, slots=True)
class Space:
    """The index of the catalog or a collection: a model, and a language for its terms."""

    space_id: int
    model: str
    dimensions: int
    language: str = ENGLISH


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSpace(Space):
    """A space open to searches: the catalog's, or a collection's."""

    is_catalog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSpace(Space):
    """A space in the current state, with the lowest number of the rules used for the documents."""

    oldest: int | None

    @property
    def has_old_forms(self) -> bool:
        """Whether some chunks have an earlier version's forms of words."""
        return self.oldest is not None and self.oldest < FORMS

    @property
    def has_vectors_inside(self) -> bool:
        return self.oldest is not None and self.oldest < APART


_SPACE = columns_of(spaces, Space)


def is_older() -> ColumnElement[bool]:
    """Build the condition for a document indexed by rules with a lower number than the current rules."""
    return and_(space_documents.c.forms < RULES, space_documents.c.chunk_count > 0)


def is_searched() -> ColumnElement[bool]:
    """Build the condition for a searched space: neither a replacement under construction nor retired."""
    return and_(spaces.c.replaces_space_id.is_(None), spaces.c.retired_at.is_(None))


def stands_for(space_id: int) -> ColumnElement[bool]:
    """Build the condition for the given space or its replacement, because both get the same requests."""
    return or_(spaces.c.space_id == space_id, spaces.c.replaces_space_id == space_id)


async def lock_spaces(
    connection: Connection, organization_id: UUID, which: ColumnElement[bool], *, exclusively: bool = False
) -> None:
    """Lock spaces until the transaction ends: shared to copy entries, exclusively to change all entries. The next
    statement sees the entries that the previous holder of the lock committed."""
    own = (
        select(spaces.c.space_id).where(spaces.c.organization_id == organization_id, which).order_by(spaces.c.space_id)
    )
    await connection.execute(own.with_for_update(read=not exclusively, key_share=not exclusively))


def select_catalog_id(organization_id: ColumnElement[UUID] | UUID) -> ScalarSelect[int]:
    is_catalog = and_(spaces.c.organization_id == organization_id, spaces.c.is_catalog)
    return select(spaces.c.space_id).where(is_catalog).scalar_subquery()


def lock_existing(organization_id: ColumnElement[UUID] | UUID, *which: ColumnElement[bool]) -> CTE:
    """Build the CTE of spaces that are not retired, read with the lock held: a concurrent swap of two spaces waits for
    this, or this for the swap."""
    own = spaces.c.organization_id == organization_id, spaces.c.retired_at.is_(None)
    locked = select(spaces).where(*own, *which).order_by(spaces.c.space_id)
    return locked.with_for_update(key_share=True, read=True).cte("homes")


_CATALOG = select(*_SPACE).where(spaces.c.organization_id == ORGANIZATION, spaces.c.is_catalog)
_known = spaces.alias("known")
# Without parameters: PostgreSQL would not use the index of `chunk_count > 0`, or would plan each search again.
_OLDEST = (
    select(space_documents.c.forms)
    .where(space_documents.c.space_id == spaces.c.space_id, space_documents.c.chunk_count > literal_column("0"))
    .order_by(space_documents.c.forms)
    .limit(literal_column("1"))
    .scalar_subquery()
    .label("oldest")
)
_SUCCESSOR = (
    select(*columns_of(spaces, CurrentSpace, _OLDEST))
    .join(_known, spaces.c.space_id == func.coalesce(_known.c.replaced_by_space_id, _known.c.space_id))
    .where(_known.c.organization_id == ORGANIZATION, _known.c.space_id == param(_known.c.space_id))
)


async def find_catalog(connection: Connection, organization_id: UUID) -> Space | None:
    """Return the organization's catalog space; None before the first upload."""
    return await find_row(connection, _CATALOG, Space, params(organization_id))


def ask_catalog(batch: Batch, organization_id: UUID) -> Answer[Space]:
    return batch.ask(_CATALOG, Space, params(organization_id))


def ask_current_space(batch: Batch, organization_id: UUID, *, space_id: int) -> Answer[CurrentSpace]:
    """Read the currently searched space in a batch: the given space or its replacement; none when deleted."""
    return batch.ask(_SUCCESSOR, CurrentSpace, params(organization_id, space_id=space_id))


async def lock_space(connection: Connection, organization_id: UUID, *, space_id: int) -> SearchedSpace | None:
    """Lock a searched space against indexing and additions; None when replaced."""
    searched = matches(spaces, organization_id, space_id=space_id), spaces.c.retired_at.is_(None)
    statement = select(*columns_of(spaces, SearchedSpace)).where(*searched).with_for_update()
    return await find_row(connection, statement, SearchedSpace)


async def insert_space(
    connection: Connection, organization_id: UUID, *, model: EmbeddingModel, is_catalog: bool = False
) -> int | None:
    """Add an empty space of a model, for English, and return its id; None if the catalog already has a space."""
    named = {"model": model.name, "dimensions": model.dimensions, "language": ENGLISH}
    new = upsert(spaces).values(organization_id=organization_id, is_catalog=is_catalog, **named)
    statement = new.on_conflict_do_nothing().returning(spaces.c.space_id)
    return (await connection.execute(statement)).scalar_one_or_none()


async def retire_replacement(connection: Connection, organization_id: UUID, *, space_id: int) -> None:
    """Retire the replacement of a space, if under construction; a later step empties the replacement."""
    retired = {"replaces_space_id": None, "retired_at": func.now()}
    await update_rows(connection, spaces, organization_id, retired, replaces_space_id=space_id)


async def delete_space(connection: Connection, organization_id: UUID, *, space_id: int) -> None:
    """Remove a space with all entries, after all writers; retire its replacement, and unlink a space it replaced."""
    await retire_replacement(connection, organization_id, space_id=space_id)
    unlinked = {"replaced_by_space_id": None}
    await update_rows(connection, spaces, organization_id, unlinked, replaced_by_space_id=space_id)
    entries = select(space_documents.c.document_id).where(matches(space_documents, organization_id, space_id=space_id))
    await connection.execute(entries.order_by(space_documents.c.document_id).with_for_update())
    # Lock in the order of a fold, which may hold the same rows.
    counted = select(term_statistics.c.term).where(matches(term_statistics, organization_id, space_id=space_id))
    await connection.execute(counted.order_by(term_statistics.c.term).with_for_update())
    index = [table for tables in INDEX_TABLES.values() for table in tables.all]
    for table in (*index, space_documents, term_statistics, term_deltas, spaces):
        await delete_rows(connection, table, organization_id, space_id=space_id)
