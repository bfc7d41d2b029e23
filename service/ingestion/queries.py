"""Every statement about what is to be indexed: who wants it, who works on it, and how far it is.

The queue is the difference between `version` and `indexed_version` of a document in a space; there is no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, Self
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Integer,
    LargeBinary,
    Select,
    Uuid,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.tables import document_contents, documents
from service.collections.tables import caller_chunks
from service.indexing.queries import is_searched, stands_for
from service.indexing.tables import space_documents, spaces
from service.sql import ORGANIZATION, AnyRow, given, giving

# How long a worker that died keeps its work from the others; a living one renews its claim well before.
LEASE = timedelta(seconds=30)
FIRST_RETRY = timedelta(seconds=10)
LONGEST_RETRY = timedelta(hours=1)

# What is forgotten of earlier work when something new is wanted.
FROM_THE_START = {"attempts": 0, "error": None, "chunks_embedded": 0, "chunks_expected": 0}


class SpaceOfWork(Protocol):
    """What indexing has to know of a space; `service.indexing.service.Space` has it."""

    @property
    def space_id(self) -> int:
        """Its id."""
        ...

    @property
    def model(self) -> str:
        """Its embedding model's name."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    @property
    def language(self) -> str:
        """The language of its terms."""
        ...


@dataclass(frozen=True, slots=True)
class IndexingWork:
    """What indexing one document in one space starts from.

    `title` stands in the embedding input and stays with the contents; `name` is what the document is called now.
    `caller_batch` and `caller_chunks` are set when a caller sent the chunks. `indexed_before`: some space holds chunks
    of this document, so that vectors may be there to reuse.
    """

    space_id: int
    model: str
    dimensions: int
    language: str
    wanted_version: int
    contents_version: int
    name: str
    title: str
    blocks: bytes
    caller_batch: UUID | None
    caller_chunks: bytes | None
    caller_chunks_wanted: bool
    chunk_count: int
    indexed_before: bool

    @classmethod
    def of_contents(
        cls, space: SpaceOfWork, *, version: int, name: str, title: str, blocks: bytes, indexed_before: bool
    ) -> Self:
        """Return the work on contents that are at hand, so that they needn't be read again."""
        return cls(
            space_id=space.space_id,
            model=space.model,
            dimensions=space.dimensions,
            language=space.language,
            wanted_version=version,
            contents_version=version,
            name=name,
            title=title,
            blocks=blocks,
            caller_batch=None,
            caller_chunks=None,
            caller_chunks_wanted=False,
            chunk_count=0,
            indexed_before=indexed_before,
        )

    @property
    def behind(self) -> bool:
        """Whether an older version is wanted than the one whose text is kept."""
        return self.wanted_version < self.contents_version


@dataclass(frozen=True, slots=True)
class PendingWork:
    """A document that a sweep has claimed, and the spaces it is to be indexed in."""

    document_id: UUID
    space_ids: tuple[int, ...]


def _own(organization_id: UUID, document_id: UUID, space_id: int) -> ColumnElement[bool]:
    return and_(
        space_documents.c.organization_id == organization_id,
        space_documents.c.document_id == document_id,
        space_documents.c.space_id == space_id,
    )


def _pending() -> ColumnElement[bool]:
    return space_documents.c.indexed_version.is_distinct_from(space_documents.c.version)


def _pending_in(organization_id: UUID, document_id: UUID, space_ids: Sequence[int]) -> ColumnElement[bool]:
    return and_(
        space_documents.c.organization_id == organization_id,
        space_documents.c.document_id == document_id,
        space_documents.c.space_id.in_(space_ids),
        _pending(),
    )


def _claimed(searched: ColumnElement[bool]) -> ColumnElement[Any]:
    """Until when new work is claimed: at once by whoever wants it done, but not where nobody searches yet."""
    return case((searched, func.now() + LEASE), else_=func.now())


