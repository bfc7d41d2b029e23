"""SQL of removing documents from spaces, with their chunks, their code pages, and what they count among the terms."""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import Delete, Integer, Table, Text, Uuid, cast, delete, func, insert, literal, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from service.index.queries import IndexEntry
from service.index.spaces.queries import stands_for
from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import TERMS_OF_STEMMINGS
from service.platform.sql import ORGANIZATION, as_arrays, columns_of, find_rows, in_array, params, unnest_rows
from service.schema.indexing import INDEX_TABLES, TOTAL_TERM, space_documents, spaces, term_deltas

# So much is removed by one statement: it ends long before a statement may take too long.
CHUNKS_AT_ONCE = ENTRIES_AT_ONCE = 2000
_OF_ENTRIES: dict[str, TypeEngine[Any]] = {"document_id": Uuid(), "space_id": Integer(), "stemming": Integer()}


async def lock_entries(
    connection: AsyncConnection, organization_id: UUID, *, document_ids: Collection[UUID], space_id: int | None = None
) -> Sequence[IndexEntry]:
    """Lock documents' rows in every space, in the order of the documents and then of the spaces.

    With `space_id`: in that space and its replacement only.
    """
    entry = space_documents.c
    statement = (
        select(*columns_of(space_documents, IndexEntry, spaces.c.dimensions))
        .join(spaces, spaces.c.space_id == entry.space_id)
        .where(entry.organization_id == organization_id, in_array(entry.document_id, document_ids))
        .order_by(entry.document_id, entry.space_id)
        .with_for_update(of=space_documents)
    )
    if space_id is not None:
        statement = statement.where(stands_for(space_id))
    return await find_rows(connection, statement, IndexEntry)


async def remove_entries(
    connection: AsyncConnection, organization_id: UUID, *, entries: Collection[IndexEntry]
) -> None:
    """Remove index entries, whose rows are locked, from their spaces."""
    for portion in _divide(entries):
        rows = [(one.document_id, one.space_id, _stemming_term(one)) for one in portion]
        parameters = params(organization_id, **as_arrays("entries", _OF_ENTRIES, rows))
        await connection.execute(_build_removal(portion[0].dimensions), parameters)


def _divide(entries: Collection[IndexEntry]) -> Iterator[Sequence[IndexEntry]]:
    """Divide entries into portions of equal dimensions, none much larger than a statement may remove."""
    for dimensions in sorted({one.dimensions for one in entries}):
        portion, chunk_count = list[IndexEntry](), 0
        for one in entries:
            if one.dimensions != dimensions:
                continue
            if portion and (chunk_count + one.chunk_count > CHUNKS_AT_ONCE or len(portion) >= ENTRIES_AT_ONCE):
                yield portion
                portion, chunk_count = [], 0
            portion.append(one)
            chunk_count += one.chunk_count
        yield portion


def _stemming_term(entry: IndexEntry) -> int | None:
    """Return the term under which chunks of an entry's language are counted; None where they are not."""
    return TERMS_OF_STEMMINGS.get(stemming_of(entry.language, default=ENGLISH))


@cache
def _build_removal(dimensions: int) -> Delete:
    """Build the statement that removes entries of these dimensions.

    The database itself subtracts what their chunks count among the terms: no term is sent for that.
    """
    tables = INDEX_TABLES[dimensions]
    given = unnest_rows("entries", _OF_ENTRIES)

    def delete_from(table: Table) -> Delete:
        is_given = table.c.document_id == given.c.document_id, table.c.space_id == given.c.space_id
        return delete(table).where(table.c.organization_id == ORGANIZATION, *is_given)

    chunks = tables.chunks
    terms, stemming = cast(chunks.c.terms, Text).label("terms"), cast(given.c.stemming, Integer).label("stemming")
    removed = delete_from(chunks).returning(chunks.c.space_id, terms, stemming).cte("removed")
    # As pgvector writes terms: {term:weight,term:weight}/dimensions.
    listed = func.split_part(func.ltrim(removed.c.terms, "{"), "}", 1)
    entries = func.string_to_table(func.nullif(listed, ""), ",").table_valued("entry").render_derived(name="entries")
    counted = union_all(
        select(removed.c.space_id, cast(func.split_part(entries.c.entry, ":", 1), Integer).label("term"))
        .select_from(removed)
        .join(entries, true()),
        select(removed.c.space_id, literal(TOTAL_TERM)),
        select(removed.c.space_id, removed.c.stemming).where(removed.c.stemming.is_not(None)),
    ).subquery()
    sums = select(ORGANIZATION, counted.c.space_id, counted.c.term, -func.count())
    deltas = insert(term_deltas).from_select(
        ["organization_id", "space_id", "term", "delta"], sums.group_by(counted.c.space_id, counted.c.term)
    )
    pages = delete_from(tables.code_pages)
    return delete_from(space_documents).add_cte(pages.cte("pages"), deltas.cte("deltas"))
