"""SQL of indexing: documents' desired `version` in each space (queued while not `indexed_version`), and the texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.index.forms import RULES
from service.index.ingestion.backlog.queries import FROM_THE_START, LEASE, has_large_text, select_is_large
from service.index.ingestion.turns import LARGE_BYTES
from service.index.queries import IndexEntry, ask_texts, is_pending, lacks_words
from service.index.spaces.queries import (
    SearchedSpace,
    is_older,
    is_searched,
    lock_existing,
    select_catalog_id,
    stands_for,
)
from service.index.statistics.queries import ADD_DELTAS, OF_DELTAS, sum_changes
from service.platform import sql
from service.platform.batches import Answer, Batch
from service.schema.catalog import caller_chunks, document_contents, document_versions, documents
from service.schema.indexing import INDEX_TABLES, space_documents, spaces

# A document named after its title is also found by its file name.
NAME = sa.case((documents.c.named_by == "FILE", document_versions.c.file_name), else_=documents.c.name).label("name")
TITLE = sa.func.coalesce(sa.func.nullif(document_contents.c.title, ""), documents.c.name).label("title")
_IS_OF_CONTENTS = sa.and_(
    *(document_versions.c[name] == document_contents.c[name] for name in ("document_id", "version"))
)


def all_names(organization_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[str]:
    """Build the text of names that the index has for a row of `documents`: the document's or file's name, and title."""
    own = {"document_id": documents.c.document_id, "version": documents.c.version}
    versions = document_versions.outerjoin(document_contents, _IS_OF_CONTENTS)
    names = sa.select(sa.func.concat_ws(" ", NAME, TITLE)).select_from(versions)
    found = names.where(sql.matches(document_versions, organization_id, **own)).scalar_subquery()
    return sa.func.coalesce(found, sa.literal_column("''"))


@dataclass(frozen=True, slots=True)
class IndexingWork:
    """The input of indexing. `title`, embedded, stays with the contents; `name` is current, or the file's if the title
    is the name. `caller_batch` and `caller_chunks`: a caller's chunks. `indexed_before`: a space may have vectors.
    `texts`: the chunks with words, for a document without `blocks`."""

    document_id: UUID
    space_id: int
    model: str
    dimensions: int
    language: str
    desired_version: int
    contents_version: int
    name: str
    title: str
    media_type: str
    blocks: bytes | None
    indexed_before: bool
    caller_batch: UUID | None = None
    caller_chunks: bytes | None = None
    expects_caller_chunks: bool = False
    chunk_count: int = 0
    is_pending: bool = True
    lacks_words: bool = True
    texts: Sequence[str] | None = None

    @property
    def packed_bytes(self) -> int:
        return len((self.blocks if self.caller_chunks is None else self.caller_chunks) or b"")

    @property
    def is_behind(self) -> bool:
        """Whether the desired version is older than the stored text."""
        return self.desired_version < self.contents_version


def _claim_until(is_begun: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    """Select the end of a new claim: after the lease if indexing begins at once, else now."""
    return sa.case((is_begun, sa.func.now() + LEASE), else_=sa.func.now())


def extend_claim(claimed_until: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Select the end of a claim on a document requested again: unchanged unless indexing begins now. A document waiting
    for words keeps the position in the queue; the indexer finds the newer version at the end."""
    known = space_documents.c
    return sa.case(
        (claimed_until > sa.func.now(), claimed_until),
        (sa.and_(lacks_words(), known.attempts == 0), known.claimed_until),
        else_=claimed_until,
    )


def _is_pending_where_replaced() -> sa.ColumnElement[bool]:
    """Build the condition for an entry in a replacement of a space, pending in the replaced space."""
    replaced, entry = space_documents.alias("replaced_places"), space_documents.c
    same = replaced.c.document_id == entry.document_id, replaced.c.space_id == spaces.c.replaces_space_id
    return (
        sa.select(sa.true()).where(replaced.c.organization_id == sql.ORGANIZATION, *same, is_pending(replaced)).exists()
    )


