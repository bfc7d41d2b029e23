"""SQL of the index: a document's chunks in a space, code pages, counts of chunks by term, and removal."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.types import TypeEngine

from carrel.wire.catalog import IndexingStatus
from carrel.wire.places import PassagePlace
from service.index.forms import RULES
from service.index.progress import FAILED_AFTER, Half
from service.index.spaces.queries import stands_for
from service.index.statistics.queries import ADD_DELTAS, OF_DELTAS, sum_changes
from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import TERMS_OF_STEMMINGS
from service.platform.batches import Answer, Batch
from service.platform.sql import (
    ORGANIZATION,
    ModelJson,
    as_arrays,
    columns_of,
    find_rows,
    in_array,
    matches,
    param,
    params,
    unnest_rows,
)
from service.schema.identity import resources
from service.schema.indexing import CHUNKS_PER_PAGE, INDEX_TABLES, TOTAL_TERM, space_documents, spaces, term_deltas

# The most rows of a statement that the driver writes without blocking the event loop noticeably.
ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A document in a space, with the dimensions of the space's vectors and the number of chunks."""

    organization_id: UUID
    space_id: int
    document_id: UUID
    dimensions: int
    language: str | None = None
    chunk_count: int = 0

    def matches(self, table: sa.Table) -> sa.ColumnElement[bool]:
        return matches(table, self.organization_id, document_id=self.document_id, space_id=self.space_id)


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk to write; `terms` in pgvector's format."""

    chunk_no: int
    chunk_id: UUID
    text: str
    text_hash: bytes
    terms: str
    place: PassagePlace | None


def is_pending(entries: sa.FromClause = space_documents) -> sa.ColumnElement[bool]:
    """Build the condition for an entry not fully indexed in the desired version, as in the index of pending entries."""
    return entries.c.indexed_version.is_distinct_from(entries.c.version)


def lacks_words(entries: sa.FromClause = space_documents) -> sa.ColumnElement[bool]:
    """Build the condition for an entry with neither words nor vectors of the desired version, as in a partial index."""
    return sa.and_(entries.c.words_version.is_distinct_from(entries.c.version), is_pending(entries))


def lacks_meaning(entries: sa.FromClause = space_documents) -> sa.ColumnElement[bool]:
    """Build the condition for an entry with words but no vectors of the desired version, as in a partial index."""
    return sa.and_(entries.c.words_version == entries.c.version, is_pending(entries))


LACKING = {Half.WORDS: lacks_words, Half.MEANING: lacks_meaning}


def shown_version(entries: sa.FromClause = space_documents) -> sa.ColumnElement[int | None]:
    """Select the indexed version, with or without vectors; an earlier release writes `indexed_version` alone."""
    return sa.func.greatest(entries.c.words_version, entries.c.indexed_version)


def has_status(
    status: IndexingStatus,
    *,
    document_id: sa.ColumnElement[UUID],
    organization_id: UUID,
    space_id: sa.ColumnElement[int],
) -> sa.ColumnElement[bool]:
    """Build the condition for a status of `space_documents`. CASE keeps the planner on the index of pending entries."""
    if status is IndexingStatus.DONE:
        return sa.case((is_pending(), sa.false()), else_=space_documents.c.version.is_not(None))
    entries = space_documents.alias("pending")
    has_failed = entries.c.attempts >= FAILED_AFTER
    found = sa.select(entries.c.document_id).where(
        matches(entries, organization_id, space_id=space_id),
        is_pending(entries),
        has_failed if status is IndexingStatus.FAILED else ~has_failed,
    )
    ids: Any = sa.func.array(found.scalar_subquery())
    return document_id == sa.any_(ids)


@dataclass(frozen=True, slots=True)
class LockedEntry:
    """A document's entry: access class, desired version, version with indexed words, and number of chunks."""

    document_id: UUID
    access_class: int
    version: int
    words_version: int | None
    chunk_count: int
    language: str | None


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """An indexed chunk; terms are in pgvector's format. `is_inside`: the vector is in the chunk's row."""

    chunk_no: int
    text_hash: bytes
    text: str
    terms: str
    place: PassagePlace | None
    is_inside: bool