def _wanting(*, collections_too: bool) -> Select[*tuple[Any, ...]]:
    wanted = space_documents.c
    version, own = given(wanted.version), given(wanted.document_id)
    is_catalog = and_(spaces.c.organization_id == ORGANIZATION, spaces.c.is_catalog)
    catalog_id = select(spaces.c.space_id).where(is_catalog).scalar_subquery()
    # The catalog's space and the one that is built to replace it, as they are with the lock held: whoever puts one in
    # the other's place waits for this, or this for them.
    homes = (
        select(spaces)
        .where(
            spaces.c.organization_id == ORGANIZATION,
            spaces.c.retired_at.is_(None),
            or_(spaces.c.is_catalog, spaces.c.replaces_space_id == catalog_id),
        )
        .order_by(spaces.c.space_id)
        .with_for_update(key_share=True, read=True)
        .cte("homes")
    )
    new = insert(space_documents).from_select(
        ["document_id", "space_id", "organization_id", "version", "claimed_until"],
        select(own, homes.c.space_id, ORGANIZATION, version, _claimed(homes.c.is_catalog)),
    )
    replaced = {name: new.excluded[name] for name in ("version", "claimed_until")} | FROM_THE_START
    catalog = new.on_conflict_do_update(index_elements=[wanted.document_id, wanted.space_id], set_=replaced).cte(
        "catalog"
    )
    elsewhere = (
        update(space_documents)
        .where(
            wanted.organization_id == ORGANIZATION,
            wanted.document_id == own,
            spaces.c.space_id == wanted.space_id,
            ~spaces.c.is_catalog,
            spaces.c.retired_at.is_(None),
            spaces.c.replaces_space_id.is_distinct_from(catalog_id),
            ~wanted.caller_chunks,
            true() if collections_too else _pending(),
        )
        .values(version=version, claimed_until=_claimed(is_searched()), **FROM_THE_START)
        .returning(wanted.space_id)
        .cte("elsewhere")
    )
    both = union_all(
        select(homes).where(homes.c.is_catalog),
        select(spaces).join(elsewhere, elsewhere.c.space_id == spaces.c.space_id).where(is_searched()),
    ).subquery()
    return select(both).add_cte(catalog).order_by(both.c.is_catalog.desc(), both.c.space_id)


_WANT_EVERYWHERE = {collections_too: _wanting(collections_too=collections_too) for collections_too in (False, True)}


async def want_everywhere(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, version: int, collections_too: bool
) -> Sequence[AnyRow]:
    """Want a version in the catalog and, with `collections_too`, wherever else the document is; claim the work.

    A collection that is still waiting for an older version waits for this one instead: the older text is gone. Chunks
    a caller made stay as they are. Returns the spaces to index in at once, the catalog's first; no catalog's when there
    is none, or another space took its place this moment. Spaces that are built to replace others want it too, later.
    """
    parameters = giving(organization_id, document_id=document_id, version=version)
    return (await connection.execute(_WANT_EVERYWHERE[collections_too], parameters)).all()


async def want_in_space(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_id: int,
    version: int,
    custom_metadata: Mapping[str, str],
    from_caller: bool = False,
) -> None:
    """Want a version of a document in a collection's space, with this metadata there; claim the work.

    A space that is built to replace it wants the same, later. `from_caller`: the chunks are the caller's; they count as
    not yet indexed, whatever was there.
    """
    values = {
        "version": literal(version, Integer()),
        "custom_metadata": literal(dict(custom_metadata), JSONB()),
        "caller_chunks": literal(from_caller),
        "claimed_until": _claimed(spaces.c.space_id == space_id),
    }
    new = insert(space_documents).from_select(
        ["document_id", "space_id", "organization_id", *values],
        select(literal(document_id, Uuid()), spaces.c.space_id, spaces.c.organization_id, *values.values())
        .where(spaces.c.organization_id == organization_id, stands_for(space_id))
        .order_by(spaces.c.space_id),
    )
    changed = {name: new.excluded[name] for name in values} | FROM_THE_START
    if from_caller:
        changed["indexed_version"] = None
    keys = [space_documents.c.document_id, space_documents.c.space_id]
    await connection.execute(new.on_conflict_do_update(index_elements=keys, set_=changed))


async def keep_caller_chunks(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_id: int,
    batch_id: UUID,
    chunks: bytes,
) -> None:
    """Keep the chunks a caller sent until they are indexed; they take the place of ones that still wait.

    For the space, and for the one that is built to replace it.
    """
    new = insert(caller_chunks).from_select(
        ["document_id", "space_id", "organization_id", "batch_id", "chunks"],
        select(
            literal(document_id, Uuid()),
            spaces.c.space_id,
            spaces.c.organization_id,
            literal(batch_id, Uuid()),
            literal(chunks, LargeBinary()),
        )
        .where(spaces.c.organization_id == organization_id, stands_for(space_id))
        .order_by(spaces.c.space_id),
    )
    keys = [caller_chunks.c.document_id, caller_chunks.c.space_id]
    replaced = {"batch_id": new.excluded.batch_id, "chunks": new.excluded.chunks}
    await connection.execute(new.on_conflict_do_update(index_elements=keys, set_=replaced))


async def take_caller_chunks(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, space_id: int, batch_id: UUID
) -> bool:
    """Let go of a batch that is being indexed in this transaction; False when a newer one has taken its place."""
    statement = delete(caller_chunks).where(
        caller_chunks.c.organization_id == organization_id,
        caller_chunks.c.document_id == document_id,
        caller_chunks.c.space_id == space_id,
        caller_chunks.c.batch_id == batch_id,
    )
    return (await connection.execute(statement)).rowcount == 1


