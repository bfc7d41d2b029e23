"""SQL of the backlog. A future `claimed_until` is a claim or a pause; a past value starts the wait (oldest first)."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import IndexingStatus
from service.index.ingestion.pace import Backlog
from service.index.ingestion.turns import LARGE_BYTES, Lane
from service.index.progress import FAILED_AFTER, Half
from service.index.queries import LACKING, is_pending, lacks_meaning, lacks_words
from service.index.spaces.queries import is_searched
from service.platform.sql import in_array, matches, rows_of
from service.schema.catalog import caller_chunks, document_contents, document_versions
from service.schema.indexing import space_documents, spaces

# How long the work of a dead worker stays claimed; a living worker renews its claim well before.
LEASE = timedelta(seconds=30)
# A new request resets this state of earlier work.
FROM_THE_START = {"attempts": 0, "error": None, "chunks_embedded": 0, "chunks_expected": 0}
FIRST_RETRY = timedelta(seconds=10)
# Claims read an index with the oldest entries first and NULL last.
FIRST_IN_LINE = datetime.fromtimestamp(0, UTC)
LONGEST_RETRY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PendingWork:
    """A claimed document, the spaces to index it in, and the bytes of its packed text."""

    document_id: UUID
    space_ids: tuple[int, ...]
    packed_bytes: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Chunks with vectors of a document in a space, and all; `both`: both halves are being written, as in a rebuild."""

    document_id: UUID
    space_id: int
    chunks_embedded: int
    chunks_expected: int
    both: bool


def _searched_spaces(organization_id: UUID) -> Any:
    return sa.select(spaces.c.space_id).where(spaces.c.organization_id == organization_id, is_searched())


def _lacks(half: Half | None) -> sa.ColumnElement[bool]:
    return LACKING[half]() if half else is_pending()


def _with_texts() -> sa.FromClause:
    batch = sa.and_(
        caller_chunks.c.document_id == space_documents.c.document_id,
        caller_chunks.c.space_id == space_documents.c.space_id,
    )
    contents = document_contents.c.document_id == space_documents.c.document_id
    return space_documents.outerjoin(document_contents, contents).outerjoin(caller_chunks, batch)


def _packed_bytes() -> sa.ColumnElement[int]:
    chunks, blocks = sa.func.octet_length(caller_chunks.c.chunks), sa.func.octet_length(document_contents.c.blocks)
    return sa.func.coalesce(sa.case((space_documents.c.caller_chunks, chunks), else_=blocks), 0)


def has_large_text(
    organization_id: sa.ColumnElement[UUID], document_id: sa.ColumnElement[UUID]
) -> sa.ColumnElement[bool]:
    contents = document_contents.c
    size = sa.select(sa.func.octet_length(contents.blocks)).where(
        contents.organization_id == organization_id, contents.document_id == document_id
    )
    return sa.func.coalesce(size.scalar_subquery() >= LARGE_BYTES, sa.false())


def select_is_large() -> sa.ColumnElement[bool]:
    """Select the lane of an entry by the document's current text; for a caller's chunks, by their size on arrival."""
    entry = space_documents.c
    return sa.case(
        (entry.caller_chunks, entry.is_large), else_=has_large_text(entry.organization_id, entry.document_id)
    )


def _is_free() -> sa.ColumnElement[bool]:
    return sa.or_(space_documents.c.claimed_until.is_(None), space_documents.c.claimed_until < sa.func.now())


async def has_waiting(connection: Connection, organization_id: UUID, *, half: Half) -> bool:
    """Check for unclaimed documents of an organization that lack a half of their index in a searched space."""
    searched = space_documents.c.space_id.in_(_searched_spaces(organization_id))
    lacking = LACKING[half]()
    waiting = sa.exists().where(space_documents.c.organization_id == organization_id, searched, lacking, _is_free())
    return bool((await connection.execute(sa.select(waiting))).scalar())


_KEYS = (space_documents.c.document_id, space_documents.c.space_id)