def _build_lock(*, skip_locked: bool) -> sa.Select[*tuple[Any, ...]]:
    entry, ids = space_documents.c, sa.bindparam("param_document_ids", type_=sa.ARRAY(sa.Uuid))
    return (
        sa.select(*columns_of(space_documents, LockedEntry, resources.c.access_class))
        .join(space_documents, entry.document_id == resources.c.object_id)
        .join(spaces, spaces.c.space_id == entry.space_id)
        .where(
            resources.c.organization_id == ORGANIZATION,
            resources.c.object_id == sa.any_(ids),
            entry.space_id == param(entry.space_id),
            spaces.c.retired_at.is_(None),
        )
        .with_for_update(of=[resources, space_documents], skip_locked=skip_locked)
        # Last, because each writer locks a space after its documents; retiring a space waits for its writers.
        .suffix_with("FOR KEY SHARE OF spaces")
    )


_LOCK_TO_WRITE = {skip_locked: _build_lock(skip_locked=skip_locked) for skip_locked in (False, True)}


async def lock_to_write(
    connection: Connection,
    organization_id: UUID,
    *,
    space_id: int,
    document_ids: Sequence[UUID],
    then: Batch | None = None,
) -> dict[UUID, LockedEntry]:
    """Lock documents' resources and rows in a space, and return both, by document; none in a retired space. A single
    document is waited for; locked documents among several are skipped to avoid deadlocks. `then` runs afterwards."""
    batch = Batch()
    parameters = params(organization_id, space_id=space_id, document_ids=document_ids)
    locked = batch.ask(_LOCK_TO_WRITE[len(document_ids) > 1], LockedEntry, parameters)
    await Batch([*batch.parts, *(then.parts if then else ())]).run(connection)
    return {found.document_id: found for found in locked.rows}


@cache
def _select_chunks(dimensions: int) -> sa.Select[*tuple[Any, ...]]:
    chunks = INDEX_TABLES[dimensions].chunks
    is_inside = chunks.c.embedding.is_not(None).label("is_inside")
    return (
        sa.select(*columns_of(chunks, IndexedChunk, sa.cast(chunks.c.terms, sa.Text).label("terms"), is_inside))
        .where(
            matches(chunks, ORGANIZATION, document_id=param(chunks.c.document_id), space_id=param(chunks.c.space_id)),
            chunks.c.chunk_no >= param(chunks.c.chunk_no),
        )
        .order_by(chunks.c.chunk_no)
        .limit(sa.bindparam("param_limit", type_=sa.Integer()))
    )


async def list_chunks(
    connection: Connection, entry: IndexEntry, *, first: int = 0, limit: int | None = None
) -> list[IndexedChunk]:
    key = {"document_id": entry.document_id, "space_id": entry.space_id, "chunk_no": first}
    parameters = params(entry.organization_id, **key, limit=limit)
    return await find_rows(connection, _select_chunks(entry.dimensions), IndexedChunk, parameters)


@dataclass(frozen=True, slots=True)
class ChunkState:
    """A written chunk: number, hash of the text, and whether vector and code page are also written."""

    document_id: UUID
    chunk_no: int
    text_hash: bytes
    is_embedded: bool
    is_coded: bool


@cache
def _select_states(dimensions: int) -> sa.Select[*tuple[Any, ...]]:
    tables = INDEX_TABLES[dimensions]
    chunks, vectors, pages = tables.chunks, tables.vectors, tables.code_pages
    of_page = sa.and_(
        pages.c.document_id == chunks.c.document_id,
        pages.c.space_id == chunks.c.space_id,
        pages.c.page_no == chunks.c.chunk_no.op("/")(CHUNKS_PER_PAGE),
    )
    is_embedded = sa.func.coalesce(chunks.c.embedding, vectors.c.embedding).is_not(None).label("is_embedded")
    is_coded = pages.c.page_no.is_not(None).label("is_coded")
    return (
        sa.select(*columns_of(chunks, ChunkState, is_embedded, is_coded))
        .outerjoin(vectors, sa.and_(tables.vector_of(chunks), vectors.c.organization_id == ORGANIZATION))
        .outerjoin(pages, sa.and_(of_page, pages.c.organization_id == ORGANIZATION))
        .where(
            matches(chunks, ORGANIZATION, space_id=param(chunks.c.space_id)),
            chunks.c.document_id == sa.any_(sa.bindparam("param_document_ids", type_=sa.ARRAY(sa.Uuid))),
        )
        .order_by(chunks.c.document_id, chunks.c.chunk_no)
    )