def _build_request(*, collections_too: bool) -> sa.Select[*tuple[Any, ...]]:
    entry = space_documents.c
    version, own = sql.param(entry.version), sql.param(entry.document_id)
    is_large = has_large_text(sql.ORGANIZATION, own)
    is_begun: sa.ColumnElement[bool] = sa.bindparam("param_is_begun", type_=sa.Boolean())
    catalog_id = select_catalog_id(sql.ORGANIZATION)
    # The catalog's space and the space that replaces it.
    homes = lock_existing(sql.ORGANIZATION, sa.or_(spaces.c.is_catalog, spaces.c.replaces_space_id == catalog_id))
    claim = _claim_until(sa.and_(homes.c.is_catalog, is_begun))
    new = insert(space_documents).from_select(
        ["document_id", "space_id", "organization_id", "version", "is_large", "claimed_until"],
        sa.select(own, homes.c.space_id, sql.ORGANIZATION, version, is_large, claim),
    )
    replaced = {
        "version": new.excluded.version,
        "is_large": new.excluded.is_large,
        "claimed_until": extend_claim(new.excluded.claimed_until),
    } | FROM_THE_START
    catalog = new.on_conflict_do_update(index_elements=[entry.document_id, entry.space_id], set_=replaced).cte(
        "catalog"
    )
    elsewhere = (
        sa.update(space_documents)
        .where(
            entry.organization_id == sql.ORGANIZATION,
            entry.document_id == own,
            spaces.c.space_id == entry.space_id,
            ~spaces.c.is_catalog,
            spaces.c.retired_at.is_(None),
            spaces.c.replaces_space_id.is_distinct_from(catalog_id),
            ~entry.caller_chunks,
            sa.true() if collections_too else sa.or_(is_pending(), _is_pending_where_replaced()),
        )
        .values(
            version=version,
            is_large=is_large,
            claimed_until=extend_claim(_claim_until(sa.and_(is_searched(), is_begun))),
            **FROM_THE_START,
        )
        .returning(entry.space_id)
        .cte("elsewhere")
    )
    both = sa.union_all(
        sa.select(homes).where(homes.c.is_catalog),
        sa.select(spaces).join(elsewhere, elsewhere.c.space_id == spaces.c.space_id).where(is_searched()),
    ).subquery()
    return (
        sa.select(*sql.columns_of(both, SearchedSpace))
        .add_cte(catalog)
        .order_by(both.c.is_catalog.desc(), both.c.space_id)
    )


_REQUEST_INDEXING = {
    collections_too: _build_request(collections_too=collections_too) for collections_too in (False, True)
}


def ask_indexing(
    batch: Batch, organization_id: UUID, *, document_id: UUID, version: int, collections_too: bool, is_begun: bool
) -> Answer[SearchedSpace]:
    """Request a version's indexing in the catalog, in collections that wait for an older version and, with
    `collections_too`, in all collections without a caller's chunks; `is_begun` claims the work. Returns the searched
    spaces to index, the catalog first."""
    parameters = sql.params(organization_id, document_id=document_id, version=version, is_begun=is_begun)
    return batch.ask(_REQUEST_INDEXING[collections_too], SearchedSpace, parameters)


async def request_indexing_in_space(
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_id: int,
    version: int,
    custom_metadata: Mapping[str, str],
    is_begun: bool,
    caller_bytes: int | None = None,
    as_unindexed: bool = False,
) -> None:
    """Request a version's indexing in a collection's space and, for later, its replacements; `is_begun` claims the
    work. `caller_bytes` is the packed size of a caller's chunks. A caller's chunks always count as not indexed, the
    document's own chunks only with `as_unindexed`."""
    own, owner = sa.literal(document_id, sa.Uuid()), sa.literal(organization_id, sa.Uuid())
    values: dict[str, sa.ColumnElement[Any]] = {
        "version": sa.literal(version, sa.Integer()),
        "custom_metadata": sa.literal(dict(custom_metadata), JSONB()),
        "caller_chunks": sa.literal(caller_bytes is not None),
        "is_large": has_large_text(owner, own) if caller_bytes is None else sa.literal(caller_bytes >= LARGE_BYTES),
        "claimed_until": _claim_until(sa.and_(spaces.c.space_id == space_id, sa.literal(is_begun))),
    }
    new = _insert_in_spaces(space_documents, organization_id, document_id, space_id, values)
    changed: dict[str, Any] = {name: new.excluded[name] for name in values} | FROM_THE_START
    changed["claimed_until"] = extend_claim(new.excluded.claimed_until)
    if caller_bytes is not None or as_unindexed:
        changed |= {"indexed_version": None, "words_version": None}
    await connection.execute(new.on_conflict_do_update(index_elements=["document_id", "space_id"], set_=changed))


