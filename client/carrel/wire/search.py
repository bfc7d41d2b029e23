"""search/*: searches in the catalog and in a collection, and feedback on results."""

from collections.abc import Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.fields import Description, Instant, Label, MetadataValue, SearchQuery
from carrel.wire.operations import KEYED, NOT_FOUND, READ, SHARED, ApiOperation
from carrel.wire.places import PassagePlace
from carrel.wire.reranking import AppliedReranking


class SearchMode(StrEnum):
    """By words and meaning together, by words alone, or by meaning alone."""

    HYBRID = "HYBRID"
    LEXICAL = "LEXICAL"
    SEMANTIC = "SEMANTIC"


class FilterOperator(StrEnum):
    """Comparison of a field with the filter's value."""

    LESS = "<"
    GREATER = ">"
    LESS_OR_EQUAL = "<="
    GREATER_OR_EQUAL = ">="
    NOT_EQUAL = "!="
    EQUAL = "=="
    CONTAINS = "contains"


class MetadataFilter(common.RequestModel):
    """A condition on a metadata field; the value is a string, compared by the field's type."""

    field: Label
    """Name of the metadata field."""
    operator: FilterOperator
    """How the field's value is compared."""
    value: MetadataValue
    """Value to compare with, as a string; compared by the field's type."""


class AppliedFilter(common.ResponseModel):
    """A filter a search applied."""

    field: str
    """Name of the metadata field."""
    operator: FilterOperator
    """How the field's value was compared."""
    value: str
    """Value compared with the field."""


Filters = Annotated[list[MetadataFilter], Field(max_length=50)]


class DrawnFilter(AppliedFilter):
    """A filter drawn from the query."""

    words: str
    """Words of the query for this filter."""


class AppliedFiltering(common.ResponseModel):
    """The effect of `enableSmartFiltering`; to leave out a filter, send the rest as `structuredQueryFilters`."""

    filters: list[DrawnFilter]
    """Filters drawn from the query; empty if uncertain."""
    dropped: bool
    """Whether the filters were dropped, because they left no results."""
    by_model: bool | None = None
    """true: filters were read by the service's language model; absent: by rules."""
    note: str | None = None
    """Times, amounts and model filters of the query not used, or why the model read none; absent: no remarks."""


class AppliedExtraction(common.ResponseModel):
    """The effect of `enableQueryExtraction`."""

    questions: list[str]
    """Questions searched instead of the query, 1 to 4, with one combined result list."""
    by_model: bool | None = None
    """true: questions were read by the service's language model; absent: by rules."""
    note: str | None = None
    """Why the model read no question; absent on success, or without a model."""


class SignKind(StrEnum):
    """Meaning of a sign in the query: an exact phrase, an excluded word, alternatives, or a field with its value."""

    PHRASE = "PHRASE"
    EXCLUDED = "EXCLUDED"
    ALTERNATIVES = "ALTERNATIVES"
    FIELD = "FIELD"


class QuerySign(common.ResponseModel):
    """A search sign applied from the query."""

    kind: SignKind
    """Meaning of the sign."""
    written: str
    """Part of the query with the sign, as written. Remove this part from the query to remove the sign."""
    values: list[str]
    """Words or phrases of the sign; for a field, its value."""
    field: str | None = None
    """Name of the field, in lower case: title, type, owner, in, after or before; absent for other signs."""
    note: str | None = None
    """Why the sign limited the results; absent: no remarks."""


class AppliedSyntax(common.ResponseModel):
    """Signs of the query: "a phrase", -word, NOT word, OR and field:value. `literalQuery` turns them off."""

    signs: list[QuerySign]
    """Applied signs, in the query's order."""
    not_understood: list[str] = Field(default_factory=list)
    """Parts of the query that look like signs but were searched as words, each with the reason."""

    @property
    def notes(self) -> list[str]:
        """The remarks on signs, for people."""
        return [*self.not_understood, *(f"{sign.written}: {sign.note}" for sign in self.signs if sign.note)]


class SpellingCorrection(common.ResponseModel):
    """A word missing from all readable documents, or with an asterisk, and the words searched instead."""

    word: str
    """Word of the query, as written."""
    replaced_by: list[str]
    """Similar words of documents that the caller may search; these words are searched."""


