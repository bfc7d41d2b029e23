"""From a document's text to what search reads: chunk, reuse vectors, embed what is new, write the index.

No transaction is open while a text is chunked or embedded. Whatever is wanted is recorded before the work begins
(`service.ingestion.queries`), so that work a crash cut off is found again by the sweeper.
"""

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from service.chunking import Chunk, caller_chunks, chunk_blocks
from service.embedding import Embedder
from service.errors import Conflict, ServiceError
from service.extraction import unpack_blocks
from service.indexing.service import Space, stored_embeddings, write_index
from service.ingestion import queries
from service.ingestion.queries import LEASE, IndexingWork
from service.logs import logger
from service.runtime import Runtime

# Progress of a long document is told after each slice; short ones are embedded in one go.
SLICE = 256
MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """How many chunks a document now has in a space, and how many texts had to be embedded for it."""

    chunk_count: int
    embedded_chunk_count: int


class _OvertakenError(Exception):
    """Something newer is wanted: nothing of this attempt is kept."""


def pack_chunks(chunks: Sequence[str]) -> bytes:
    """Encode a caller's chunks for keeping until they are indexed."""
    return zlib.compress(json.dumps(list(chunks), ensure_ascii=False).encode(), 1)


def unpack_chunks(packed: bytes) -> list[str]:
    """Decode what `pack_chunks` encoded."""
    return cast("list[str]", json.loads(zlib.decompress(packed)))


async def wait_indexed(
    runtime: Runtime,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_ids: Sequence[int],
    seconds: float | None,
    known: IndexingWork | None = None,
) -> dict[int, IndexOutcome] | None:
    """Index a document in these spaces, in this order; what each came to, by space.

    None when it takes longer than `seconds` (None: no limit) or has to be tried again: it goes on in the background.
    """
    finished: asyncio.Future[dict[int, IndexOutcome] | None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        outcomes = None
        try:
            outcomes = await index_everywhere(
                runtime, organization_id, document_id=document_id, space_ids=space_ids, known=known
            )
        finally:
            finished.set_result(outcomes)

    runtime.background.spawn(work())
    done, _ = await asyncio.wait({finished}, timeout=seconds)
    return finished.result() if done else None


async def index_everywhere(
    runtime: Runtime,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_ids: Sequence[int],
    known: IndexingWork | None = None,
) -> dict[int, IndexOutcome] | None:
    """Index a document in these spaces while renewing the claim on them; None after a failure, which is recorded.

    `known` is the work in one of the spaces when it needn't be read, because it was written a moment ago.
    """
    work = _Work(runtime, organization_id, document_id, known)
    try:
        async with _claim_kept(work, space_ids):
            return {space_id: await work.bring_up_to_date(space_id) for space_id in space_ids}
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the work stays wanted and is tried again
        logger.exception("indexing_failed", document_id=str(document_id))
        reason = error.message if isinstance(error, ServiceError) else "The service failed; it will try again."
        async with runtime.database.transaction(organization_id) as connection:
            await queries.note_failure(
                connection, organization_id, document_id=document_id, space_ids=space_ids, error=reason
            )
        return None


@asynccontextmanager
async def _claim_kept(work: "_Work", space_ids: Sequence[int]) -> AsyncGenerator[None]:
    """Renew the claim, and tell the progress, every third of a lease while the block runs."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            with suppress(Exception):  # a missed renewal costs at most a second worker on the same document
                await work.tell_progress(space_ids)

    keeper = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeper.cancel()


@dataclass(slots=True)
class _Work:
    """One document being indexed; how many of its texts have vectors by now, of how many."""

    runtime: Runtime
    organization_id: UUID
    document_id: UUID
    known: IndexingWork | None = None
    embedded: int = 0
    expected: int = 0

    async def bring_up_to_date(self, space_id: int) -> IndexOutcome:
        """Index what is wanted in a space; start again when it is overtaken by something newer meanwhile."""
        for _ in range(MOST_ATTEMPTS):
            wanted = self._take_known(space_id) or await self._read(space_id)
            if wanted is None:
                return IndexOutcome(0, 0)
            if wanted.caller_chunks_wanted and wanted.caller_chunks is None:
                return IndexOutcome(wanted.chunk_count, 0)
            with suppress(_OvertakenError):
                return await self._attempt(wanted)
        raise Conflict("The document keeps changing faster than it can be indexed; it will be tried again.")

    async def tell_progress(self, space_ids: Sequence[int]) -> None:
        """Renew the claim and write down how far this is."""
        async with self.runtime.database.transaction(self.organization_id) as connection:
            await queries.note_progress(
                connection,
                self.organization_id,
                document_id=self.document_id,
                space_ids=space_ids,
                embedded=self.embedded,
                expected=self.expected,
            )

    def _take_known(self, space_id: int) -> IndexingWork | None:
        """Return what is known without reading, once: after it was overtaken it is known no more."""
        if self.known is None or self.known.space_id != space_id:
            return None
        known, self.known = self.known, None
        return known

    async def _read(self, space_id: int) -> IndexingWork | None:
        async with self.runtime.database.transaction(self.organization_id) as connection:
            wanted = await queries.read_work(
                connection, self.organization_id, document_id=self.document_id, space_id=space_id
            )
            if wanted is not None and not wanted.caller_chunks_wanted and wanted.behind:
                await queries.want_newest(
                    connection, self.organization_id, document_id=self.document_id, space_id=space_id
                )
        return wanted

    async def _attempt(self, wanted: IndexingWork) -> IndexOutcome:
        embedder = self.runtime.embedders.get(wanted.model)
        chunks = await asyncio.to_thread(_chunks, wanted, embedder)
        embeddings, embedded = await self._vectors(wanted, chunks, embedder)
        space = Space(
            space_id=wanted.space_id, model=wanted.model, dimensions=wanted.dimensions, language=wanted.language
        )
        async with self.runtime.database.transaction(self.organization_id) as connection:
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
        for start in range(0, len(missing), SLICE):
            part = missing[start : start + SLICE]
            vectors.update(zip(part, await embedder.embed([texts[digest] for digest in part]), strict=True))
            self.embedded += len(part)
        rows = [vectors[chunk.hash] for chunk in chunks]
        return np.stack(rows) if rows else np.zeros((0, wanted.dimensions), np.float32), len(missing)

    async def _known(self, wanted: IndexingWork, hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        async with self.runtime.database.transaction(self.organization_id, read_only=True) as connection:
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