def ask_states(
    batch: Batch, organization_id: UUID, *, space_id: int, dimensions: int, document_ids: Sequence[UUID]
) -> Answer[ChunkState]:
    parameters = params(organization_id, space_id=space_id, document_ids=document_ids)
    return batch.ask(_select_states(dimensions), ChunkState, parameters)


@cache
def _select_texts(dimensions: int) -> sa.Select[*tuple[Any, ...]]:
    tables = INDEX_TABLES[dimensions]
    chunks, vectors = tables.chunks, tables.vectors
    this = matches(chunks, ORGANIZATION, document_id=param(chunks.c.document_id), space_id=param(chunks.c.space_id))
    is_embedded = sa.func.coalesce(chunks.c.embedding, vectors.c.embedding).is_not(None).label("is_embedded")
    of_chunk = sa.and_(tables.vector_of(chunks), vectors.c.organization_id == ORGANIZATION)
    return sa.select(chunks.c.text, is_embedded).outerjoin(vectors, of_chunk).where(this).order_by(chunks.c.chunk_no)


def ask_texts(batch: Batch, entry: IndexEntry) -> Answer[dict[str, Any]]:
    """List the `text` of each of a document's chunks, in order, in a batch, and if it `is_embedded`."""
    parameters = params(entry.organization_id, document_id=entry.document_id, space_id=entry.space_id)
    return batch.ask(_select_texts(entry.dimensions), dict[str, Any], parameters)


class KnownVector(NamedTuple):
    """A text's hash and its vector as `halfvec` in binary, which `from_binary` reads."""

    text_hash: bytes
    sent: bytes


@cache
def _select_embeddings(dimensions: int) -> sa.Select[*tuple[Any, ...]]:
    tables = INDEX_TABLES[dimensions]
    chunks, vectors = tables.chunks, tables.vectors
    embedding = sa.func.coalesce(chunks.c.embedding, vectors.c.embedding)
    hashes: Any = sa.bindparam("param_hashes", type_=sa.ARRAY(sa.LargeBinary))
    of_model = sa.select(spaces.c.space_id).where(matches(spaces, ORGANIZATION, model=param(spaces.c.model)))
    return (
        sa.select(chunks.c.text_hash, sa.func.halfvec_send(embedding, type_=sa.LargeBinary).label("sent"))
        .ext(distinct_on(chunks.c.text_hash))
        .outerjoin(vectors, sa.and_(tables.vector_of(chunks), vectors.c.organization_id == ORGANIZATION))
        .where(
            embedding.is_not(None),
            matches(chunks, ORGANIZATION, document_id=param(chunks.c.document_id)),
            chunks.c.space_id.in_(of_model),
            chunks.c.text_hash == sa.any_(hashes),
        )
        .order_by(chunks.c.text_hash, chunks.c.space_id, chunks.c.chunk_no)
    )


def ask_embeddings(
    batch: Batch, organization_id: UUID, *, document_id: UUID, model: str, dimensions: int, hashes: Collection[bytes]
) -> Answer[KnownVector]:
    """Read in a batch a vector of each hash with any, from the chunks of a document in all spaces of a model."""
    parameters = params(organization_id, document_id=document_id, model=model, hashes=list(hashes))
    return batch.ask(_select_embeddings(dimensions), KnownVector, parameters)


