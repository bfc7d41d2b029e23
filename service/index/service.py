"""Index spaces, and writing documents into them. Each function that changes a document's index locks the resource
first, like changes of access. So no write restores an older access class, and no removed document returns."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.index import queries
from service.index.codes import as_vector, binary_codes, from_binary, pages_of
from service.index.spaces.queries import Space, find_catalog, insert_space
from service.index.statistics.queries import delete_unused_terms, fold_deltas, try_lock_statistics
from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import TERMS_OF_STEMMINGS, as_sparsevec, read_sparsevec, weigh_chunks
from service.permissions.queries import lock_objects
from service.platform.batches import Batch
from service.platform.database import Database
from service.platform.identifiers import uuid7
from service.schema.indexing import CHUNKS_PER_PAGE, TOTAL_TERM
from service.text.chunking import Chunk
from service.text.embedding import EmbeddingModel

FOLDED_AT_ONCE = 20_000

# Work of at most five milliseconds runs at once, because handing it to a thread takes as long.
FEW_CHUNKS = 16
FEW_CHARACTERS = 20_000

Result = TypeVar("Result")


async def read_embeddings(
    place: Database | Connection, organization_id: UUID, *, hashes: Collection[bytes], **of_document: Any
) -> dict[bytes, NDArray[np.float32]]:
    """Return the vectors of a document's texts known in any space of a model, by the texts' hashes."""
    batch = Batch()
    asked = queries.ask_embeddings(batch, organization_id, **of_document, hashes=hashes)
    await (place.read(organization_id, batch) if isinstance(place, Database) else batch.run(place))
    return {known.text_hash: from_binary(known.sent) for known in asked.rows}


async def ensure_catalog_space(connection: Connection, organization_id: UUID, *, model: EmbeddingModel) -> Space:
    while (space := await find_catalog(connection, organization_id)) is None:
        await insert_space(connection, organization_id, model=model, is_catalog=True)
    return space


async def create_space(connection: Connection, organization_id: UUID, *, model: EmbeddingModel) -> Space:
    space_id = await insert_space(connection, organization_id, model=model)
    if space_id is None:
        raise RuntimeError("A space that is no catalog can't be in conflict with another.")
    return Space(space_id, model.name, model.dimensions)


@dataclass(frozen=True, slots=True)
class DocumentToIndex:
    """A version to index; `language` in ISO 639-1 (None: not detected). Before vectors are written, each chunk has a
    vector of unit norm, and `mean` is the model's. `is_followed`: this process writes the vectors next."""

    document_id: UUID
    version: int
    title: str
    chunks: Sequence[Chunk]
    embeddings: NDArray[np.float32] | None = None
    mean: NDArray[np.float32] | None = None
    language: str | None = None
    is_followed: bool = False

    def is_wanted(self, locked: queries.LockedEntry | None) -> bool:
        return locked is not None and locked.version == self.version


async def write_index(
    connection: Connection, organization_id: UUID, *, space: Space, documents: Sequence[DocumentToIndex]
) -> set[UUID]:
    """Replace documents' entries in a space, words and vectors at once, like `write_words` and `write_vectors`."""
    written = await write_words(connection, organization_id, space=space, documents=documents)
    whole = [each for each in documents if each.document_id in written]
    return await write_vectors(connection, organization_id, space=space, documents=whole) if whole else written