class AppliedOptions(common.ResponseModel):
    """Effects of search options; absent members had no effect."""

    filtering: AppliedFiltering | None = None
    """Filters drawn from the query."""
    extraction: AppliedExtraction | None = None
    """Questions of the query."""
    reranking: AppliedReranking | None = None
    """Order by a reranking model, too."""
    syntax: AppliedSyntax | None = None
    """Signs of the query; absent: none."""
    unmatched_words: list[str] | None = None
    """Words of the query, as written, missing from all documents that the caller may search here; absent: none."""
    corrections: list[SpellingCorrection] | None = None
    """Corrected spellings of unmatched words; absent: none."""
    without_meaning: int | None = None
    """Documents found only by words, because their vectors are still missing; at most 1,000 counted, among 5,000
    waiting. Absent: none, or a search by words only."""

    @property
    def missing_words(self) -> list[str]:
        """Unmatched words without a correction."""
        corrected = {each.word for each in self.corrections or ()}
        return [word for word in self.unmatched_words or () if word not in corrected]


class ResultOrder(StrEnum):
    """The order of results: by relevance, or by the time of the documents' last change."""

    RELEVANCE = "RELEVANCE"
    NEWEST = "NEWEST"
    OLDEST = "OLDEST"


class CatalogSearchOptions(common.RequestModel):
    """Number of documents and filters; all filters must match."""

    max_results: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    """Most documents, 1 to 100; 10 unless given."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only documents of these types, at most 100."""
    metadata_filters: Filters = Field(default_factory=list[MetadataFilter])
    enable_reranking: Annotated[bool, Field(strict=True)] | None = None
    """Whether a reranking model reorders the best results; default: the organization's setting."""
    literal_query: Annotated[bool, Field(strict=True)] | None = None
    order: ResultOrder | None = None
    """Order of the results; default: RELEVANCE. By time, only relevant results are ordered, at most 100."""
    passages_per_document: Annotated[int, Field(strict=True, ge=1, le=3)] | None = None
    """Most passages of a document, 1 to 3; 1 unless given."""
    group_similar: Annotated[bool, Field(strict=True)] | None = None
    """Whether documents with equal or nearly equal passages are one result; default: false."""
    count_facets: Annotated[bool, Field(strict=True)] | None = None
    """Whether the results are also counted by type, collection, owner and year; default: false."""
    similar_to: UUID | None = None
    """Id of a readable document to find similar documents: its text replaces the query, and it is left out."""


class SearchDocumentCatalogRequest(common.ActingRequest):
    """Search the documents the caller may READ."""

    search_query: SearchQuery
    search_options: CatalogSearchOptions = CatalogSearchOptions()
    """Number of documents, filters, and search options."""


class TextSpan(common.ResponseModel):
    """A stretch of text: from `start` up to, not including, `end`, in characters (Unicode code points)."""

    start: int
    """Place of the first character, counted from 0 in Unicode code points."""
    end: int
    """Place after the last character, counted from 0 in Unicode code points."""


class Snippet(common.ResponseModel):
    """A passage of a document, with the matched parts."""

    text: str
    """The passage."""
    matches: list[TextSpan]
    """Matched parts of the passage."""
    chunk_index: int | None = None
    """Position of the passage's chunk in the catalog, in reading order, counted from 0; see getDocumentChunks."""
    place: PassagePlace | None = None
    """Place of the passage in the document; absent: unknown."""


class MatchedBy(common.ResponseModel):
    """Why a result was found."""

    words: list[str]
    """Words of the query (without spaces: parts), as written or corrected, in the title or passage in any form."""
    missing: list[str] | None = None
    """Words of the query that are in neither, but in other documents; absent: none."""
    meaning: bool
    """Whether the document is close to the query in meaning."""

    def describe(self) -> str:
        """Return the reason for people; empty if neither words nor meaning matched."""
        found = f"Contains {', '.join(self.words)}" if self.words else "Close in meaning" if self.meaning else ""
        missing = ", ".join(f"“{word}”" for word in self.missing or ())
        return f"{found}, but not {missing}" if self.words and missing else found


