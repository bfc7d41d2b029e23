"""SQL of documents' scanned pages: waiting pages, recognized text, and merging into documents' contents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Integer, Label, Text, case, cast, column, func, literal, literal_column, select, table, update
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import RecognitionStatus, TextRecognition
from carrel.wire.formats import BY_NAME
from service.index.progress import FAILED_AFTER
from service.index.queries import is_pending
from service.platform.batches import Batch
from service.platform.sql import count_where, find_row, find_rows, get_row, matches, rows_after, update_rows
from service.schema.catalog import document_contents, document_versions, documents, scanned_pages
from service.schema.indexing import space_documents
from service.text.reading import FoundPicture

_PDF = BY_NAME["PDF"].media_type
WAITING, READ, FAILED = "WAITING", "READ", "FAILED"
# Pages to read or to merge, in the spelling of the partial index, which a parameter would not use.
_UNFINISHED = (scanned_pages.c.state == literal_column(f"'{WAITING}'")) | scanned_pages.c.blocks.is_not(None)
_FORGET = "DELETE FROM scanned_pages WHERE organization_id = $1::uuid AND document_id = $2::uuid"
_ADD = """
    INSERT INTO scanned_pages (organization_id, document_id, page, file_sha256, state, error)
    SELECT $1::uuid, $2::uuid, page, $3::bytea,
           CASE WHEN number <= $5::int THEN 'WAITING' ELSE 'FAILED' END,
           CASE WHEN number > $5::int THEN 'At most ' || $5::int || ' pages of a document are read by machine.' END
    FROM unnest($4::int[]) WITH ORDINALITY AS given (page, number)
"""

_ADD_PICTURES = """
    INSERT INTO scanned_pages (
        organization_id, document_id, page, picture_page, file_sha256, address, sheet, after, state, error
    )
    SELECT $1::uuid, $2::uuid, -number, page, $3::bytea, address, sheet, after,
           CASE WHEN number <= $8::int THEN 'WAITING' ELSE 'FAILED' END,
           CASE WHEN number > $8::int THEN 'At most ' || $8::int || ' pictures of a document are read by machine.' END
    FROM unnest($4::text[], $5::int[], $6::text[], $7::int[])
         WITH ORDINALITY AS given (address, page, sheet, after, number)
"""


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """A page to read, or a picture at an `address` on a page. Pictures have a `number` below zero."""

    number: int
    page: int
    sha256: bytes
    media_type: str
    is_numbered: bool
    address: str | None
    sheet: str | None
    interruptions: int


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's packed blocks (number below zero: a picture), and the number of the file's blocks before; None: all."""

    number: int
    after: int | None
    blocks: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """The packed blocks and number of a document's newest version, and the unread parts of the file."""

    version: int
    blocks: bytes
    not_read: list[dict[str, Any]] | None


def replace_pages(
    batch: Batch,
    organization_id: UUID,
    *,
    document_id: UUID,
    sha256: bytes,
    pages: Sequence[int],
    pictures: Sequence[FoundPicture],
    most: int,
) -> None:
    """Record a new file's scanned pages and pictures, beyond `most` of each as failed; discard earlier entries."""
    batch.tell(_FORGET, organization_id, document_id)
    if pages:
        batch.tell(_ADD, organization_id, document_id, sha256, list(pages), most)
    if pictures:
        columns = [[getattr(each, name) for each in pictures] for name in ("address", "page", "sheet", "after")]
        batch.tell(_ADD_PICTURES, organization_id, document_id, sha256, *columns, most)


def is_being_read(organization_id: UUID) -> Label[bool]:
    """Return a column that marks documents with pages to read or merge."""
    is_own = matches(scanned_pages, organization_id, document_id=documents.c.document_id)
    unfinished = select(scanned_pages.c.page).where(is_own, _UNFINISHED)
    return unfinished.correlate(documents).exists().label("is_being_read")


async def read_recognition(
    connection: Connection, organization_id: UUID, *, document_id: UUID
) -> TextRecognition | None:
    """Return the reading progress of a document's scanned pages and pictures; None without any."""
    pages = scanned_pages.c
    is_page = pages.page > 0
    counted = select(
        count_where(is_page, "pages"),
        count_where(is_page & (pages.state == READ), "pages_read"),
        count_where(is_page & (pages.state == FAILED), "pages_failed"),
        count_where(~is_page, "pictures"),
        count_where(~is_page & (pages.state == READ), "pictures_read"),
        count_where(~is_page & (pages.state == FAILED), "pictures_failed"),
        count_where(_UNFINISHED, "unfinished"),
        func.array_agg(aggregate_order_by(pages.error, is_page.desc(), func.abs(pages.page)))
        .filter(pages.state == FAILED)[1]
        .label("error"),
    ).where(matches(scanned_pages, organization_id, document_id=document_id))
    return await get_row(connection, counted, _to_recognition)


def _to_recognition(*, unfinished: int, **found: Any) -> TextRecognition | None:
    if not found["pages"] and not found["pictures"]:
        return None
    return TextRecognition(status=RecognitionStatus.RUNNING if unfinished else RecognitionStatus.DONE, **found)


