"""Running the statements of `search.sql`: the two legs, the exact scores of their hits, and the results' contents.

The legs are flat queries over the access classes the caller may read; every condition (access, metadata, kind of
resource) stands inside them, before any ordering or LIMIT. All run in one REPEATABLE READ snapshot.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, literal_column, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import ResourceType
from carrel.wire.oversight import SearchesInBucket
from carrel.wire.search import SearchFeedback, SearchMode
from service.domains.search import sql
from service.domains.search.fusion import Scores
from service.domains.search.search_query import WHOLE, Hit, Scope, SearchQuery
from service.domains.search.sql import AnySelect, Shape
from service.permissions.queries import reader_parameters
from service.platform.sql import as_member, columns_of, count_where, find_row, find_rows, optional_in
from service.schema.audit import free_texts
from service.schema.identity import principals
from service.schema.search import searches

# Pages, then documents, whose chunks the first pass by meaning hands on to the exact scores. More pages than documents,
# so that one long document on the very subject leaves room for others.
BEST_PAGES = 5000
BEST_DOCUMENTS = 2000


@dataclass(frozen=True, slots=True)
class ExactScores:
    """A hit's scores, and the number of its chunk that is nearest in meaning."""

    scores: Scores
    nearest_chunk: int


@dataclass(frozen=True, slots=True)
class ChunkWeights:
    """The weights of the exact scores when the chunk to show of a document is chosen."""

    lexical: float
    dense: float


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A result of a search of the catalog: a document with its resource, and the text of its best chunk."""

    document_id: UUID
    name: str
    external_id: str
    external_url: str | None
    custom_metadata: dict[str, str]
    updated_at: datetime
    resource_type: ResourceType
    resource_id: str
    text: str


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A result of a search of a collection: a chunk, and its document with the metadata in the collection."""

    document_id: UUID
    hit_no: int
    chunk_no: int
    chunk_id: UUID
    text: str
    name: str
    external_id: str
    external_url: str | None
    custom_metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """A search of the log, and who it was done as; `text` is None once its words are erased."""

    search_id: UUID
    at: datetime
    principal_id: UUID
    name: str | None
    email: str | None
    text: str | None
    collection_id: UUID | None
    mode: SearchMode
    result_count: int
    has_words: bool | None
    feedback: SearchFeedback | None


@dataclass(frozen=True, slots=True)
class Findings:
    """The documents that a search found; None for a search from before they were kept."""

    document_ids: Sequence[UUID] | None


def shape_of(scope: Scope) -> Shape:
    """Return the shape of a scope's statements."""
    return Shape(scope.space.dimensions, scope.by_chunk, scope.conditions, bool(scope.resource_types))


def _parameters(scope: Scope, search_query: SearchQuery) -> dict[str, Any]:
    """Return what every statement of a search is bound to."""
    return {
        "organization_id": scope.caller.organization_id,
        "space_id": scope.space.space_id,
        "resource_types": list(scope.resource_types),
        "vector": search_query.vector,
        "code": search_query.code,
        "terms": search_query.terms,
        **reader_parameters(scope.caller),
    }


def _hits(hits: Collection[Hit], *, prefix: str = "") -> dict[str, Any]:
    return {
        f"{prefix}ids": [hit.document_id for hit in hits],
        f"{prefix}numbers": [hit.chunk_no for hit in hits],
    }


async def dense_leg(
    connection: AsyncConnection, scope: Scope, search_query: SearchQuery, *, at_least: int
) -> list[Hit]:
    """Return the hits nearest in meaning, best first: candidates by their binary codes, then by exact inner product."""
    limits = {"page_limit": BEST_PAGES, "document_limit": BEST_DOCUMENTS}
    parameters = _parameters(scope, search_query) | limits
    return await _leg(connection, sql.dense_leg(shape_of(scope)), parameters, at_least=at_least)


async def lexical_leg(
    connection: AsyncConnection, scope: Scope, search_query: SearchQuery, *, at_least: int
) -> list[Hit]:
    """Return the hits with the highest BM25 scores, best first; none without a term of the query."""
    lookup = search_query.lookup
    found_by = {"keys": list(lookup.keys), "bound": lookup.bound, "needed": at_least}
    parameters = _parameters(scope, search_query) | found_by
    return await _leg(connection, sql.lexical_leg(shape_of(scope)), parameters, at_least=at_least)


async def _leg(
    connection: AsyncConnection, statement: AnySelect, parameters: Mapping[str, Any], *, at_least: int
) -> list[Hit]:
    """Return the hits of a leg's first 100 chunks, best first, and more while there are fewer than `at_least` hits."""
    rows = await connection.execute(statement, parameters)
    return [
        Hit(row[0], row[1] if len(row) > 2 else WHOLE)
        for place, row in enumerate(rows)
        if row[-1] <= sql.LEG or place < at_least
    ]


async def exact_scores(
    connection: AsyncConnection, scope: Scope, search_query: SearchQuery, *, hits: Collection[Hit]
) -> dict[Hit, ExactScores]:
    """Return both scores of each hit, each the maximum over the hit's chunks, and its chunk nearest in meaning."""
    parameters = _parameters(scope, search_query) | _hits(hits)
    rows = await connection.execute(sql.exact_scores(shape_of(scope)), parameters)
    return {
        Hit(row.document_id, row.hit_no): ExactScores(Scores(-row.lexical, -row.dense), nearest_chunk=row.nearest)
        for row in rows
    }


