"""Spaces, and writing documents into them. Each function that changes a document's index locks its resource first, like
changes of access: no write restores an older access class, and no removed document returns."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.places import PassagePlace
from service.index import queries
from service.index.codes import as_vector, binary_codes, pages_of
from service.index.forms import FORMS, RULES
from service.index.queries import (
    ChunkRow,
    IndexedChunk,
    IndexEntry,
    LockedEntry,
    VectorsChange,
    WordsChange,
    read_embeddings,
)
from service.index.spaces.queries import Space, ask_catalog, ask_current_space, delete_space, find_catalog, insert_space
from service.index.statistics.queries import delete_unused_terms, fold_deltas, try_lock_statistics
from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import TERMS_OF_STEMMINGS, as_sparsevec, read_sparsevec, weigh_chunks
from service.permissions.queries import lock_objects
from service.platform.identifiers import uuid7
from service.schema.indexing import CHUNKS_PER_PAGE, TOTAL_TERM

__all__ = [
    "DocumentToIndex",
    "Space",
    "ask_catalog",
    "ask_current_space",
    "create_space",
    "delete_space",
    "ensure_catalog_space",
    "find_catalog",
    "fold_statistics",
    "read_embeddings",
    "remove_everywhere",
    "remove_from_space",
    "write_index",
]

FOLDED_AT_ONCE = 20_000

# So little is worked on sooner than a thread is found for it: about five milliseconds.
FEW_CHUNKS = 16
FEW_CHARACTERS = 20_000

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Model(Protocol):
    """The properties of an embedding model that a space needs."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...


class ChunkToIndex(Protocol):
    """A chunk: the text that is searched and shown, SHA-256 of what is embedded, and its place in the document."""

    @property
    def text(self) -> str: ...

    @property
    def hash(self) -> bytes: ...

    @property
    def place(self) -> PassagePlace | None: ...


async def ensure_catalog_space(connection: Connection, organization_id: UUID, *, model: Model) -> Space:
    """Return the organization's catalog space, which is created with this model if there is none yet."""
    while (space := await find_catalog(connection, organization_id)) is None:
        await insert_space(
            connection,
            organization_id,
            model=model.name,
            dimensions=model.dimensions,
            language=ENGLISH,
            is_catalog=True,
        )
    return space


async def create_space(
    connection: Connection, organization_id: UUID, *, model: Model, language: str = ENGLISH
) -> Space:
    space_id = await insert_space(
        connection, organization_id, model=model.name, dimensions=model.dimensions, language=language
    )
    if space_id is None:
        raise RuntimeError("A space that is no catalog can't be in conflict with another.")
    return Space(space_id, model.name, model.dimensions, language)


@dataclass(frozen=True, slots=True)
class DocumentToIndex:
    """A version to index, with a vector of unit norm for each chunk; `language` in ISO 639-1 (None: not told)."""

    document_id: UUID
    version: int
    title: str
    chunks: Sequence[ChunkToIndex]
    embeddings: NDArray[np.float32]
    mean: NDArray[np.float32]
    language: str | None = None


async def write_index(
    connection: Connection,
    organization_id: UUID,
    *,
    space: Space,
    documents: Sequence[DocumentToIndex],
    apart: bool = True,
) -> set[UUID]:
    """Replace documents' entries in a space, and return which; searches see them from the commit. Left out: unchanged
    chunks, undesired versions, replaced spaces, and of several documents the locked ones. Vectors lie `apart` from
    their chunks, or as releases before expect them. The transaction is READ COMMITTED."""
    texts = [chunk.text for document in documents for chunk in document.chunks]
    weighed = await _compute(texts, _weigh, documents, default=space.language)
    locked = await queries.lock_to_write(
        connection,
        organization_id,
        space_id=space.space_id,
        document_ids=[document.document_id for document in documents],
    )
    wanted = [each for each in weighed if each.is_wanted(locked.get(each.document.document_id))]
    for each in wanted:
        entry = IndexEntry(organization_id, space.space_id, each.document.document_id, space.dimensions)
        if locked[entry.document_id].chunk_count:
            each.before = await queries.list_chunks(connection, entry)
            if len(each.before) > len(each.document.chunks):
                await queries.truncate_entry(connection, entry, chunk_count=len(each.document.chunks))
    texts = [text for each in wanted for text in each.texts]
    changes = await _compute(
        texts, lambda: [_change(each, locked[each.document.document_id], apart=apart) for each in wanted]
    )
    place: dict[str, Any] = {"space_id": space.space_id, "dimensions": space.dimensions}
    await queries.write_words(connection, organization_id, **place, changes=[words for words, _ in changes])
    await queries.write_vectors(
        connection,
        organization_id,
        **place,
        changes=[vectors for _, vectors in changes],
        forms=RULES if apart else FORMS,
    )
    return {words.document_id for words, _ in changes}


