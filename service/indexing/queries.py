"""SQL of the index: a document's chunks in a space, their code pages, and how many chunks contain which term."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    LargeBinary,
    Table,
    TableValuedAlias,
    Text,
    Uuid,
    and_,
    cast,
    column,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from service.indexing.codes import from_binary
from service.indexing.tables import CHUNKS_PER_PAGE, INDEX_TABLES, space_documents, spaces, term_deltas, term_statistics
from service.sql import AnyRow, among

# As many rows as one statement takes without its arrays becoming unwieldy.
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Place:
    """A document in a space, whose vectors have so many dimensions."""

    organization_id: UUID
    space_id: int
    document_id: UUID
    dimensions: int

    def chosen(self, table: Table) -> ColumnElement[bool]:
        """Return the condition that a row of `table` is of this document in this space."""
        return and_(
            table.c.organization_id == self.organization_id,
            table.c.document_id == self.document_id,
            table.c.space_id == self.space_id,
        )


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk to write; `terms` and `embedding` as pgvector reads them."""

    chunk_no: int
    chunk_id: UUID
    text: str
    text_hash: bytes
    terms: str
    embedding: str


async def find_catalog_space(connection: AsyncConnection, organization_id: UUID) -> AnyRow | None:
    """The organization's catalog."""
    statement = select(spaces).where(spaces.c.organization_id == organization_id, spaces.c.is_catalog)
    return (await connection.execute(statement)).one_or_none()


