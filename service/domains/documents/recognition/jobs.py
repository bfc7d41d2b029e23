"""The job for adding the text of scanned pages and pictures to a document. The job reads a few pages, saves each at
once, then queues the rest behind other jobs. So a kill costs a page, and a book delays no other document."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import IndexingStatus
from carrel.wire.formats import NotReadKind
from service.domains.documents.recognition import queries
from service.domains.documents.recognition.queries import PageText, WaitingPage
from service.identity.queries import organization_ids
from service.index.ingestion.backlog.queries import read_text_status, request_again
from service.index.ingestion.turns import Lane
from service.permissions.queries import lock_resource
from service.platform.background import for_each_organization
from service.platform.errors import ServiceError
from service.platform.identifiers import NIL
from service.platform.logs import logger
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import DeadlyJobError, refuse_deadly
from service.text.reading import MOST_PLACES, Block, ReadingInterrupted, UnreadablePage, pack_blocks, unpack_blocks
from service.web.multipart import uploads_folder, write_stream

OCR = "ocr"
PAGES_AT_ONCE = 20
# A page fails after this many interrupted attempts; the document's other pages continue.
MOST_TRIES = 4
SWEEP_SECONDS = 600
SWEPT_AT_ONCE = 100
# Pauses while the document is being indexed; and while a file store is away, a disk is full, or processes are lacking.
LATER, AWAY = timedelta(seconds=5), timedelta(seconds=60)


async def read_pages(runtime: Runtime, *, organization_id: UUID, document_id: UUID) -> None:
    """Read a document's next pages, add their text, and queue the rest; raises while the database is away."""
    try:
        refuse_deadly()
        await _read_next_pages(runtime, organization_id, document_id)
    except DeadlyJobError as error:
        if (page := await _next_page(runtime, organization_id, document_id)) is not None:
            await _save(runtime, organization_id, document_id, page=page, error=str(error))
        pause = None
    except (ServiceError, OSError, RuntimeError) as error:
        logger.warning("recognition_waits", document_id=str(document_id), exc_info=True)
        pause = LATER if isinstance(error, ReadingInterrupted) else AWAY
    else:
        pause = None
    async with runtime.database.transaction(organization_id) as connection:
        merged = await merge_texts(connection, organization_id, document_id=document_id)
        rest = await queries.find_waiting_page(connection, organization_id, document_id=document_id)
        if rest is None and not merged.is_done:
            pause = pause or LATER
        # Waiting pages of a document whose indexing failed are read once its indexing works again.
        if rest is not None or not (merged.is_done or merged.has_failed):
            await enqueue_reading(runtime, connection, organization_id, document_id=document_id, pause=pause)
    if merged.has_text:
        runtime.indexer.note_backlog(organization_id, Lane.SMALL, Lane.LARGE)


READ_PAGES = Task("read_pages", read_pages, queue=OCR)


async def enqueue_reading(
    runtime: Runtime,
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    pause: timedelta | None = None,
) -> None:
    """Enqueue the reading of a document's scanned pages, after the document's other jobs."""
    await runtime.jobs.enqueue(
        connection,
        READ_PAGES,
        organization_id=organization_id,
        lock=_lock_of(document_id),
        pause=pause,
        document_id=document_id,
    )


async def sweep(runtime: Runtime) -> None:
    """Enqueue documents with waiting pages and no job, such as after an outage, in every organization."""

    async def sweep_organization(organization_id: UUID) -> None:
        after = NIL
        while True:
            async with runtime.database.transaction(organization_id) as connection:
                found = await queries.list_forgotten(
                    connection, organization_id, lock_prefix=_lock_of(""), after=after, limit=SWEPT_AT_ONCE
                )
                for document_id in found:
                    await enqueue_reading(runtime, connection, organization_id, document_id=document_id)
            if len(found) < SWEPT_AT_ONCE:
                return
            after = found[-1]

    await for_each_organization(await organization_ids(runtime.database), sweep_organization)


def _lock_of(document_id: UUID | str) -> str:
    return f"{OCR}-{document_id}"


async def _read_next_pages(runtime: Runtime, organization_id: UUID, document_id: UUID) -> None:
    left = PAGES_AT_ONCE
    while left and (page := await _next_page(runtime, organization_id, document_id)) is not None:
        sha256 = page.sha256
        pieces = await runtime.files.stream(sha256)
        async with write_stream(pieces, folder=uploads_folder(runtime.settings), name=sha256.hex()) as file:
            while left and page is not None and page.sha256 == sha256:
                await _read_page(runtime, organization_id, document_id, path=file.path, page=page)
                left -= 1
                page = await _next_page(runtime, organization_id, document_id)


async def _next_page(runtime: Runtime, organization_id: UUID, document_id: UUID) -> WaitingPage | None:
    async with runtime.database.transaction(organization_id, read_only=True) as connection:
        return await queries.find_waiting_page(connection, organization_id, document_id=document_id)


