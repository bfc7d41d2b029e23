"""From a document's text to what search reads: chunk, reuse vectors, embed what is new, write the index.

No transaction is open while a text is chunked or embedded. Whatever is wanted is recorded before the work begins
(`ingestion.queries`), so that work a crash cut off is found again. Vectors are kept with their document's work
until all of them are there; a crash costs those of the documents that were worked on.
"""

import asyncio
import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from service.index.ingestion import queries
from service.index.ingestion.backlog.queries import note_failure
from service.index.ingestion.pace import Pace
from service.index.ingestion.queries import IndexingWork
from service.index.ingestion.turns import Lane, Turn, Turns
from service.index.service import Space, stored_embeddings, write_index
from service.platform.database import Database
from service.platform.errors import Conflict, ServiceError, is_database_full
from service.platform.logs import logger
from service.text.chunking import Chunk, caller_chunks, chunk_blocks
from service.text.embedding import Embedder, Embedders
from service.text.extraction import unpack_blocks

# A document with more texts to embed gives its turn up after each slice; short ones are embedded in one go.
SLICE = 32
MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """How many chunks a document now has in a space, and how many texts had to be embedded for it."""

    chunk_count: int
    embedded_chunk_count: int


Outcomes = dict[int, IndexOutcome]
"""What came of a document in each space, by the space's id."""


class _OvertakenError(Exception):
    """Something newer is wanted: nothing of this attempt is kept."""


def pack_chunks(chunks: Sequence[str]) -> bytes:
    """Encode a caller's chunks for keeping until they are indexed."""
    return zlib.compress(json.dumps(list(chunks), ensure_ascii=False).encode(), 1)


def unpack_chunks(packed: bytes) -> list[str]:
    """Decode what `pack_chunks` encoded."""
    return cast("list[str]", json.loads(zlib.decompress(packed)))


@dataclass(slots=True)
class Parts:
    """What documents are indexed with: the connections for that, the embedders, and the turns and the pace."""

    database: Database
    embedders: Embedders
    turns: Turns = field(default_factory=Turns)
    pace: Pace = field(default_factory=Pace)


async def index_everywhere(work: "Work", space_ids: Sequence[int]) -> Outcomes | None:
    """Index a document in these spaces, in this order, while it has turns; None after a failure, which is recorded."""
    try:
        async with work.parts.turns.take(work.turn):
            return {space_id: await work.bring_up_to_date(space_id) for space_id in space_ids}
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the work stays wanted and is tried again
        if is_database_full(error):
            # No fault of the document's: taken up again when its claim has run out and there is room.
            logger.warning("indexing_waits_for_room", document_id=str(work.document_id))
            return None
        logger.exception("indexing_failed", document_id=str(work.document_id))
        reason = error.message if isinstance(error, ServiceError) else "The service failed; it will try again."
        async with work.parts.database.transaction(work.organization_id) as connection:
            await note_failure(
                connection, work.organization_id, document_id=work.document_id, space_ids=space_ids, error=reason
            )
        return None