async def read_work(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, space_id: int
) -> IndexingWork | None:
    """Return what to index for a document in a space; None when it is not to be there any more.

    Where another space has taken its place meanwhile, in that one.
    """
    successor = func.coalesce(spaces.c.replaced_by_space_id, spaces.c.space_id)
    asked = spaces.c.organization_id == organization_id, spaces.c.space_id == space_id
    others = space_documents.alias()
    before = select(others.c.space_id).where(others.c.document_id == document_id, others.c.chunk_count > 0).exists()
    batch = and_(
        caller_chunks.c.document_id == space_documents.c.document_id,
        caller_chunks.c.space_id == space_documents.c.space_id,
    )
    statement = (
        select(
            spaces.c.space_id,
            spaces.c.model,
            spaces.c.dimensions,
            spaces.c.language,
            space_documents.c.version,
            space_documents.c.caller_chunks,
            space_documents.c.chunk_count,
            documents.c.name,
            document_contents.c.version.label("contents_version"),
            document_contents.c.title,
            document_contents.c.blocks,
            caller_chunks.c.batch_id,
            caller_chunks.c.chunks,
            before.label("indexed_before"),
        )
        .select_from(space_documents)
        .join(spaces, spaces.c.space_id == space_documents.c.space_id)
        .join(documents, documents.c.document_id == space_documents.c.document_id)
        .join(document_contents, document_contents.c.document_id == space_documents.c.document_id)
        .outerjoin(caller_chunks, batch)
        .where(
            space_documents.c.organization_id == organization_id,
            space_documents.c.document_id == document_id,
            space_documents.c.space_id == select(successor).where(*asked).correlate(None).scalar_subquery(),
        )
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    return IndexingWork(
        space_id=row.space_id,
        model=row.model,
        dimensions=row.dimensions,
        language=row.language,
        wanted_version=row.version,
        contents_version=row.contents_version,
        name=row.name,
        title=row.title or row.name,
        blocks=row.blocks,
        caller_batch=row.batch_id,
        caller_chunks=row.chunks,
        caller_chunks_wanted=row.caller_chunks,
        chunk_count=row.chunk_count,
        indexed_before=row.indexed_before,
    )


async def want_newest(connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, space_id: int) -> int:
    """Want the newest version of a document in a space, since only its text is kept; returns the number, 0 if gone."""
    newest = select(documents.c.version).where(documents.c.document_id == document_id).scalar_subquery()
    statement = (
        update(space_documents)
        .where(_own(organization_id, document_id, space_id))
        .values(version=func.greatest(space_documents.c.version, newest))
        .returning(space_documents.c.version)
    )
    return (await connection.execute(statement)).scalar() or 0


async def note_progress(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_ids: Sequence[int],
    embedded: int,
    expected: int,
) -> None:
    """Renew the claim on a document in these spaces and tell how many of its chunks have vectors by now."""
    statement = (
        update(space_documents)
        .where(_pending_in(organization_id, document_id, space_ids))
        .values(claimed_until=func.now() + LEASE, chunks_embedded=embedded, chunks_expected=expected)
    )
    await connection.execute(statement)


async def note_failure(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, space_ids: Sequence[int], error: str
) -> None:
    """Record why indexing failed and when to try again: later each time, at most an hour."""
    wait = func.least(LONGEST_RETRY, FIRST_RETRY * func.power(2, func.least(space_documents.c.attempts, 20)))
    statement = (
        update(space_documents)
        .where(_pending_in(organization_id, document_id, space_ids))
        .values(claimed_until=func.now() + wait, attempts=space_documents.c.attempts + 1, error=error)
    )
    await connection.execute(statement)


async def claim_pending(
    connection: AsyncConnection, organization_id: UUID, *, limit: int, space_id: int | None = None
) -> list[PendingWork]:
    """Claim up to `limit` pieces of work that nobody works on, oldest claim first; other sweeps pass over them.

    In every space that is searched, or with `space_id` in one that is built.
    """
    keys = (space_documents.c.document_id, space_documents.c.space_id)
    searched = select(spaces.c.space_id).where(spaces.c.organization_id == organization_id, is_searched())
    there = space_documents.c.space_id
    free = (
        select(*keys)
        .where(
            space_documents.c.organization_id == organization_id,
            there.in_(searched) if space_id is None else there == space_id,
            _pending(),
            or_(space_documents.c.claimed_until.is_(None), space_documents.c.claimed_until < func.now()),
        )
        .order_by(space_documents.c.claimed_until.nulls_first())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(space_documents).where(tuple_(*keys).in_(free)).values(claimed_until=func.now() + LEASE).returning(*keys)
    )
    claimed: dict[UUID, list[int]] = {}
    for row in await connection.execute(statement):
        claimed.setdefault(row.document_id, []).append(row.space_id)
    return [PendingWork(document_id, tuple(sorted(space_ids))) for document_id, space_ids in claimed.items()]


async def release_claims(connection: AsyncConnection, organization_id: UUID) -> None:
    """Give up every claim, whoever holds it: for a start after which nobody else can be at work."""
    statement = (
        update(space_documents)
        .where(space_documents.c.organization_id == organization_id, _pending())
        .values(claimed_until=None)
    )
    await connection.execute(statement)
