"""From text to index: chunk and write words, reuse vectors, embed new chunks, write vectors. No transaction is open
during chunking and embedding. Wanted work is recorded first (`ingestion.queries`), so work cut off by a crash is found
again. Vectors stay with their document's work until complete; a crash costs only these vectors."""

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from service.index.ingestion import queries
from service.index.ingestion.backlog.queries import note_failure
from service.index.ingestion.pace import Pace
from service.index.ingestion.queries import IndexingWork
from service.index.ingestion.turns import TURNS, Lane, Turn, Turns
from service.index.progress import Half
from service.index.queries import ROWS_AT_ONCE
from service.index.service import DocumentToIndex, read_embeddings, title_of, write_index, write_vectors, write_words
from service.index.spaces.queries import Space
from service.index.stemming import ENGLISH
from service.platform import traces
from service.platform.background import log_trouble
from service.platform.database import Database
from service.platform.errors import Conflict, ServiceError, is_database_full
from service.platform.logs import logger
from service.text.chunking import Chunk, caller_chunks, chunk_blocks, restore_chunks
from service.text.embedding import Embedder, Embedders
from service.text.languages import is_loaded, tell_language
from service.text.reading import are_short, unpack_blocks

Place = tuple[UUID, Space]

Write = Callable[..., Awaitable[set[UUID]]]  # write documents' words, vectors, or both, as in `service.index.service`


@dataclass(eq=False, slots=True)
class Group:
    """Documents to write in a single transaction; `written` receives the ids of written documents."""

    documents: list[DocumentToIndex]
    written: "asyncio.Future[set[UUID]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    is_full: asyncio.Event = field(default_factory=asyncio.Event)

    def has_room(self, chunks: Sequence[object]) -> bool:
        return sum(len(each.chunks) for each in self.documents) + len(chunks) <= ROWS_AT_ONCE