_SLOTS = tuple(f"c{number}" for number in range(1, CHUNKS_PER_PAGE + 1))
_OF_WORDS: dict[str, TypeEngine[Any]] = {
    "document_id": sa.Uuid(),
    "version": sa.Integer(),
    "chunk_count": sa.Integer(),
    "language": sa.Text(),
    "is_followed": sa.Boolean(),
}
_OF_DOCUMENTS: dict[str, TypeEngine[Any]] = {"document_id": sa.Uuid(), "version": sa.Integer()}
_OF_EACH_ROW: dict[str, TypeEngine[Any]] = {"document_id": sa.Uuid(), "access_class": sa.BigInteger()}
_OF_A_CHUNK: dict[str, TypeEngine[Any]] = {
    "chunk_no": sa.Integer(),
    "chunk_id": sa.Uuid(),
    "text": sa.Text(),
    "text_hash": sa.LargeBinary(),
    "terms": sa.Text(),
    "place": ModelJson(PassagePlace),
}
_OF_CHUNKS = _OF_EACH_ROW | _OF_A_CHUNK
_OF_VECTORS: dict[str, TypeEngine[Any]] = _OF_EACH_ROW | {"chunk_no": sa.Integer(), "embedding": sa.Text()}
_OF_PAGES: dict[str, TypeEngine[Any]] = _OF_EACH_ROW | {"page_no": sa.Integer(), **dict.fromkeys(_SLOTS, sa.Text())}


def _upsert_rows(table: sa.Table, rows: sa.TableValuedAlias, *, key: str) -> Insert:
    """Build the statement that writes rows of a space into an index table, replacing rows with an equal `key`."""
    values: dict[str, sa.ColumnElement[Any]] = {"organization_id": ORGANIZATION, "space_id": param(table.c.space_id)}
    types: dict[str, TypeEngine[Any]] = {column.name: column.type for column in table.columns}
    values |= {column.name: sa.cast(column, types[column.name]) for column in rows.c}
    statement = upsert(table).from_select(list(values), sa.select(*values.values()))
    replaced = {name: statement.excluded[name] for name in values if name not in {"document_id", "space_id", key}}
    # A vector that an earlier release wrote into a chunk's row belongs to the replaced text.
    cleared = dict.fromkeys(types.keys() & {"embedding"} - values.keys())
    return statement.on_conflict_do_update(index_elements=["document_id", "space_id", key], set_=replaced | cleared)


def _update_entries(given: sa.TableValuedAlias) -> sa.Update:
    own = {"document_id": given.c.document_id, "space_id": param(space_documents.c.space_id)}
    return sa.update(space_documents).where(matches(space_documents, ORGANIZATION, **own))


@cache
def _build_words(dimensions: int) -> sa.Update:
    """Build the statement that writes chunks. Vectors and codes of earlier chunks with these numbers are removed."""
    tables, given = INDEX_TABLES[dimensions], unnest_rows("chunks", _OF_CHUNKS)
    numbers = {
        tables.vectors: tables.vectors.c.chunk_no == given.c.chunk_no,
        tables.code_pages: tables.code_pages.c.page_no
        == sa.cast(given.c.chunk_no, sa.Integer).op("/")(CHUNKS_PER_PAGE),
    }
    removed = [
        sa.delete(table)
        .where(is_of_chunk)
        .where(matches(table, ORGANIZATION, space_id=param(table.c.space_id), document_id=given.c.document_id))
        .cte(f"removed_{table.name}")
        for table, is_of_chunk in numbers.items()
    ]
    written = unnest_rows("documents", _OF_WORDS)
    indexed = _update_entries(written).values(
        words_version=written.c.version,
        chunk_count=written.c.chunk_count,
        language=written.c.language,
        forms=RULES,
        chunks_expected=written.c.chunk_count,
        claimed_until=sa.case((written.c.is_followed, space_documents.c.claimed_until), else_=sa.func.now()),
        attempts=0,
        error=None,
    )
    return indexed.add_cte(
        _upsert_rows(tables.chunks, given, key="chunk_no").cte("chunks"), *removed, ADD_DELTAS.cte("deltas")
    )


@cache
def _insert_vectors(dimensions: int) -> Insert:
    return _upsert_rows(INDEX_TABLES[dimensions].vectors, unnest_rows("vectors", _OF_VECTORS), key="chunk_no")


@cache
def _build_vectors(dimensions: int) -> sa.Update:
    tables, vectors = INDEX_TABLES[dimensions], _insert_vectors(dimensions)
    pages = _upsert_rows(tables.code_pages, unnest_rows("pages", _OF_PAGES), key="page_no")
    written = unnest_rows("documents", _OF_DOCUMENTS)
    indexed = _update_entries(written).values(
        indexed_version=written.c.version, forms=-RULES, claimed_until=None, attempts=0, error=None
    )
    return indexed.add_cte(vectors.cte("vectors"), pages.cte("pages"))