async def score_near(
    connection: AsyncConnection,
    scope: Scope,
    search_query: SearchQuery,
    *,
    hits: Collection[Hit],
    examples: Sequence[Hit],
    weight: float,
) -> dict[Hit, float]:
    """Return each hit's cosine with the question vector plus `weight` times the mean vector of `examples` (chunks)."""
    weights = "[" + ",".join([repr(weight)] * scope.space.dimensions) + "]"
    parameters = _parameters(scope, search_query) | _hits(hits) | _hits(examples, prefix="example_")
    rows = await connection.execute(sql.scores_near(shape_of(scope)), parameters | {"weights": weights})
    return {Hit(row.document_id, row.hit_no): -row.dense for row in rows}


async def read_found_documents(
    connection: AsyncConnection,
    scope: Scope,
    search_query: SearchQuery,
    *,
    hits: Sequence[Hit],
    chunk_weights: ChunkWeights,
) -> dict[UUID, FoundDocument]:
    """Read the results' documents."""
    shares = {"lexical_share": chunk_weights.lexical, "dense_share": chunk_weights.dense}
    parameters = _parameters(scope, search_query) | _hits(hits) | shares
    rows = await find_rows(connection, sql.found_documents(shape_of(scope)), FoundDocument, parameters)
    return {row.document_id: row for row in rows}


async def read_found_chunks(
    connection: AsyncConnection, scope: Scope, search_query: SearchQuery, *, hits: Sequence[Hit]
) -> dict[Hit, FoundChunk]:
    """Read the results' chunks."""
    parameters = _parameters(scope, search_query) | _hits(hits)
    rows = await find_rows(connection, sql.found_chunks(shape_of(scope)), FoundChunk, parameters)
    return {Hit(row.document_id, row.hit_no): row for row in rows}


async def log_search(
    connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object], query: str
) -> None:
    """Keep who searched for what; the query's words lie apart, where they can be erased."""
    await connection.execute(sql.log_search(), {**row, "organization_id": organization_id, "query": query})


async def note_feedback(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    search_id: UUID,
    principal_ids: Collection[UUID] | None,
    feedback: str,
) -> Findings | None:
    """Keep the newest feedback on a search by one of these principals (None: by anybody).

    Return what the search found; None when there was no such search in the organization.
    """
    statement = (
        update(searches)
        .where(
            searches.c.organization_id == organization_id,
            searches.c.search_id == search_id,
            optional_in(searches.c.principal_id, principal_ids),
        )
        .values(feedback=feedback)
        .returning(searches.c.document_ids)
    )
    return await find_row(connection, statement, Findings)


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """The filters of a query of the search log; times are inclusive and exclusive."""

    since: datetime | None = None
    until: datetime | None = None
    without_results: bool = False
    without_words: bool = False
    feedback: str | None = None
    ids: Collection[UUID] | None = None


async def list_searches(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    filters: SearchFilter,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[StoredSearch]:
    """Searches newest first, before the position of the last one seen; with their words, and who they were done as."""
    statement = (
        select(
            *columns_of(
                searches,
                StoredSearch,
                principals.c.name,
                principals.c.email,
                free_texts.c.text,
                as_member(searches.c.mode, SearchMode),
                as_member(searches.c.feedback, SearchFeedback),
            )
        )
        .outerjoin(principals, principals.c.principal_id == searches.c.principal_id)
        .outerjoin(free_texts, free_texts.c.subject_id == searches.c.search_id)
        .where(searches.c.organization_id == organization_id, *_log_conditions(filters))
        .order_by(searches.c.at.desc(), searches.c.search_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(tuple_(searches.c.at, searches.c.search_id) < before)
    return await find_rows(connection, statement, StoredSearch)


async def count_searches(
    connection: AsyncConnection, organization_id: UUID, *, since: datetime, until: datetime, bucket: str
) -> list[SearchesInBucket]:
    """How many searches there were from one moment until before another, by the `day` or `week` in UTC they were in.

    Empty ones are left out.
    """
    start = func.date_trunc(bucket, searches.c.at, "UTC").label("from_")

    statement = (
        select(
            start,
            func.count().label("searches"),
            count_where(searches.c.result_count == 0, "without_results"),
            count_where(searches.c.feedback == SearchFeedback.THUMBS_UP.value, "thumbs_up"),
            count_where(searches.c.feedback == SearchFeedback.THUMBS_DOWN.value, "thumbs_down"),
        )
        .where(searches.c.organization_id == organization_id, searches.c.at >= since, searches.c.at < until)
        .group_by(literal_column("from_"))
    )
    return await find_rows(connection, statement, SearchesInBucket)


def _log_conditions(filters: SearchFilter) -> list[ColumnElement[bool]]:
    conditions = [optional_in(searches.c.search_id, filters.ids)]
    if filters.since is not None:
        conditions.append(searches.c.at >= filters.since)
    if filters.until is not None:
        conditions.append(searches.c.at < filters.until)
    if filters.without_results:
        # Written out, so that the index of such searches is known to do.
        conditions.append(searches.c.result_count == literal_column("0"))
    if filters.without_words:
        conditions.append(~searches.c.has_words)
    if filters.feedback is not None:
        conditions.append(searches.c.feedback == filters.feedback)
    return conditions