class CatalogSearchResult(common.NamedDocument):
    """A document found."""

    document_external_url: str | None = None
    document_version: int | None = None
    """Number of the found version; getDocument shows newer versions."""
    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    score: float
    """Nearness in meaning from 0 to 1; falls with the rank."""
    relevance: float | None = None
    matched: MatchedBy | None = None
    """Why the document was found; absent: the service is older."""
    name_matches: list[TextSpan] | None = None
    """Matched parts of the document's name; absent: none."""
    snippet: Snippet
    """A matching passage of the document."""
    further_passages: list[Snippet] = Field(default_factory=list)
    """More matching passages, best first; only with `passagesPerDocument`."""
    similar: list[common.NamedDocument] = Field(default_factory=list)
    """Documents with an equal or nearly equal passage; only with `groupSimilar`."""
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    updated_at: Instant
    parent_document_id: UUID | None = None
    """Id of the archive or mail containing the document; absent: none."""


class FacetValue(common.ResponseModel):
    """A value of a facet, with the number of results."""

    value: str
    """Value for a field of the query: `type:pdf`."""
    label: str
    count: int
    """Number of counted results with the value."""


class Facet(common.ResponseModel):
    """Results counted by a field."""

    field: str
    """Name of the field: type, in, owner or year."""
    values: list[FacetValue]
    """Values, the most frequent first, at most 20."""


class SearchDocumentCatalogResponse(common.Tabular):
    """The results, best first."""

    search_id: UUID
    results: list[CatalogSearchResult]
    """The documents, best first."""
    facets: list[Facet] | None = None
    """Results by type, collection, owner and year; only with `countFacets`."""
    facets_counted: int | None = None
    """Number of results counted in the facets, at most 200; absent without facets."""
    applied: AppliedOptions = Field(default_factory=AppliedOptions)


class CollectionSearchOptions(common.RequestModel):
    """Number of chunks and their form."""

    max_chunks: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    """Most chunks, 1 to 100; 10 unless given."""
    merge_contents: Annotated[bool, Field(strict=True)] = False
    """Whether a document's chunks are also joined as one text; default: false."""
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Lowest score of a chunk, 0 to 1; absent: any."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    enable_smart_filtering: Annotated[bool, Field(strict=True)] | None = None
    """Whether filters are drawn from the query: "finance reports since March 2025"; default: false."""
    enable_query_extraction: Annotated[bool, Field(strict=True)] | None = None
    """Whether the questions of a long message are searched instead of the message; default: false."""
    enable_reranking: Annotated[bool, Field(strict=True)] | None = None
    """Whether a reranking model reorders the best chunks; default: the organization's setting."""
    literal_query: Annotated[bool, Field(strict=True)] | None = None


class SearchDocumentCollectionRequest(common.ActingRequest):
    """Search a collection's chunks; needs VIEWER on the collection and READ on each document."""

    document_collection_id: UUID
    search_query: SearchQuery
    structured_query_filters: Filters = Field(default_factory=list[MetadataFilter])
    """Conditions on metadata, at most 50; all must match."""
    search_options: CollectionSearchOptions = CollectionSearchOptions()
    """How many chunks, and how to search."""


class FoundChunk(common.ResponseModel):
    """A chunk found."""

    chunk_id: UUID
    chunk_index: int
    text: str
    score: float
    """Nearness in meaning from 0 to 1."""
    relevance: float | None = None
    matched: MatchedBy | None = None
    """Why the chunk was found; absent: the service is older."""
    place: PassagePlace | None = None


class CollectionSearchResult(common.NamedDocument):
    """A document with its matching chunks, best first."""

    document_url: str | None = None
    document_version: int | None = None
    """Number of the found version; getDocument shows newer versions."""
    document_metadata: dict[str, str]
    chunks: list[FoundChunk]
    """The matching chunks, best first."""
    merged_contents: str | None = None
    """The chunks as one text; only with `mergeContents`."""


class FoundChunkRow(FoundChunk):
    """A found chunk with its document: a row of a collection search's table."""

    document_id: UUID
    document_name: str
    name = property(attrgetter("document_name"))
    document_external_id: str
    document_url: str | None
    document_version: int | None
    """Number of the found version."""
    document_metadata: dict[str, str]