async def keep_caller_chunks(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int, batch_id: UUID, chunks: bytes
) -> None:
    """Store a caller's chunks for a space and its replacement, replacing the caller's waiting chunks."""
    values = {"batch_id": sa.literal(batch_id, sa.Uuid()), "chunks": sa.literal(chunks, sa.LargeBinary())}
    new = _insert_in_spaces(caller_chunks, organization_id, document_id, space_id, values)
    replaced = {name: new.excluded[name] for name in values}
    await connection.execute(new.on_conflict_do_update(index_elements=["document_id", "space_id"], set_=replaced))


def _insert_in_spaces(
    table: sa.Table, organization_id: UUID, document_id: UUID, space_id: int, values: Mapping[str, Any]
) -> Insert:
    """Build the insertion of a document's row into a space and its replacement."""
    names = ["document_id", "space_id", "organization_id", *values]
    row = sa.literal(document_id, sa.Uuid()), spaces.c.space_id, spaces.c.organization_id, *values.values()
    own = spaces.c.organization_id == organization_id, stands_for(space_id)
    return insert(table).from_select(names, sa.select(*row).where(*own).order_by(spaces.c.space_id))


async def take_caller_chunks(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int, batch_id: UUID
) -> bool:
    """Delete the stored chunks of a batch indexed in this transaction; False when replaced by a newer batch."""
    key = {"document_id": document_id, "space_id": space_id, "batch_id": batch_id}
    return await sql.delete_rows(connection, caller_chunks, organization_id, **key) == 1


async def lock_caller_chunks(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int, batch_id: UUID
) -> bool:
    """Lock the stored chunks of a batch until the transaction ends; False when replaced by a newer batch."""
    this = sql.matches(caller_chunks, organization_id, document_id=document_id, space_id=space_id, batch_id=batch_id)
    statement = sa.select(caller_chunks.c.batch_id).where(this).with_for_update()
    return (await connection.execute(statement)).one_or_none() is not None


_WORK = sa.text(sql.read_sql(__file__, "work")).bindparams(
    sa.bindparam("document_ids", type_=sa.ARRAY(sa.Uuid)), sa.bindparam("space_ids", type_=sa.ARRAY(sa.Integer))
)


async def find_work(
    connection: Connection, organization_id: UUID, *, is_whole: bool = False, **places: Sequence[UUID | int]
) -> list[IndexingWork]:
    """Read work by `document_ids` and `space_ids`, or the spaces' replacements: with text if words are missing or
    `is_whole`, else with the chunks' texts."""
    given = {"organization_id": organization_id, "is_whole": is_whole, **places}
    works, batch = await sql.find_rows(connection, _WORK, IndexingWork, given), Batch()
    texts = {
        at: ask_texts(batch, IndexEntry(organization_id, work.space_id, work.document_id, work.dimensions))
        for at, work in enumerate(works)
        if work.is_pending and work.blocks is None and work.caller_chunks is None
    }
    if texts:
        await batch.run(connection)
    for at, found in texts.items():
        has_vectors = works[at].indexed_before or any(row["is_embedded"] for row in found.rows)
        works[at] = replace(works[at], texts=[row["text"] for row in found.rows], indexed_before=has_vectors)
    return works


async def request_newest_version(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int
) -> int:
    """Request a document's newest version in a space, from the stored text; return the version number, 0 if deleted."""
    newest = sa.select(documents.c.version).where(documents.c.document_id == document_id).scalar_subquery()
    statement = (
        sa.update(space_documents)
        .where(sql.matches(space_documents, organization_id, document_id=document_id, space_id=space_id))
        .values(version=sa.func.greatest(space_documents.c.version, newest), is_large=select_is_large())
        .returning(space_documents.c.version)
    )
    return (await connection.execute(statement)).scalar() or 0