async def write_words(
    connection: Connection, organization_id: UUID, *, space: Space, documents: Sequence[DocumentToIndex]
) -> set[UUID]:
    """Replace the chunks of documents in a space, and return the ids; searches see the chunks after the commit.
    Replaced chunks lose their vectors. Skipped: unchanged chunks, undesired versions, replaced spaces, and locked
    documents among several. The transaction is READ COMMITTED."""
    texts = [chunk.text for document in documents for chunk in document.chunks]
    weighed = await _compute(texts, partial(_weigh, documents, default=space.language))
    locked = await queries.lock_to_write(
        connection,
        organization_id,
        space_id=space.space_id,
        document_ids=[document.document_id for document in documents],
    )
    wanted = [each for each in weighed if each.document.is_wanted(locked.get(each.document.document_id))]
    for each in wanted:
        document = each.document
        entry = queries.IndexEntry(organization_id, space.space_id, document.document_id, space.dimensions)
        if locked[entry.document_id].chunk_count:
            each.before = await queries.list_chunks(connection, entry)
        each.written = await _compute(each.texts, each.find_written)
        if document.embeddings is None and (kept := each.find_kept()):
            of_model: dict[str, Any] = {"model": space.model, "dimensions": space.dimensions}
            known = await read_embeddings(
                connection, organization_id, document_id=entry.document_id, **of_model, hashes=set(kept.values())
            )
            each.vectors = {number: as_vector(known[key]) for number, key in kept.items() if key in known}
        if len(each.before) > len(document.chunks):
            await queries.truncate_entry(connection, entry, chunk_count=len(document.chunks))
    texts = [text for each in wanted for text in each.texts]
    changes = await _compute(texts, lambda: [_as_words(each, locked[each.document.document_id]) for each in wanted])
    await queries.write_words(
        connection, organization_id, space_id=space.space_id, dimensions=space.dimensions, changes=changes
    )
    return {change.document_id for change in changes}


async def write_vectors(
    connection: Connection, organization_id: UUID, *, space: Space, documents: Sequence[DocumentToIndex]
) -> set[UUID]:
    """Write the missing vectors and code pages of documents' chunks in a space, and return the now complete documents.
    Skips the documents skipped by `write_words`, and documents whose written chunks have different texts."""
    place: dict[str, Any] = {"space_id": space.space_id, "dimensions": space.dimensions}
    ids = [document.document_id for document in documents]
    batch, states = Batch(), {document_id: list[queries.ChunkState]() for document_id in ids}
    asked = queries.ask_states(batch, organization_id, **place, document_ids=ids)
    locked = await queries.lock_to_write(
        connection, organization_id, space_id=space.space_id, document_ids=ids, then=batch
    )
    for state in asked.rows:
        states[state.document_id].append(state)
    wanted = [
        each
        for each in documents
        if each.is_wanted(entry := locked.get(each.document_id))
        and entry is not None
        and entry.words_version == each.version
        and [state.text_hash for state in states[each.document_id]] == [chunk.hash for chunk in each.chunks]
    ]
    texts = [chunk.text for each in wanted for chunk in each.chunks]
    changes = await _compute(
        texts, lambda: [_as_vectors(each, locked[each.document_id], states[each.document_id]) for each in wanted]
    )
    await queries.write_vectors(connection, organization_id, **place, changes=changes)
    return {change.document_id for change in changes}