class SearchDocumentCollectionResponse(common.Tabular):
    """The results; the document with the best chunk comes first."""

    search_id: UUID
    results: list[CollectionSearchResult]
    """The documents; the document with the best chunk comes first."""
    search_terms_used: list[str]
    structured_filters_applied: list[AppliedFilter]
    """Applied filters: the request's, then filters drawn from the query."""
    applied: AppliedOptions = Field(default_factory=AppliedOptions)

    def table_rows(self) -> list[FoundChunkRow]:
        """Return a row per chunk, with its document."""
        return [FoundChunkRow(**dict(result), **dict(chunk)) for result in self.results for chunk in result.chunks]

    @classmethod
    def row_type(cls) -> type[FoundChunkRow]:
        """Return the model of a line."""
        return FoundChunkRow


class SearchFeedback(StrEnum):
    """An end user's feedback on a search or a result."""

    THUMBS_UP = "THUMBS_UP"
    THUMBS_DOWN = "THUMBS_DOWN"


class SubmitSearchFeedbackRequest(common.FeedbackRequest):
    """Keep an end user's feedback on the audit log."""

    search_id: UUID
    """Id of the search: the caller's own, or any search for admins."""
    feedback: SearchFeedback
    """The end user's feedback."""
    comments: Description | None = None
    """The end user's comment, at most 10,000 characters."""
    document_id: UUID | None = None
    """Id of a document in the results; absent: feedback on the whole search."""


class SubmitSearchFeedbackResponse(common.ResponseModel):
    """The audit-log entry with the feedback."""

    audit_log_id: UUID


SEARCH_DOCUMENT_CATALOG = ApiOperation(
    "search/searchDocumentCatalog", SearchDocumentCatalogRequest, SearchDocumentCatalogResponse, READ, SHARED
)
"""Find up to 100 documents, best first, by words and meaning (HYBRID), words (LEXICAL) or meaning (SEMANTIC). A
filter is `{"field": …, "operator": …, "value": …}` with one of `<`, `>`, `<=`, `>=`, `!=`, `==`, `contains`;
all must match. `enable_reranking` lets a model reorder the best 50; `applied.reranking` reports the result."""
SEARCH_DOCUMENT_COLLECTION = ApiOperation(
    "search/searchDocumentCollection",
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
    READ,
    NOT_FOUND,
    by_position=("search_query",),
)
"""Find up to 100 chunks in a collection, grouped by document; needs VIEWER on the collection and READ on each
document. `threshold` drops chunks with lower scores (0 to 1); `merge_contents` also joins a document's chunks.
Filters compare by the field's type in the collection's schema. `enable_smart_filtering` draws filters from the
query ("finance reports since March 2025"), `enable_query_extraction` searches for the questions of a message;
`enable_reranking` lets a model reorder the best 50 chunks; `applied` in the answer reports their effects."""
SUBMIT_SEARCH_FEEDBACK = ApiOperation(
    "search/submitSearchFeedback",
    SubmitSearchFeedbackRequest,
    SubmitSearchFeedbackResponse,
    READ,
    KEYED | NOT_FOUND | SHARED,
    by_position=(),
)
"""Record THUMBS_UP or THUMBS_DOWN on a search, or on a document in its results, in the audit log. The search
must belong to the caller, or to the user named by `user_email`; admins may judge all. An end user outside the
organization is named in the entry. Raises NotFoundError `search_not_found`, BadRequestError
`document_not_in_results`."""

# A search by meaning always finds results, however remote. A result is strong if its relevance is at least this share
# of the best; the first results need a smaller share.
_STRONG, _FIRST, _STRONG_FIRST = 0.6, 3, 0.5


def count_strong(relevance: Sequence[float], has_words: Sequence[bool], mode: SearchMode) -> int:
    """Return how many results, from the first, are strong; in keyword searches, all are strong. Among results with
    words of the query, a result without any needs a larger share of the best relevance."""
    if mode is SearchMode.LEXICAL:
        return len(relevance)
    best, some_have_words = max(relevance, default=0.0), any(has_words)
    for number, (each, has_word) in enumerate(zip(relevance, has_words, strict=True)):
        is_first = number < _FIRST and (has_word or not some_have_words)
        if each < best * (_STRONG_FIRST if is_first else _STRONG):
            return number
    return len(relevance)