@dataclass(frozen=True, slots=True)
class OldEntry:
    """A document indexed by earlier rules in a space of this `language`; `row` is the row's version."""

    document_id: UUID
    space_id: int
    dimensions: int
    language: str
    name: str
    title: str
    row: str


_ROW: sa.ColumnElement[str] = sa.cast(sa.literal_column("space_documents.xmin"), sa.Text)


def is_old() -> sa.ColumnElement[bool]:
    """Build the condition for a document indexed by earlier rules, except in retired spaces."""
    in_space = spaces.c.space_id == space_documents.c.space_id, spaces.c.retired_at.is_(None)
    return sa.and_(is_older(), *in_space)


def _select_old(organization_id: UUID) -> sa.Select[*tuple[Any, ...]]:
    entry, key = space_documents.c, (space_documents.c.document_id, space_documents.c.space_id)
    return (
        sa.select(*sql.columns_of(spaces, OldEntry, *key, NAME, TITLE, _ROW.label("row")))
        .join(space_documents, is_old())
        .join(documents, documents.c.document_id == entry.document_id)
        .outerjoin(document_contents, document_contents.c.document_id == entry.document_id)
        .outerjoin(document_versions, _IS_OF_CONTENTS)
        .where(entry.organization_id == organization_id)
    )


async def list_old(
    connection: Connection, organization_id: UUID, *, after: tuple[int, UUID], limit: int
) -> list[OldEntry]:
    """List documents of earlier rules by space and id; `after` is the last entry of the previous list."""
    key = space_documents.c.space_id, space_documents.c.document_id
    statement = _select_old(organization_id).where(sa.tuple_(*key) > after).order_by(*key).limit(limit)
    return await sql.find_rows(connection, statement, OldEntry)


async def find_old(connection: Connection, entry: IndexEntry) -> OldEntry | None:
    """Find a document in a space as listed by `list_old`; None when renewed or removed."""
    statement = _select_old(entry.organization_id).where(entry.matches(space_documents))
    return await sql.find_row(connection, statement, OldEntry)


async def try_lock_renewal(connection: Connection) -> bool:
    """Lock the renewal of terms in all organizations until the transaction ends; False when already locked."""
    key = sa.func.hashtextextended("carrel.word_forms", 0)
    return bool((await connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(key)))).scalar_one())


async def renew_chunks(
    connection: Connection, entry: IndexEntry, *, terms: Mapping[int, str], deltas: Mapping[int, int], is_last: bool
) -> None:
    """Write terms and counts of a locked document's chunks, and move their vectors; `is_last` marks it as renewed."""
    tables = INDEX_TABLES[entry.dimensions]
    chunks, vectors = tables.chunks, tables.vectors
    this = entry.matches(chunks), chunks.c.chunk_no == sa.bindparam("param_chunk_no", type_=sa.Integer())
    given = sa.cast(sa.bindparam("param_terms", type_=sa.Text()), chunks.c.terms.type)
    changed = [{"param_chunk_no": chunk_no, "param_terms": written} for chunk_no, written in terms.items()]
    names = vectors.c.keys()
    inside = entry.matches(chunks), chunks.c.embedding.is_not(None), sql.in_array(chunks.c.chunk_no, terms)
    moved = insert(vectors).from_select(names, sa.select(*(chunks.c[name] for name in names)).where(*inside))
    await connection.execute(moved.on_conflict_do_nothing())
    if changed:
        await connection.execute(sa.update(chunks).where(*this).values(terms=given, embedding=None), changed)
    counted = sql.as_arrays("deltas", OF_DELTAS, sum_changes([deltas]))
    await connection.execute(ADD_DELTAS, sql.params(entry.organization_id, space_id=entry.space_id, **counted))
    if is_last:
        renewed = sa.update(space_documents).where(entry.matches(space_documents))
        await connection.execute(renewed.values(forms=RULES))