@dataclass(slots=True)
class Writer:
    """Writes index entries in groups of all documents ready before the transaction begins. The first writer opens the
    transaction, after a moment if other documents have turns; later writers join until then. Entries the group failed
    to write are written alone."""

    database: Database
    write_part: Write = write_index
    turns: Turns = field(default_factory=Turns)
    _gathering: dict[Place, Group] = field(default_factory=dict[Place, Group])

    async def write(self, organization_id: UUID, *, space: Space, document: DocumentToIndex) -> bool:
        """Write a document's entry in a space; return False if skipped, because the version isn't desired there."""
        place = organization_id, space
        group = self._gathering.get(place)
        if group is not None and group.has_room(document.chunks):
            self._join(place, group, document)
            written = await asyncio.shield(group.written)
        else:
            group = Group([])
            self._join(place, group, document)
            written = await self._write_group(place, group)
        if document.document_id in written:
            return True
        return len(group.documents) > 1 and bool(await self._write_group(place, Group([document]), is_open=False))

    async def _write_group(self, place: Place, group: Group, *, is_open: bool = True) -> set[UUID]:
        """Write a group, open to others until its transaction begins; errors are raised only for a single document."""
        organization_id, space = place
        written = set[UUID]()
        if is_open:
            self._gathering[place] = group
        try:
            # Let ready documents join: without this pause, a server that answers at once leaves them no turn.
            await asyncio.sleep(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS[self.write_part] if is_open else 0):
                    await group.is_full.wait()
            with traces.span("write index"):
                async with self.database.transaction(organization_id) as connection:
                    self._close(place, group)
                    written = await self.write_part(connection, organization_id, space=space, documents=group.documents)
        except Exception as error:
            if len(group.documents) == 1:
                raise
            written = set[UUID]()  # also after a failed commit
            log_trouble("indexing_group_failed", error, documents=len(group.documents))
        finally:
            self._close(place, group)
            group.written.set_result(written)
        return written

    def _join(self, place: Place, group: Group, document: DocumentToIndex) -> None:
        group.documents.append(document)
        # The others keep the embedder busy.
        if len(group.documents) >= min(self.turns.count_held(place[0]), TURNS // 2):
            group.is_full.set()

    def _close(self, place: Place, group: Group) -> None:
        if self._gathering.get(place) is group:
            del self._gathering[place]


# A document with more texts gives up its turn after each slice; short documents are embedded at once.
SLICE = 32
# How long a document waits for others to be written with it: people wait for words.
GATHER_SECONDS: dict[Write, float] = {write_words: 0.02, write_vectors: 0.1, write_index: 0.1}
# A text so short is chunked sooner than a thread is found for it.
FEW_BYTES = 2048
MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """The numbers of a document's chunks and embedded texts in a space, and whether only words are found so far."""

    chunk_count: int
    embedded_chunk_count: int
    lacks_meaning: bool = False


Outcomes = dict[int, IndexOutcome]  # the outcome of a document in each space, by the space's id


class _OvertakenError(Exception):
    """A newer version was requested, so this attempt's results are discarded."""


def pack_chunks(chunks: Sequence[str]) -> bytes:
    return zlib.compress(json.dumps(list(chunks), ensure_ascii=False).encode(), 1)


def unpack_chunks(packed: bytes) -> list[str]:
    return cast("list[str]", json.loads(zlib.decompress(packed)))


@dataclass(slots=True)
class IndexingDeps:
    """The dependencies of indexing: connections, embedders, the half written here, turns, pace and writers."""

    database: Database
    embedders: Embedders
    half: Half = Half.MEANING
    turns: Turns = field(default_factory=Turns)
    pace: Pace = field(default_factory=Pace)
    writers: dict[Write, Writer] = field(init=False)

    def __post_init__(self) -> None:
        self.writers = {part: Writer(self.database, part, self.turns) for part in GATHER_SECONDS}


async def index_in_spaces(work: "Work", space_ids: Sequence[int]) -> Outcomes | None:
    """Index a document in these spaces, in order, during a turn; None after a failure, which is recorded."""
    with traces.begin("index document", {"carrel.document_id": str(work.document_id)}):
        try:
            async with work.deps.turns.take(work.turn):
                return {space_id: await work.bring_up_to_date(space_id) for space_id in space_ids}
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the work stays wanted and is tried again
            if is_database_full(error):
                # The document is not at fault: it is claimed again after its claim has expired and there is room.
                logger.warning("indexing_waits_for_room", document_id=str(work.document_id))
                return None
            traces.fail()
            log_trouble("indexing_failed", error, document_id=str(work.document_id))
            reason = error.message if isinstance(error, ServiceError) else "The service failed; it will try again."
            failed: dict[str, Any] = {"document_id": work.document_id, "half": None if work.both else work.deps.half}
            async with work.deps.database.transaction(work.organization_id) as connection:
                await note_failure(connection, work.organization_id, **failed, space_ids=space_ids, error=reason)
            return None


@dataclass(frozen=True, slots=True)
class Made:
    """The chunks of a document's version in a space, the language of its text, and the remaining work."""

    version: int
    chunks: Sequence[Chunk]
    language: str | None
    left: IndexingWork


@dataclass(slots=True)
class Work:
    """A document being indexed, with its texts and vectors so far. `known` is just written work by space, needing no
    read; `made` are chunks by space. `is_followed`: this process embeds next. `both`: words and vectors at once."""

    deps: IndexingDeps
    turn: Turn
    document_id: UUID
    known: dict[int, IndexingWork] = field(default_factory=dict[int, IndexingWork])
    embedded: int = 0
    expected: int = 0
    made: dict[int, Made] = field(default_factory=dict[int, Made])
    is_followed: bool = False
    both: bool = False

    @property
    def organization_id(self) -> UUID:
        return self.turn.organization_id

    async def bring_up_to_date(self, space_id: int) -> IndexOutcome:
        """Index the desired version in a space, or only its words; restart when a newer version is requested."""
        for attempt in range(MOST_ATTEMPTS):
            work = self.known.pop(space_id, None) or await self._read(space_id, is_whole=attempt > 0)
            if work is None:
                return IndexOutcome(0, 0)
            if not work.is_pending:
                return IndexOutcome(work.chunk_count, 0)
            if work.expects_caller_chunks and work.caller_chunks is None:
                return IndexOutcome(work.chunk_count, 0)
            if self.deps.half is Half.WORDS and not work.lacks_words:
                return IndexOutcome(work.chunk_count, 0, lacks_meaning=True)
            with suppress(_OvertakenError):
                # Write chunks again that another release cut differently.
                return await self._attempt(work if attempt == 0 else replace(work, lacks_words=True))
        raise Conflict("The document keeps changing faster than it can be indexed; it will be tried again.")

    async def _read(self, space_id: int, *, is_whole: bool) -> IndexingWork | None:
        """Read the work in a space, None if removed; request the newest version if an older version is desired."""
        of_document: dict[str, Any] = {"document_id": self.document_id, "space_id": space_id}
        async with self.deps.database.transaction(self.organization_id) as connection:
            place: dict[str, Any] = {"document_ids": [self.document_id], "space_ids": [space_id]}
            found = await queries.find_work(connection, self.organization_id, **place, is_whole=is_whole)
            work = found[0] if found else None
            if work is not None and work.is_pending and not work.expects_caller_chunks and work.is_behind:
                await queries.request_newest_version(connection, self.organization_id, **of_document)
                work = replace(work, lacks_words=True)
        return work

    async def _attempt(self, work: IndexingWork) -> IndexOutcome:
        """Chunk, embed and write, or only words in the words half. Raises _OvertakenError if a newer version came."""
        self.both = work.lacks_words and self.deps.half is Half.MEANING
        embedder = self.deps.embedders.get(work.model)
        made = await self._make(work, embedder)
        chunks, embedded = made.chunks, 0
        document = DocumentToIndex(
            document_id=self.document_id,
            version=made.version,
            title=title_of(work.name, work.title),
            chunks=chunks,
            language=made.language,
            is_followed=self.is_followed,
        )
        # Without any chunk there is nothing to embed.
        part = write_words if self.deps.half is Half.WORDS and chunks else write_index
        if part is write_words:
            self.deps.pace.count(len(chunks))
        else:
            embeddings, embedded = await self._embed_chunks(work, chunks, embedder)
            document = replace(document, embeddings=embeddings, mean=embedder.model.mean)
            part = write_index if work.lacks_words else write_vectors
        if not await self._write(work, document, part):
            raise _OvertakenError
        return IndexOutcome(len(chunks), embedded, lacks_meaning=part is write_words)

    async def _make(self, work: IndexingWork, embedder: Embedder) -> Made:
        """Return the document's chunks in a space, reusing the words half's chunks for the same version."""
        version = work.desired_version if work.expects_caller_chunks else work.contents_version
        made = None if work.lacks_words else self.made.get(work.space_id)
        if made is not None and (made.version, made.left.caller_batch) == (version, work.caller_batch):
            return made
        if work.blocks is None and work.caller_chunks is None and work.texts is None:
            raise _OvertakenError
        with traces.span("chunk") as span:
            given = work, embedder
            few = work.caller_chunks is None and work.packed_bytes <= FEW_BYTES and are_short(work.blocks or b"")
            is_short = len(work.texts) <= SLICE if work.texts else few and is_loaded()
            chunks, language = _read_text(*given) if is_short else await asyncio.to_thread(_read_text, *given)
            span.set_attribute("carrel.chunks", len(chunks))
        self.deps.pace.learn_length(packed_bytes=work.packed_bytes, chunks=len(chunks))
        made = Made(version, chunks, language, replace(work, blocks=None, texts=None, lacks_words=False))
        self.made[work.space_id] = made
        return made

    async def _write(self, work: IndexingWork, document: DocumentToIndex, part: Write) -> bool:
        """Write a document, in a group unless by a caller's chunks; False (or _OvertakenError) if no longer wanted."""
        space = Space(space_id=work.space_id, model=work.model, dimensions=work.dimensions, language=work.language)
        if work.caller_batch is None:
            return await self.deps.writers[part].write(self.organization_id, space=space, document=document)
        async with self.deps.database.transaction(self.organization_id) as connection:
            written = await part(connection, self.organization_id, space=space, documents=[document])
            batch: dict[str, Any] = {"space_id": work.space_id, "batch_id": work.caller_batch}
            # Callers' chunks are embedded as stored.
            keep = queries.lock_caller_chunks if part is write_words else queries.take_caller_chunks
            if written and await keep(connection, self.organization_id, document_id=self.document_id, **batch):
                return True
            raise _OvertakenError

    async def _embed_chunks(
        self, work: IndexingWork, chunks: Sequence[Chunk], embedder: Embedder
    ) -> tuple[NDArray[np.float32], int]:
        """Return the chunks' vectors in order, and the number of embedded texts. Known or equal texts are reused."""
        texts = {chunk.hash: chunk.dense_text for chunk in chunks}
        vectors = dict[bytes, NDArray[np.float32]]()
        if work.indexed_before:
            of_model: dict[str, Any] = {"model": work.model, "dimensions": work.dimensions, "hashes": list(texts)}
            place = self.deps.database, self.organization_id
            vectors = await read_embeddings(*place, document_id=self.document_id, **of_model)
        missing = [digest for digest in texts if digest not in vectors]
        self.expected, self.embedded = len(texts), len(texts) - len(missing)
        if len(missing) > SLICE and self.turn.lane is Lane.SMALL:
            self.turn.lane = Lane.LARGE
        for start in range(0, len(missing), SLICE):
            if len(missing) > SLICE:
                await self.deps.turns.pass_on(self.turn)
            part = missing[start : start + SLICE]
            rows = await embedder.embed([texts[digest] for digest in part], in_background=True)
            vectors.update(zip(part, rows, strict=True))
            self.embedded += len(part)
            self.deps.pace.count(len(part))
        found = [vectors[chunk.hash] for chunk in chunks]
        return np.stack(found) if found else np.zeros((0, work.dimensions), np.float32), len(missing)


def _read_text(work: IndexingWork, embedder: Embedder) -> tuple[list[Chunk], str | None]:
    """Return a document's chunks, and language if stemming needs it; chunks of written texts lack only vectors."""
    title: dict[str, Any] = {"title": work.title, "tokenizer": embedder.tokenizer}
    if work.caller_chunks is not None:
        chunks = caller_chunks(unpack_chunks(work.caller_chunks), **title)
    elif work.texts is not None:
        return restore_chunks(work.texts, **title), None
    else:
        chunks = chunk_blocks(unpack_blocks(work.blocks or b""), media_type=work.media_type, **title)
    return chunks, tell_language([chunk.text for chunk in chunks]) if work.language == ENGLISH else None