async def _read_page(
    runtime: Runtime, organization_id: UUID, document_id: UUID, *, path: Path, page: WaitingPage
) -> None:
    """Read a page, and save its text or error. An interruption is counted and raised, up to MOST_TRIES - 1 times."""
    blocks, error = None, None
    try:
        read = await runtime.page_reader.read(
            path, media_type=page.media_type, page=page.page, is_numbered=page.is_numbered, address=page.address
        )
        blocks = pack_blocks(replace(block, sheet=page.sheet) for block in read)
    except UnreadablePage as refusal:
        error = str(refusal)
    except ReadingInterrupted as interruption:
        times = page.interruptions + 1
        if times < MOST_TRIES:
            await _save(runtime, organization_id, document_id, page=page, interruptions=times)
            raise
        error = f"{interruption} It was tried {times} times."
    await _save(runtime, organization_id, document_id, page=page, blocks=blocks, error=error)


async def _save(runtime: Runtime, organization_id: UUID, document_id: UUID, **outcome: Any) -> None:
    async with runtime.database.transaction(organization_id) as connection:
        await queries.save_page(connection, organization_id, document_id=document_id, **outcome)


@dataclass(frozen=True, slots=True)
class Merged:
    """Whether no text of a page is left to merge, a failed index must be waited for, and the contents have changed."""

    is_done: bool
    has_failed: bool = False
    has_text: bool = False


async def merge_texts(connection: Connection, organization_id: UUID, *, document_id: UUID) -> Merged:
    """Add the read pages to the contents, and index again, unless an earlier text is being indexed or has failed."""
    own = {"document_id": document_id}
    if await lock_resource(connection, organization_id, document_id) is None:
        return Merged(is_done=True)
    status = await read_text_status(connection, organization_id, **own)
    if status is not IndexingStatus.DONE:
        return Merged(is_done=False, has_failed=status is IndexingStatus.FAILED)
    contents = await queries.read_contents(connection, organization_id, **own)
    if contents is None:
        return Merged(is_done=True)
    texts = await queries.take_texts(connection, organization_id, **own)
    unread, places = await queries.list_unread(connection, organization_id, most=MOST_PLACES, **own)
    blocks = await asyncio.to_thread(_merge, contents.blocks, texts) if texts else None
    await queries.save_contents(
        connection,
        organization_id,
        document_id=document_id,
        version=contents.version,
        blocks=blocks,
        not_read=_still_unread(contents.not_read, unread, places, pictures=sum(text.number < 0 for text in texts)),
    )
    if blocks is not None:
        await request_again(connection, organization_id, document_id=document_id, version=contents.version)
    return Merged(is_done=True, has_text=blocks is not None)


def _merge(packed: bytes, texts: Sequence[PageText]) -> bytes | None:
    """Return packed blocks with the texts of pages, by page, and of pictures, in their places; None without text."""
    unpacked = [(text.after, unpack_blocks(text.blocks)) for text in texts]
    pages = [block for after, blocks in unpacked for block in blocks if after is None]
    placed = [(after, blocks) for after, blocks in unpacked if after is not None and blocks]
    if not pages and not placed:
        return None
    merged: list[Block] = [*unpack_blocks(packed), *pages]
    if pages:
        merged.sort(key=lambda block: block.page or 0)
    return pack_blocks(_insert(merged, placed))


def _insert(blocks: Sequence[Block], placed: Sequence[tuple[int, Sequence[Block]]]) -> Iterator[Block]:
    waiting = sorted(placed, key=itemgetter(0))
    own = position = 0
    for block in blocks:
        if block.confidence is None:
            while position < len(waiting) and waiting[position][0] <= own:
                yield from waiting[position][1]
                position += 1
            own += 1
        yield block
    for _, rest in waiting[position:]:
        yield from rest


def has_unread_pages(not_read: Sequence[Mapping[str, Any]] | None) -> bool:
    return any(each["kind"] == NotReadKind.PAGE for each in not_read or ())


def _still_unread(
    not_read: Sequence[Mapping[str, Any]] | None, pages: int, places: Sequence[int], *, pictures: int
) -> Sequence[Mapping[str, Any]] | None:
    """Return the unread parts of a file: the given unread pages, and `pictures` fewer pictures than before."""
    if not_read is None:
        return None
    rest = [
        {**each, "count": each["count"] - pictures} if each["kind"] == NotReadKind.PICTURE else each
        for each in not_read
        if each["kind"] != NotReadKind.PAGE
    ]
    left = [each for each in rest if each["kind"] != NotReadKind.PICTURE or each["count"] > 0]
    unread = [{"kind": NotReadKind.PAGE, "count": pages, "where": [f"page {page}" for page in places]}]
    return [*unread, *left] if pages else left