@dataclass(frozen=True, slots=True)
class WordsChange:
    """A version's chunks to write, vectors to keep, term counts; `is_followed`: this process then writes vectors."""

    document_id: UUID
    access_class: int
    version: int
    chunk_count: int
    language: str | None
    is_followed: bool
    rows: Sequence[ChunkRow]
    vectors: Mapping[int, str]
    deltas: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class VectorsChange:
    """The vectors to write of a document's version in a space, in pgvector's format, and the code pages."""

    document_id: UUID
    access_class: int
    version: int
    vectors: Mapping[int, str]
    pages: Mapping[int, Sequence[str | None]]


async def write_words(
    connection: Connection, organization_id: UUID, *, changes: Sequence[WordsChange], dimensions: int, **place: int
) -> None:
    """Write documents' chunks, replacing equal numbers, in one statement or several; the place is `space_id`."""
    chunks = [
        (each.document_id, each.access_class, *(getattr(row, name) for name in _OF_A_CHUNK))
        for each in changes
        for row in each.rows
    ]
    documents = [tuple(getattr(each, name) for name in _OF_WORDS) for each in changes]
    once = [("documents", _OF_WORDS, documents), ("deltas", OF_DELTAS, sum_changes([each.deltas for each in changes]))]
    given = params(organization_id, **place)
    await _write(connection, _build_words(dimensions), given, many=[("chunks", _OF_CHUNKS, chunks)], once=once)
    kept = [(each.document_id, each.access_class, *row) for each in changes for row in each.vectors.items()]
    if kept:
        await _write(connection, _insert_vectors(dimensions), given, many=[("vectors", _OF_VECTORS, kept)])


async def write_vectors(
    connection: Connection, organization_id: UUID, *, changes: Sequence[VectorsChange], dimensions: int, **place: int
) -> None:
    """Write vectors and code pages of documents with written chunks in a space, and set the documents' versions."""
    vectors = [(each.document_id, each.access_class, *row) for each in changes for row in each.vectors.items()]
    pages = [
        (each.document_id, each.access_class, number, *page) for each in changes for number, page in each.pages.items()
    ]
    once = [("documents", _OF_DOCUMENTS, [(each.document_id, each.version) for each in changes])]
    many = [("vectors", _OF_VECTORS, vectors), ("pages", _OF_PAGES, pages)]
    await _write(connection, _build_vectors(dimensions), params(organization_id, **place), many=many, once=once)


async def _write(
    connection: Connection,
    statement: sa.Executable,
    given: dict[str, Any],
    *,
    many: Sequence[tuple[str, Iterable[str], Sequence[Any]]],
    once: Sequence[tuple[str, Iterable[str], Sequence[Any]]] = (),
) -> None:
    """Run a statement on `many` rows (for `as_arrays`) in portions; `once` values go with the first portion."""
    for start in range(0, max(1, *(len(rows) for _, _, rows in many)), ROWS_AT_ONCE):
        arrays = [as_arrays(kind, names, rows[start : start + ROWS_AT_ONCE]) for kind, names, rows in many]
        arrays += [as_arrays(kind, names, [] if start else rows) for kind, names, rows in once]
        given = given | {f"param_{name}": values for array in arrays for name, values in array.items()}
        await connection.execute(statement, given)


async def truncate_entry(connection: Connection, entry: IndexEntry, *, chunk_count: int) -> None:
    """Remove an index entry's chunks from number `chunk_count` on, with their vectors and code pages."""
    tables = INDEX_TABLES[entry.dimensions]
    beyond = {table: table.c.chunk_no >= chunk_count for table in (tables.chunks, tables.vectors)}
    beyond[tables.code_pages] = tables.code_pages.c.page_no >= chunk_count // CHUNKS_PER_PAGE
    for table, is_beyond in beyond.items():
        await connection.execute(sa.delete(table).where(entry.matches(table), is_beyond))