def _as_vectors(
    document: DocumentToIndex, locked: queries.LockedEntry, states: Sequence[queries.ChunkState]
) -> queries.VectorsChange:
    assert document.embeddings is not None  # noqa: S101 - vectors are written once they are there
    assert document.mean is not None  # noqa: S101 - as above
    missing = [state.chunk_no for state in states if not state.is_embedded]
    uncoded = {state.chunk_no // CHUNKS_PER_PAGE for state in states if not state.is_coded}
    pages = enumerate(pages_of(binary_codes(document.embeddings, document.mean)) if uncoded else ())
    return queries.VectorsChange(
        document_id=document.document_id,
        access_class=locked.access_class,
        version=document.version,
        vectors={number: as_vector(document.embeddings[number]) for number in missing},
        pages={number: page for number, page in pages if number in uncoded},
    )


@dataclass(slots=True)
class _Weighed:
    document: DocumentToIndex
    terms: Sequence[Mapping[int, float]]
    before: Sequence[queries.IndexedChunk] = ()
    written: Sequence[int] = ()
    vectors: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def texts(self) -> list[str]:
        return [chunk.text for chunk in (*self.document.chunks, *self.before)]

    def find_written(self) -> list[int]:
        """Return the numbers of the chunks to write: new, changed or moved, or with a vector in their row."""
        known = {row.chunk_no: row for row in self.before}
        return [
            number
            for number, chunk in enumerate(self.document.chunks)
            if number not in known
            or known[number].is_inside
            or not _is_unchanged(known[number], chunk, self.terms[number])
        ]

    def find_kept(self) -> dict[int, bytes]:
        """Return the hashes of written chunks already known from an earlier chunk, and so perhaps with a vector."""
        known = {row.text_hash for row in self.before}
        hashes = {number: self.document.chunks[number].hash for number in self.written}
        return {number: text_hash for number, text_hash in hashes.items() if text_hash in known}


def _weigh(documents: Sequence[DocumentToIndex], *, default: str) -> list[_Weighed]:
    stemmed = partial(stemming_of, default=default)
    return [
        _Weighed(
            each, weigh_chunks([chunk.text for chunk in each.chunks], title=each.title, stemming=stemmed(each.language))
        )
        for each in documents
    ]


def _as_words(weighed: _Weighed, locked: queries.LockedEntry) -> queries.WordsChange:
    document, terms = weighed.document, weighed.terms
    known, written = {row.chunk_no: row for row in weighed.before}, weighed.written
    gone = [number for number in known if number >= len(document.chunks)]
    replaced = [read_sparsevec(known[number].terms) for number in (*written, *gone) if number in known]
    deltas = count_deltas(added=[terms[number] for number in written], removed=replaced)
    _count_chunks(deltas, document.language, len(document.chunks))
    _count_chunks(deltas, locked.language, -len(weighed.before))
    return queries.WordsChange(
        document_id=document.document_id,
        access_class=locked.access_class,
        version=document.version,
        chunk_count=len(document.chunks),
        language=document.language,
        is_followed=document.is_followed,
        rows=[
            queries.ChunkRow(number, uuid7(), chunk.text, chunk.hash, as_sparsevec(terms[number]), chunk.place)
            for number, chunk in ((number, document.chunks[number]) for number in written)
        ],
        vectors=weighed.vectors,
        deltas=deltas,
    )


def title_of(name: str, title: str) -> str:
    """Return the title used to find a document's chunks: the name, and the contents' title if different."""
    return title if title == name else f"{name} {title}"


async def remove_entries(
    connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID], space_id: int | None = None
) -> set[UUID]:
    """Remove documents from every space, or only from a space and its replacement; return the removed documents."""
    await lock_objects(connection, organization_id, object_ids=document_ids)
    entries = await queries.lock_entries(connection, organization_id, document_ids=document_ids, space_id=space_id)
    await queries.remove_entries(connection, organization_id, entries=entries)
    return {entry.document_id for entry in entries}


async def fold_statistics(connection: Connection, organization_id: UUID) -> int:
    """Fold some deltas of term statistics, at any time; return their number, 0 when none are left."""
    if not await try_lock_statistics(connection, organization_id):
        return 0
    count, unused = await fold_deltas(connection, organization_id, limit=FOLDED_AT_ONCE)
    for space_id, terms in unused.items():
        await delete_unused_terms(connection, organization_id, space_id=space_id, terms=terms)
    return count


async def _compute(texts: Sequence[str], work: Callable[[], Result]) -> Result:
    """Call `work` with the texts: directly if short, else in a thread, to keep the event loop free."""
    is_short = len(texts) <= FEW_CHUNKS and sum(map(len, texts)) <= FEW_CHARACTERS
    return work() if is_short else await asyncio.to_thread(work)


def _is_unchanged(before: queries.IndexedChunk, chunk: Chunk, terms: Mapping[int, float]) -> bool:
    """Return whether a row is up to date. A moved chunk is not, but keeps its vector when rewritten."""
    if before.text_hash != chunk.hash or before.text != chunk.text or before.place != chunk.place:
        return False
    known = read_sparsevec(before.terms)
    return known.keys() == terms.keys() and all(abs(known[term] - weight) < 1e-6 for term, weight in terms.items())


def count_deltas(*, added: Sequence[Mapping[int, float]], removed: Sequence[Mapping[int, float]]) -> Counter[int]:
    deltas = Counter({TOTAL_TERM: len(added) - len(removed)})
    deltas.update(chain.from_iterable(added))
    deltas.subtract(chain.from_iterable(removed))
    return deltas


def _count_chunks(deltas: Counter[int], language: str | None, number: int) -> None:
    """Count chunks by stemming among the terms, except chunks in English or an undetected language."""
    term = TERMS_OF_STEMMINGS.get(stemming_of(language, default=ENGLISH))
    if term is not None:
        deltas[term] += number