async def find_waiting_page(connection: Connection, organization_id: UUID, *, document_id: UUID) -> WaitingPage | None:
    """Return a document's first waiting page, else picture, interrupted pages (`error`) last; None without any."""
    is_own = matches(scanned_pages, organization_id, document_id=document_id)
    last = select(func.max(scanned_pages.c.page)).where(is_own).scalar_subquery()
    number, on_page = scanned_pages.c.page, scanned_pages.c.picture_page
    is_picture = number < 0
    version = document_versions.c
    is_pdf = version.media_type == _PDF
    statement = (
        select(
            number.label("number"),
            case((is_picture, func.coalesce(on_page, 0)), else_=number).label("page"),
            scanned_pages.c.file_sha256.label("sha256"),
            version.media_type,
            case((is_picture, on_page.is_not(None)), else_=is_pdf | (last > 1)).label("is_numbered"),
            scanned_pages.c.address,
            scanned_pages.c.sheet,
            func.coalesce(cast(scanned_pages.c.error, Integer), 0).label("interruptions"),
        )
        .join(documents, documents.c.document_id == scanned_pages.c.document_id)
        .join(
            document_versions,
            (version.document_id == documents.c.document_id) & (version.version == documents.c.version),
        )
        .where(is_own, scanned_pages.c.state == WAITING)
        .order_by(scanned_pages.c.error.nulls_first(), is_picture, func.abs(number))
        .limit(1)
    )
    return await find_row(connection, statement, WaitingPage)


async def save_page(
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    page: WaitingPage,
    blocks: bytes | None = None,
    error: str | None = None,
    interruptions: int = 0,
) -> None:
    """Save a page's result, or its number of interruptions, unless the document has another file by now."""
    state = WAITING if interruptions else READ if error is None else FAILED
    key = {"document_id": document_id, "page": page.number, "file_sha256": page.sha256}
    values = {"state": state, "blocks": blocks, "error": str(interruptions) if interruptions else error}
    await update_rows(connection, scanned_pages, organization_id, values, **key)


async def read_contents(connection: Connection, organization_id: UUID, *, document_id: UUID) -> Contents | None:
    version = document_versions.c
    newest = (version.document_id == document_contents.c.document_id) & (version.version == document_contents.c.version)
    statement = (
        select(version.version, document_contents.c.blocks, version.not_read)
        .join(document_versions, newest)
        .where(matches(document_contents, organization_id, document_id=document_id))
    )
    return await find_row(connection, statement, Contents)


async def take_texts(connection: Connection, organization_id: UUID, *, document_id: UUID) -> list[PageText]:
    """Return the texts of pages not yet merged into the document's contents, and clear them in these rows."""
    page = scanned_pages.c
    is_kept = matches(scanned_pages, organization_id, document_id=document_id) & page.blocks.is_not(None)
    statement = select(page.page.label("number"), page.after, page.blocks).where(is_kept).order_by(func.abs(page.page))
    texts = await find_rows(connection, statement, PageText)
    if texts:
        await connection.execute(update(scanned_pages).where(is_kept).values(blocks=None))
    return texts


async def list_unread(
    connection: Connection, organization_id: UUID, *, document_id: UUID, most: int
) -> tuple[int, Sequence[int]]:
    """Return the number of a document's unread scanned pages, and the numbers of the first `most`."""
    page, state = scanned_pages.c.page, scanned_pages.c.state
    is_own = matches(scanned_pages, organization_id, document_id=document_id)
    statement = select(page, func.count().over().label("unread")).where(is_own, page > 0, state != READ)
    rows = (await connection.execute(statement.order_by(page).limit(most))).all()
    return (int(rows[0].unread) if rows else 0), [row.page for row in rows]


async def save_contents(
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    version: int,
    blocks: bytes | None,
    not_read: Sequence[Mapping[str, Any]] | None,
) -> None:
    """Replace the contents of a document's version (None: unchanged), and the unread parts of the file."""
    if blocks is not None:
        await update_rows(connection, document_contents, organization_id, {"blocks": blocks}, document_id=document_id)
    listed = {"not_read": None if not_read is None else [dict(each) for each in not_read]}
    key = {"document_id": document_id, "version": version}
    await update_rows(connection, document_versions, organization_id, listed, **key)


async def list_forgotten(
    connection: Connection, organization_id: UUID, *, lock_prefix: str, after: UUID, limit: int
) -> Sequence[UUID]:
    """List documents with pages to read or merge and no job, except documents with failed indexing."""
    pages, entry = scanned_pages.c, space_documents.c
    jobs = table("procrastinate_jobs", column("lock"), column("queue_name"), column("status"))
    job = select(jobs.c.lock).where(jobs.c.lock == literal(lock_prefix) + cast(pages.document_id, Text))
    failed = select(entry.document_id).where(
        entry.document_id == pages.document_id,
        entry.organization_id == organization_id,
        is_pending(),
        entry.attempts >= FAILED_AFTER,
    )
    # Pages of a document in the trash wait until the document is restored.
    is_own = (pages.organization_id == organization_id) & pages.document_id.in_(select(entry.document_id))
    forgotten = select(pages.document_id).distinct().where(is_own, _UNFINISHED, ~job.exists(), ~failed.exists())
    statement = rows_after(forgotten, pages.document_id, after=after, limit=limit)
    return (await connection.execute(statement)).scalars().all()