async def insert_space(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    model: str,
    dimensions: int,
    language: str,
    is_catalog: bool = False,
) -> int | None:
    """Add a space; None when it is to be the catalog and another transaction has just added that."""
    statement = (
        upsert(spaces)
        .values(
            organization_id=organization_id,
            model=model,
            dimensions=dimensions,
            language=language,
            is_catalog=is_catalog,
        )
        .on_conflict_do_nothing()
        .returning(spaces.c.space_id)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def lock_wanted(connection: AsyncConnection, place: Place) -> int | None:
    """Lock the document's row in the space; the version wanted there, None when it is not to be there."""
    statement = select(space_documents.c.version).where(place.chosen(space_documents)).with_for_update()
    return (await connection.execute(statement)).scalar_one_or_none()


async def lock_places(connection: AsyncConnection, organization_id: UUID, *, document_id: UUID) -> Sequence[Place]:
    """Lock a document's row in every space it is in, in the order of the spaces."""
    statement = (
        select(space_documents.c.space_id, spaces.c.dimensions)
        .join(spaces, spaces.c.space_id == space_documents.c.space_id)
        .where(space_documents.c.organization_id == organization_id, space_documents.c.document_id == document_id)
        .order_by(space_documents.c.space_id)
        .with_for_update(of=space_documents)
    )
    rows = await connection.execute(statement)
    return [Place(organization_id, row.space_id, document_id, row.dimensions) for row in rows]


async def list_chunks(connection: AsyncConnection, place: Place) -> Sequence[AnyRow]:
    """What is indexed of a document in a space: chunk_no, text_hash, text and terms (as pgvector writes them)."""
    chunks = INDEX_TABLES[place.dimensions].chunks
    statement = (
        select(chunks.c.chunk_no, chunks.c.text_hash, chunks.c.text, cast(chunks.c.terms, Text).label("terms"))
        .where(place.chosen(chunks))
        .order_by(chunks.c.chunk_no)
    )
    return (await connection.execute(statement)).all()


async def stored_embeddings(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    document_id: UUID,
    model: str,
    dimensions: int,
    hashes: Sequence[bytes],
) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that any space holds of these texts of a document, by the texts' hashes."""
    chunks = INDEX_TABLES[dimensions].chunks
    statement = (
        select(chunks.c.text_hash, func.halfvec_send(chunks.c.embedding, type_=LargeBinary))
        .ext(distinct_on(chunks.c.text_hash))
        .join(spaces, spaces.c.space_id == chunks.c.space_id)
        .where(
            chunks.c.organization_id == organization_id,
            chunks.c.document_id == document_id,
            spaces.c.model == model,
            among(chunks.c.text_hash, hashes),
        )
        .order_by(chunks.c.text_hash, chunks.c.space_id, chunks.c.chunk_no)
    )
    return {text_hash: from_binary(sent) for text_hash, sent in await connection.execute(statement)}


async def write_chunks(
    connection: AsyncConnection, place: Place, *, access_class: int, rows: Sequence[ChunkRow]
) -> None:
    """Write chunks, each in place of the one that had its number."""
    chunks = INDEX_TABLES[place.dimensions].chunks
    own = _own_values(place, access_class)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        given = (
            func.unnest(
                literal([row.chunk_no for row in part], ARRAY(Integer)),
                literal([row.chunk_id for row in part], ARRAY(Uuid)),
                literal([row.text for row in part], ARRAY(Text)),
                literal([row.text_hash for row in part], ARRAY(LargeBinary)),
                literal([row.terms for row in part], ARRAY(Text)),
                literal([row.embedding for row in part], ARRAY(Text)),
            )
            .table_valued("chunk_no", "chunk_id", "text", "text_hash", "terms", "embedding")
            .render_derived()
        )
        await connection.execute(_replacing(chunks, own, given, key="chunk_no"))


async def write_pages(
    connection: AsyncConnection, place: Place, *, access_class: int, pages: Mapping[int, Sequence[str | None]]
) -> None:
    """Write code pages by their numbers, each in place of the one that had it."""
    code_pages = INDEX_TABLES[place.dimensions].code_pages
    own = _own_values(place, access_class)
    numbers = sorted(pages)
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        part = numbers[start : start + ROWS_AT_ONCE]
        codes = [literal([pages[number][slot] for number in part], ARRAY(Text)) for slot in range(CHUNKS_PER_PAGE)]
        given = (
            func.unnest(literal(part, ARRAY(Integer)), *codes)
            .table_valued("page_no", *(f"c{slot}" for slot in range(1, CHUNKS_PER_PAGE + 1)))
            .render_derived()
        )
        await connection.execute(_replacing(code_pages, own, given, key="page_no"))


def _own_values(place: Place, access_class: int) -> dict[str, ColumnElement[Any]]:
    return {
        "organization_id": literal(place.organization_id),
        "space_id": literal(place.space_id),
        "document_id": literal(place.document_id),
        "access_class": literal(access_class),
    }


def _replacing(table: Table, own: Mapping[str, ColumnElement[Any]], given: TableValuedAlias, *, key: str) -> Insert:
    """Write the `given` rows, with what is their `own` in common, in place of those with the same key."""
    types: dict[str, TypeEngine[Any]] = {column.name: column.type for column in table.columns}
    values = dict(own) | {column.name: cast(column, types[column.name]) for column in given.c}
    statement = upsert(table).from_select(list(values), select(*values.values()))
    replaced = {name: statement.excluded[name] for name in values if name not in {"document_id", "space_id", key}}
    return statement.on_conflict_do_update(index_elements=["document_id", "space_id", key], set_=replaced)


async def cut_off(connection: AsyncConnection, place: Place, *, chunk_count: int) -> None:
    """Remove what is indexed of a document beyond so many chunks."""
    tables = INDEX_TABLES[place.dimensions]
    page_count = -(-chunk_count // CHUNKS_PER_PAGE)
    for table, number, kept in ((tables.chunks, "chunk_no", chunk_count), (tables.code_pages, "page_no", page_count)):
        await connection.execute(delete(table).where(place.chosen(table), table.c[number] >= kept))


async def mark_indexed(connection: AsyncConnection, place: Place, *, version: int, chunk_count: int) -> None:
    """Record that a version is indexed now; nobody works on it any more."""
    statement = (
        update(space_documents)
        .where(place.chosen(space_documents))
        .values(indexed_version=version, chunk_count=chunk_count, claimed_until=None, attempts=0, error=None)
    )
    await connection.execute(statement)


async def remove_place(connection: AsyncConnection, place: Place) -> None:
    """Remove a document, whose row in the space is locked, from it."""
    await cut_off(connection, place, chunk_count=0)
    await connection.execute(delete(space_documents).where(place.chosen(space_documents)))


async def delete_space(connection: AsyncConnection, organization_id: UUID, *, space_id: int) -> None:
    """Remove a space and all that is indexed in it; waits for whoever is writing there."""
    documents = select(space_documents.c.document_id).where(
        space_documents.c.organization_id == organization_id, space_documents.c.space_id == space_id
    )
    await connection.execute(documents.order_by(space_documents.c.document_id).with_for_update())
    index = [table for tables in INDEX_TABLES.values() for table in (tables.chunks, tables.code_pages)]
    for table in (*index, space_documents, term_statistics, term_deltas, spaces):
        own = and_(table.c.organization_id == organization_id, table.c.space_id == space_id)
        await connection.execute(delete(table).where(own))


async def move_access_classes(
    connection: AsyncConnection, organization_id: UUID, *, classes: Mapping[UUID, int]
) -> None:
    """Give what is indexed of documents, in every space, other access classes; their resources' rows are locked."""
    moved = (
        func.unnest(literal(list(classes), ARRAY(Uuid)), literal(list(classes.values()), ARRAY(BigInteger)))
        .table_valued(column("document_id", Uuid), column("access_class", BigInteger))
        .render_derived(name="moved")
    )
    for tables in INDEX_TABLES.values():
        for table in (tables.chunks, tables.code_pages):
            statement = (
                update(table)
                .where(table.c.organization_id == organization_id, table.c.document_id == moved.c.document_id)
                .values(access_class=moved.c.access_class)
            )
            await connection.execute(statement)


async def add_deltas(
    connection: AsyncConnection, organization_id: UUID, *, space_id: int, deltas: Mapping[int, int]
) -> None:
    """Append by how much the number of chunks with each term has changed."""
    terms = sorted(term for term, delta in deltas.items() if delta)
    if not terms:
        return
    given = (
        func.unnest(literal(terms, ARRAY(Integer)), literal([deltas[term] for term in terms], ARRAY(Integer)))
        .table_valued("term", "delta")
        .render_derived()
    )
    rows = select(literal(organization_id), literal(space_id), given.c.term, given.c.delta)
    columns = ["organization_id", "space_id", "term", "delta"]
    await connection.execute(insert(term_deltas).from_select(columns, rows))


async def count_frequencies(
    connection: AsyncConnection, organization_id: UUID, *, space_id: int, terms: Iterable[int]
) -> dict[int, int]:
    """How many chunks of a space contain each of these terms, the deltas not yet folded included."""
    wanted = list(terms)
    counted = union_all(
        *(
            select(table.c.term, amount.label("amount")).where(
                table.c.organization_id == organization_id, table.c.space_id == space_id, among(table.c.term, wanted)
            )
            for table, amount in (
                (term_statistics, term_statistics.c.frequency),
                (term_deltas, term_deltas.c.delta),
            )
        )
    ).subquery()
    statement = select(counted.c.term, func.sum(counted.c.amount)).group_by(counted.c.term)
    return {term: int(amount) for term, amount in await connection.execute(statement)}


async def try_lock_statistics(connection: AsyncConnection, organization_id: UUID) -> bool:
    """Become the one who folds an organization's deltas until the transaction ends; False when another one is."""
    key = func.hashtextextended(f"carrel.term_statistics {organization_id}", 0)
    return bool((await connection.execute(select(func.pg_try_advisory_xact_lock(key)))).scalar_one())


async def fold_deltas(connection: AsyncConnection, organization_id: UUID, *, limit: int) -> int:
    """Turn up to `limit` deltas into statistics, in one statement: a reader sees each exactly once. How many it was."""
    keys = (term_deltas.c.space_id, term_deltas.c.term, term_deltas.c.delta_id)
    own = term_deltas.c.organization_id == organization_id
    taken = (
        delete(term_deltas)
        .where(own, tuple_(*keys).in_(select(*keys).where(own).order_by(*keys).limit(limit)))
        .returning(term_deltas.c.space_id, term_deltas.c.term, term_deltas.c.delta)
        .cte("taken")
    )
    sums = (
        select(taken.c.space_id, taken.c.term, literal(organization_id), func.sum(taken.c.delta))
        .group_by(taken.c.space_id, taken.c.term)
        .order_by(taken.c.space_id, taken.c.term)
    )
    folding = upsert(term_statistics).from_select(["space_id", "term", "organization_id", "frequency"], sums)
    folded = (
        folding.on_conflict_do_update(
            index_elements=["space_id", "term"],
            set_={"frequency": term_statistics.c.frequency + folding.excluded.frequency},
        )
        .returning(term_statistics.c.term)
        .cte("folded")
    )
    statement = select(select(func.count()).select_from(taken).scalar_subquery()).add_cte(folded)
    return (await connection.execute(statement)).scalar_one()


async def forget_vanished_terms(connection: AsyncConnection, organization_id: UUID) -> None:
    """Remove the statistics of terms no chunk contains any more."""
    await connection.execute(
        delete(term_statistics).where(
            term_statistics.c.organization_id == organization_id, term_statistics.c.frequency == 0
        )
    )