async def claim_pending(
    connection: Connection,
    organization_id: UUID,
    *,
    limit: int,
    space_id: int | None = None,
    lane: Lane | None = None,
    half: Half | None = None,
    newest_first: bool = False,
    document_ids: Collection[UUID] | None = None,
) -> list[PendingWork]:
    """Claim `limit` unclaimed documents without a `half`, or anything, of a lane, of all in `space_id`, or among
    `document_ids`; skips locked rows. Small texts go before large texts, old before new unless `newest_first`."""
    entry = space_documents.c
    spaces = _searched_spaces(organization_id) if space_id is None else [space_id]
    since = entry.claimed_until.desc() if newest_first else entry.claimed_until
    waiting = (
        sa.select(*_KEYS, _packed_bytes().label("packed_bytes"))
        .select_from(_with_texts())
        .where(entry.organization_id == organization_id, entry.space_id.in_(spaces), _lacks(half), _is_free())
        # The order of the partial index, so that a claim reads the first entries without sorting.
        .order_by(*((since,) if half is Half.MEANING else (entry.is_large, since)))
    )
    if lane is not None:
        waiting = waiting.where(entry.is_large == (lane is Lane.LARGE))
    if document_ids is not None:
        waiting = waiting.where(in_array(entry.document_id, list(document_ids)))
    free = waiting.limit(limit).with_for_update(of=space_documents, skip_locked=True).cte("free")
    claim = sa.update(space_documents).where(*(key == free.c[key.name] for key in _KEYS))
    statement = claim.values(claimed_until=sa.func.now() + LEASE).returning(*_KEYS, free.c.packed_bytes)
    claimed: dict[UUID, list[int]] = {}
    sizes: dict[UUID, int] = {}
    for row in await connection.execute(statement):
        claimed.setdefault(row.document_id, []).append(row.space_id)
        sizes[row.document_id] = max(sizes.get(row.document_id, 0), row.packed_bytes)
    return [PendingWork(each, tuple(sorted(there)), sizes[each]) for each, there in claimed.items()]


async def renew_claims(
    connection: Connection, organization_id: UUID, *, progress: Sequence[Progress], half: Half
) -> None:
    """Renew claims on documents without this half, or without either if both are being written, and record progress. A
    locked row is skipped: the locking transaction ends or takes over the work."""
    counts = space_documents.c.chunks_embedded, space_documents.c.chunks_expected
    told = rows_of((*_KEYS, *counts, sa.column("both", sa.Boolean())), [asdict(each) for each in progress])
    free = (
        sa.select(*_KEYS, told.c.chunks_embedded, told.c.chunks_expected)
        .join(told, sa.and_(*(key == told.c[key.name] for key in _KEYS)))
        .where(space_documents.c.organization_id == organization_id)
        .where(sa.case((told.c.both, is_pending()), else_=LACKING[half]()))
        .with_for_update(of=space_documents, skip_locked=True)
        .cte("free")
    )
    renewed = sa.update(space_documents).where(*(key == free.c[key.name] for key in _KEYS))
    known = {count.name: free.c[count.name] for count in counts}
    await connection.execute(renewed.values(claimed_until=sa.func.now() + LEASE, **known))


async def note_failure(
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_ids: Sequence[int],
    half: Half | None,
    error: str,
) -> None:
    """Record why indexing a missing half (None: both) failed; retry after a growing pause of at most an hour."""
    wait = sa.func.least(LONGEST_RETRY, FIRST_RETRY * sa.func.power(2, sa.func.least(space_documents.c.attempts, 20)))
    of_document = matches(space_documents, organization_id, document_id=document_id)
    failed = sa.update(space_documents).where(of_document, space_documents.c.space_id.in_(space_ids), _lacks(half))
    attempts = space_documents.c.attempts + 1
    await connection.execute(failed.values(claimed_until=sa.func.now() + wait, attempts=attempts, error=error))


async def release_claims(connection: Connection, organization_id: UUID) -> None:
    """Release every claim, at a start without any other indexing process; released work is first in line."""
    is_claimed = sa.or_(space_documents.c.claimed_until.is_(None), space_documents.c.claimed_until > sa.func.now())
    claimed = sa.and_(space_documents.c.organization_id == organization_id, is_pending(), is_claimed)
    # Vectors are made for the newest documents first.
    first = sa.case((lacks_meaning(), sa.func.now()), else_=sa.literal(FIRST_IN_LINE, sa.DateTime(timezone=True)))
    await connection.execute(sa.update(space_documents).where(claimed).values(claimed_until=first))