@dataclass(slots=True)
class _Weighed:
    document: DocumentToIndex
    terms: Sequence[Mapping[int, float]]
    before: Sequence[IndexedChunk] = ()

    @property
    def texts(self) -> list[str]:
        return [chunk.text for chunk in (*self.document.chunks, *self.before)]

    def is_wanted(self, locked: LockedEntry | None) -> bool:
        return locked is not None and locked.version == self.document.version

    def row(self, number: int, *, apart: bool) -> ChunkRow:
        chunk = self.document.chunks[number]
        return ChunkRow(
            chunk_no=number,
            chunk_id=uuid7(),
            text=chunk.text,
            text_hash=chunk.hash,
            terms=as_sparsevec(self.terms[number]),
            embedding=None if apart else as_vector(self.document.embeddings[number]),
            place=chunk.place,
        )


def _weigh(documents: Sequence[DocumentToIndex], *, default: str) -> list[_Weighed]:
    stemmed = partial(stemming_of, default=default)
    return [
        _Weighed(
            each, weigh_chunks([chunk.text for chunk in each.chunks], title=each.title, stemming=stemmed(each.language))
        )
        for each in documents
    ]


def _change(weighed: _Weighed, locked: LockedEntry, *, apart: bool) -> tuple[WordsChange, VectorsChange]:
    document, terms = weighed.document, weighed.terms
    known = {row.chunk_no: row for row in weighed.before}
    written = [
        number
        for number, chunk in enumerate(document.chunks)
        if number not in known
        or known[number].is_inside == apart
        or not _is_unchanged(known[number], chunk, terms[number])
    ]
    gone = [number for number in known if number >= len(document.chunks)]
    replaced = [read_sparsevec(known[number].terms) for number in (*written, *gone) if number in known]
    touched = {number // CHUNKS_PER_PAGE for number in (*written, *gone)}
    pages = enumerate(pages_of(binary_codes(document.embeddings, document.mean)))
    deltas = count_deltas(added=[terms[number] for number in written], removed=replaced)
    _count_chunks(deltas, document.language, len(document.chunks))
    _count_chunks(deltas, locked.language, -len(weighed.before))
    own = document.document_id, locked.access_class
    rows = [weighed.row(number, apart=apart) for number in written]
    vectors = {number: as_vector(document.embeddings[number]) for number in written} if apart else {}
    touched_pages = {number: page for number, page in pages if number in touched}
    return (
        WordsChange(*own, chunk_count=len(document.chunks), language=document.language, rows=rows, deltas=deltas),
        VectorsChange(*own, version=document.version, vectors=vectors, pages=touched_pages),
    )


def title_of(name: str, title: str) -> str:
    """Return the title that a document's chunks are found by: its name, and the title of its contents if another."""
    return title if title == name else f"{name} {title}"


async def remove_from_space(
    connection: Connection, organization_id: UUID, *, space_id: int, document_ids: Collection[UUID]
) -> set[UUID]:
    """Remove documents from a space and its replacement; return those that were in it."""
    return await _remove(connection, organization_id, document_ids, space_id=space_id)


async def remove_everywhere(connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID]) -> None:
    await _remove(connection, organization_id, document_ids)


async def fold_statistics(connection: Connection, organization_id: UUID) -> int:
    """Fold some deltas of term statistics, at any time, and return their number: 0 when none are left."""
    if not await try_lock_statistics(connection, organization_id):
        return 0
    folded = await fold_deltas(connection, organization_id, limit=FOLDED_AT_ONCE)
    for space_id, terms in folded.unused.items():
        await delete_unused_terms(connection, organization_id, space_id=space_id, terms=terms)
    return folded.deltas


async def _compute(
    texts: Sequence[str], work: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Call `work` with these texts: directly when they are short, else in a thread, so that other requests go on."""
    if len(texts) <= FEW_CHUNKS and sum(map(len, texts)) <= FEW_CHARACTERS:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)


def _is_unchanged(before: IndexedChunk, chunk: ChunkToIndex, terms: Mapping[int, float]) -> bool:
    """Return whether a row needn't be written again; one that alone moved is, with the vector that it had."""
    if before.text_hash != chunk.hash or before.text != chunk.text or before.place != chunk.place:
        return False
    known = read_sparsevec(before.terms)
    return known.keys() == terms.keys() and all(abs(known[term] - weight) < 1e-6 for term, weight in terms.items())


async def _remove(
    connection: Connection, organization_id: UUID, document_ids: Collection[UUID], *, space_id: int | None = None
) -> set[UUID]:
    await lock_objects(connection, organization_id, object_ids=document_ids)
    entries = await queries.lock_entries(connection, organization_id, document_ids=document_ids, space_id=space_id)
    await queries.remove_entries(connection, organization_id, entries=entries)
    return {entry.document_id for entry in entries}


def count_deltas(*, added: Sequence[Mapping[int, float]], removed: Sequence[Mapping[int, float]]) -> Counter[int]:
    deltas = Counter({TOTAL_TERM: len(added) - len(removed)})
    for terms in added:
        deltas.update(terms.keys())
    for terms in removed:
        deltas.subtract(terms.keys())
    return deltas


def _count_chunks(deltas: Counter[int], language: str | None, number: int) -> None:
    """Count chunks by their stemming among the terms; English ones, and those of a language not told, nowhere."""
    term = TERMS_OF_STEMMINGS.get(stemming_of(language, default=ENGLISH))
    if term is not None:
        deltas[term] += number
