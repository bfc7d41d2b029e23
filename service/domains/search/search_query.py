"""A prepared search: the query, scope and hits, made before the search's snapshot is opened."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.documents.collections.filters import Condition
from service.domains.search.syntax.parsing import FieldClause
from service.index.codes import as_vector, binary_codes
from service.index.spaces.queries import Space
from service.index.term_keys import NO_LOOKUP, Lookup
from service.index.terms import QueryTerms, as_sparsevec, find_matches, read_query
from service.platform.errors import BadRequest, FieldError
from service.text.embedding import EmbeddingModel

WHOLE = -1

WORDS = 0.45  # the weight of words in a hybrid score, where the model knows the language; meaning has the rest
HALF = 0.45  # the score of a chunk of average length with a word once, as a share of the word's weight

SHORT = 4_000  # characters processed in about a millisecond, so shorter texts need no thread
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Hit(NamedTuple):
    """A ranked hit: a chunk of a document, or the WHOLE document by its best chunk."""

    document_id: UUID
    chunk_no: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The readable, filtered part of a space, with `conditions` on metadata. The query's signs give `fields`, `only`
    and `without`. Passages with `pattern` are preferred; for chunks, only `passages` count (WHOLE: all of a
    document)."""

    caller: Caller
    space: Space
    by_chunk: bool
    conditions: tuple[Condition, ...] = ()
    resource_types: tuple[str, ...] = ()
    is_distributed: bool = False
    fields: tuple[FieldClause, ...] = ()
    only: frozenset[UUID] | None = None
    without: frozenset[UUID] = frozenset()
    pattern: str | None = None
    passages: frozenset[Hit] | None = None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query in the forms used to search the index, with the space's `stemmings`; `with_weights` weighs `terms`.
    `lookup` has keys to find chunks by (without any, all are scored), `few` has fewer keys, tried first.
    `has_old_forms`: some chunks have only plain words, indexed by an earlier version. `is_small`: little of the space
    is readable, so all of it is scored (None: unknown). `full_score` is the score by words of a chunk with each word
    once; `frequencies` belong to the terms. In a hybrid score words have `weight_of_words`, from the model."""

    mode: SearchMode
    text: str
    stemmings: tuple[str, ...]
    vector: str
    code: str
    by_frequency: bool = True
    has_old_forms: bool = False
    is_small: bool | None = None
    weights_of_words: Mapping[str, float] = field(default_factory=dict[str, float])
    weight_of_words: float = WORDS
    terms: str = as_sparsevec({})
    lookup: Lookup = NO_LOOKUP
    few: Lookup = NO_LOOKUP
    full_score: float = 1.0
    frequencies: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def reading(self) -> QueryTerms:
        return read_query(self.text, self.stemmings, has_old_forms=self.has_old_forms)

    def terms_within(self, *texts: str) -> set[int]:
        terms = self.reading.marked
        return {term for text in texts for match in find_matches(text, terms, self.stemmings) for term in match.terms}

    @property
    def looks_for_words(self) -> bool:
        return self.mode is not SearchMode.SEMANTIC and bool(self.reading.words)

    def with_weights(self, weights: Mapping[int, float], *, known: Collection[int] | None = None) -> "SearchQuery":
        """Return the query with weights for the terms; `known` terms may be in chunks (None: all). The full score uses
        all weights, so the score reveals no existing terms."""
        own = {each.terms for each in self.reading.sought if each.is_own}
        full_score = HALF * sum(max(weights.get(term, 0.0) for term in terms) for terms in own)
        kept = {term: weight for term, weight in weights.items() if known is None or term in known}
        return replace(self, terms=as_sparsevec(kept), full_score=full_score or 1.0)


async def compute(
    texts: Iterable[str], work: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Call `work` with the texts: directly if short, else in a thread, to keep the event loop free."""
    if sum(map(len, texts)) <= SHORT:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)


def require_text(query: str) -> str:
    """Return the query unchanged. Raises BadRequest `empty_query` for white space alone."""
    if not query.strip():
        message = "The query is empty. Send the words or the question to search for."
        raise BadRequest(message, code="empty_query", details=[FieldError("searchQuery", message)])
    return query


def prepare_query(
    query: str,
    *,
    mode: SearchMode,
    language: str,
    embedding: NDArray[np.float32],
    model: EmbeddingModel,
    by_frequency: bool = True,
) -> SearchQuery:
    """Prepare a query for a space in a language; `embedding` has unit norm and comes from the model."""
    return SearchQuery(
        mode=mode,
        text=query,
        stemmings=(language,),
        vector=as_vector(embedding),
        code=binary_codes(embedding[np.newaxis, :], model.mean)[0],
        by_frequency=by_frequency,
        weights_of_words=model.weights_of_words,
    )