class EntryState(NamedTuple):
    """Whether an entry is pending, whether the index lacks its words, and the number of indexed chunks."""

    is_pending: bool
    lacks_words: bool
    chunk_count: int


async def list_pending(
    connection: Connection, organization_id: UUID, *, document_ids: Sequence[UUID]
) -> dict[tuple[UUID, int], EntryState]:
    """Return the state of documents' entries, by document and space; for a replaced space, the replacement's state."""
    successor = sa.func.coalesce(spaces.c.replaced_by_space_id, spaces.c.space_id)
    statement = (
        sa.select(
            space_documents.c.document_id,
            spaces.c.space_id,
            is_pending().label("is_pending"),
            lacks_words().label("lacks_words"),
            space_documents.c.chunk_count,
        )
        .join(spaces, successor == space_documents.c.space_id)
        .where(
            space_documents.c.organization_id == organization_id,
            spaces.c.organization_id == organization_id,
            in_array(space_documents.c.document_id, document_ids),
        )
    )
    rows = await connection.execute(statement)
    return {(document_id, space_id): EntryState(*state) for document_id, space_id, *state in rows}


async def measure_backlog(connection: Connection, organization_id: UUID, *, half: Half | None = None) -> Backlog:
    """Measure an organization's work without a half, or anything, in searched spaces, except after recent failures."""
    entries, is_cut = space_documents.c, space_documents.c.chunks_expected > 0
    left = sa.func.greatest(entries.chunks_expected - entries.chunks_embedded, 0)
    statement = (
        sa.select(
            sa.func.count(entries.document_id.distinct()).label("documents"),
            sa.func.coalesce(sa.func.sum(sa.case((is_cut, 0), else_=_packed_bytes())), 0).label("packed_bytes"),
            sa.func.coalesce(sa.func.sum(sa.case((is_cut, left), else_=0)), 0).label("chunks"),
        )
        .select_from(_with_texts())
        .where(
            entries.organization_id == organization_id,
            entries.space_id.in_(_searched_spaces(organization_id)),
            _lacks(half),
            sa.or_(entries.attempts == 0, entries.claimed_until.is_(None), entries.claimed_until < sa.func.now()),
        )
    )
    row = (await connection.execute(statement)).one()
    return Backlog(documents=row.documents, packed_bytes=int(row.packed_bytes), chunks=int(row.chunks))


def _text_entries(organization_id: UUID, document_id: UUID) -> sa.ColumnElement[bool]:
    """Select a document's entries in existing spaces, except entries with a caller's chunks."""
    existing = sa.select(spaces.c.space_id).where(
        spaces.c.organization_id == organization_id, spaces.c.retired_at.is_(None)
    )
    of_document = matches(space_documents, organization_id, document_id=document_id)
    return sa.and_(of_document, space_documents.c.space_id.in_(existing), ~space_documents.c.caller_chunks)


async def read_text_status(connection: Connection, organization_id: UUID, *, document_id: UUID) -> IndexingStatus:
    """Return the status of a document's text over all its spaces: RUNNING if running anywhere, then FAILED."""
    entry = space_documents.c
    statement = sa.select(sa.func.min(entry.attempts)).where(_text_entries(organization_id, document_id), is_pending())
    attempts = (await connection.execute(statement)).scalar()
    if attempts is None:
        return IndexingStatus.DONE
    return IndexingStatus.FAILED if attempts >= FAILED_AFTER else IndexingStatus.RUNNING


async def request_again(connection: Connection, organization_id: UUID, *, document_id: UUID, version: int) -> None:
    """Request a version again after a changed text, in every space of the same bytes; old chunks stay until then."""
    own, others = document_versions.c, document_versions.alias("same")
    same = others.c
    of_document = own.organization_id == organization_id, own.document_id == document_id
    equal = sa.and_(same.document_id == own.document_id, same.file_sha256 == own.file_sha256)
    versions = sa.select(same.version).join_from(document_versions, others, equal)
    await connection.execute(
        sa.update(space_documents)
        .where(
            _text_entries(organization_id, document_id),
            space_documents.c.version.in_(versions.where(*of_document, own.version == version)),
        )
        .values(
            version=version,
            indexed_version=None,
            words_version=None,
            is_large=select_is_large(),
            claimed_until=sa.func.now(),
            **FROM_THE_START,
        )
    )