# The most rows removed by one statement, so that no statement reaches its time limit.
CHUNKS_AT_ONCE = ENTRIES_AT_ONCE = 2000
_OF_ENTRIES: dict[str, TypeEngine[Any]] = {"document_id": sa.Uuid(), "space_id": sa.Integer(), "stemming": sa.Integer()}


async def lock_entries(
    connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID], space_id: int | None = None
) -> Sequence[IndexEntry]:
    """Lock documents' rows and return them in order, of every space, or of `space_id` and the space's replacement."""
    entry = space_documents.c
    statement = (
        sa.select(*columns_of(space_documents, IndexEntry, spaces.c.dimensions))
        .join(spaces, spaces.c.space_id == entry.space_id)
        .where(entry.organization_id == organization_id, in_array(entry.document_id, document_ids))
        .order_by(entry.document_id, entry.space_id)
        .with_for_update(of=space_documents)
    )
    if space_id is not None:
        statement = statement.where(stands_for(space_id))
    return await find_rows(connection, statement, IndexEntry)


async def remove_entries(connection: Connection, organization_id: UUID, *, entries: Collection[IndexEntry]) -> None:
    """Delete locked entries with their chunks, vectors and code pages, and subtract the chunks' terms from counts."""
    for portion in _divide(entries):
        # Chunks are counted under the term of their language's stemming, if any.
        rows = [
            (entry.document_id, entry.space_id, TERMS_OF_STEMMINGS.get(stemming_of(entry.language, default=ENGLISH)))
            for entry in portion
        ]
        parameters = params(organization_id, **as_arrays("entries", _OF_ENTRIES, rows))
        await connection.execute(_build_removal(portion[0].dimensions), parameters)


def _divide(entries: Collection[IndexEntry]) -> Iterator[Sequence[IndexEntry]]:
    """Divide entries into portions of equal dimensions, small enough for a statement to remove."""
    for dimensions in sorted({item.dimensions for item in entries}):
        portion, chunk_count = list[IndexEntry](), 0
        for entry in entries:
            if entry.dimensions != dimensions:
                continue
            if portion and (chunk_count + entry.chunk_count > CHUNKS_AT_ONCE or len(portion) >= ENTRIES_AT_ONCE):
                yield portion
                portion, chunk_count = [], 0
            portion.append(entry)
            chunk_count += entry.chunk_count
        yield portion


@cache
def _build_removal(dimensions: int) -> sa.Delete:
    tables = INDEX_TABLES[dimensions]
    given = unnest_rows("entries", _OF_ENTRIES)

    def delete_from(table: sa.Table) -> sa.Delete:
        own = matches(table, ORGANIZATION, document_id=given.c.document_id, space_id=given.c.space_id)
        return sa.delete(table).where(own)

    chunks = tables.chunks
    terms = sa.cast(chunks.c.terms, sa.Text).label("terms")
    stemming = sa.cast(given.c.stemming, sa.Integer).label("stemming")
    removed = delete_from(chunks).returning(chunks.c.space_id, terms, stemming).cte("removed")
    # pgvector writes terms as {term:weight,term:weight}/dimensions.
    listed = sa.func.split_part(sa.func.ltrim(removed.c.terms, "{"), "}", 1)
    entries = (
        sa.func.string_to_table(sa.func.nullif(listed, ""), ",").table_valued("entry").render_derived(name="entries")
    )
    counted = sa.union_all(
        sa.select(removed.c.space_id, sa.cast(sa.func.split_part(entries.c.entry, ":", 1), sa.Integer).label("term"))
        .select_from(removed)
        .join(entries, sa.true()),
        sa.select(removed.c.space_id, sa.literal(TOTAL_TERM)),
        sa.select(removed.c.space_id, removed.c.stemming).where(removed.c.stemming.is_not(None)),
    ).subquery()
    sums = sa.select(ORGANIZATION, counted.c.space_id, counted.c.term, -sa.func.count())
    deltas = sa.insert(term_deltas).from_select(
        ["organization_id", "space_id", "term", "delta"], sums.group_by(counted.c.space_id, counted.c.term)
    )
    others = [delete_from(table).cte(f"removed_{table.name}") for table in (tables.vectors, tables.code_pages)]
    return delete_from(space_documents).add_cte(*others, deltas.cte("deltas"))