@dataclass(slots=True)
class Work:
    """One document being indexed; how many of its texts have vectors by now, of how many.

    `known` is the work in one of the spaces when it needn't be read, because it was written a moment ago.
    """

    parts: Parts
    turn: Turn
    document_id: UUID
    known: IndexingWork | None = None
    embedded: int = 0
    expected: int = 0

    @property
    def organization_id(self) -> UUID:
        """Whose the document is."""
        return self.turn.organization_id

    async def bring_up_to_date(self, space_id: int) -> IndexOutcome:
        """Index what is wanted in a space; start again when it is overtaken by something newer meanwhile."""
        for _ in range(MOST_ATTEMPTS):
            wanted = self._take_known(space_id) or await self._read(space_id)
            if wanted is None:
                return IndexOutcome(0, 0)
            if not wanted.is_pending:
                return IndexOutcome(wanted.chunk_count, 0)
            if wanted.caller_chunks_wanted and wanted.caller_chunks is None:
                return IndexOutcome(wanted.chunk_count, 0)
            with suppress(_OvertakenError):
                return await self._attempt(wanted)
        raise Conflict("The document keeps changing faster than it can be indexed; it will be tried again.")

    def _take_known(self, space_id: int) -> IndexingWork | None:
        """Return what is known without reading, once: after it was overtaken it is known no more."""
        if self.known is None or self.known.space_id != space_id:
            return None
        known, self.known = self.known, None
        return known

    async def _read(self, space_id: int) -> IndexingWork | None:
        async with self.parts.database.transaction(self.organization_id) as connection:
            wanted = await queries.read_work(
                connection, self.organization_id, document_id=self.document_id, space_id=space_id
            )
            if wanted is not None and wanted.is_pending and not wanted.caller_chunks_wanted and wanted.behind:
                await queries.want_newest(
                    connection, self.organization_id, document_id=self.document_id, space_id=space_id
                )
        return wanted

    async def _attempt(self, wanted: IndexingWork) -> IndexOutcome:
        embedder = self.parts.embedders.get(wanted.model)
        chunks = await asyncio.to_thread(_chunks, wanted, embedder)
        self.parts.pace.learn_length(packed_bytes=wanted.packed_bytes, chunks=len(chunks))
        embeddings, embedded = await self._vectors(wanted, chunks, embedder)
        space = Space(
            space_id=wanted.space_id, model=wanted.model, dimensions=wanted.dimensions, language=wanted.language
        )
        async with self.parts.database.transaction(self.organization_id) as connection:
            written = await write_index(
                connection,
                self.organization_id,
                space=space,
                document_id=self.document_id,
                version=wanted.wanted_version if wanted.caller_chunks_wanted else wanted.contents_version,
                title=_lexical_title(wanted),
                chunks=chunks,
                embeddings=embeddings,
                mean=embedder.model.mean,
            )
            if not written or not await self._batch_taken(connection, wanted):
                raise _OvertakenError
        return IndexOutcome(len(chunks), embedded)

    async def _batch_taken(self, connection: AsyncConnection, wanted: IndexingWork) -> bool:
        if wanted.caller_batch is None:
            return True
        return await queries.take_caller_chunks(
            connection,
            self.organization_id,
            document_id=self.document_id,
            space_id=wanted.space_id,
            batch_id=wanted.caller_batch,
        )

    async def _vectors(
        self, wanted: IndexingWork, chunks: Sequence[Chunk], embedder: Embedder
    ) -> tuple[NDArray[np.float32], int]:
        """Return the chunks' vectors in order, and how many texts were embedded: equal ones once, known ones never."""
        texts = {chunk.hash: chunk.dense_text for chunk in chunks}
        vectors = await self._known(wanted, list(texts)) if wanted.indexed_before else {}
        missing = [digest for digest in texts if digest not in vectors]
        self.expected, self.embedded = len(texts), len(texts) - len(missing)
        if len(missing) > SLICE and self.turn.lane is Lane.SMALL:
            self.turn.lane = Lane.LARGE
        for start in range(0, len(missing), SLICE):
            if len(missing) > SLICE:
                await self.parts.turns.pass_on(self.turn)
            part = missing[start : start + SLICE]
            vectors.update(zip(part, await embedder.embed([texts[digest] for digest in part]), strict=True))
            self.embedded += len(part)
            self.parts.pace.count(len(part))
        rows = [vectors[chunk.hash] for chunk in chunks]
        return np.stack(rows) if rows else np.zeros((0, wanted.dimensions), np.float32), len(missing)

    async def _known(self, wanted: IndexingWork, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        async with self.parts.database.transaction(self.organization_id, read_only=True) as connection:
            return await stored_embeddings(
                connection,
                self.organization_id,
                document_id=self.document_id,
                model=wanted.model,
                dimensions=wanted.dimensions,
                hashes=hashes,
            )


def _chunks(wanted: IndexingWork, embedder: Embedder) -> list[Chunk]:
    if wanted.caller_chunks is not None:
        return caller_chunks(unpack_chunks(wanted.caller_chunks), title=wanted.title, tokenizer=embedder.tokenizer)
    return chunk_blocks(unpack_blocks(wanted.blocks), title=wanted.title, tokenizer=embedder.tokenizer)


def _lexical_title(wanted: IndexingWork) -> str:
    """The words of a document's name count even when its contents carry a title of their own."""
    return wanted.title if wanted.title == wanted.name else f"{wanted.name} {wanted.title}"
