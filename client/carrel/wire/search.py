"""search/*: over the catalog, within a collection, and the feedback on what was found."""

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
    """How a filter compares a field with its value."""

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
    """Value to compare with, as a string; it is compared by the field's type."""


class AppliedFilter(common.ResponseModel):
    """A filter a search applied."""

    field: str
    """Name of the metadata field."""
    operator: FilterOperator
    """How the field's value was compared."""
    value: str
    """Value that it was compared with."""


Filters = Annotated[list[MetadataFilter], Field(max_length=50)]


class DrawnFilter(AppliedFilter):
    """A filter that the query states."""

    words: str
    """Words of the query that state it."""


class AppliedFiltering(common.ResponseModel):
    """What `enableSmartFiltering` did; to leave out one, send the others as `structuredQueryFilters` instead."""

    filters: list[DrawnFilter]
    """Filters that the query states; none where nothing is sure."""
    dropped: bool
    """Whether the results are without these filters, because nothing was found with them."""
    by_model: bool | None = None
    """true: the service's language model read them; absent: rules did."""
    note: str | None = None
    """Times and amounts of the query that became no filter, what was left out of what the model read, or why it read
    nothing; absent when there is nothing to say."""


class AppliedExtraction(common.ResponseModel):
    """What `enableQueryExtraction` did."""

    questions: list[str]
    """Questions that were searched for in place of the query, 1 to 4; what they found is one list."""
    by_model: bool | None = None
    """true: the service's language model read them; absent: rules did."""
    note: str | None = None
    """Why the model read nothing; absent when it did, or was not asked."""


class SignKind(StrEnum):
    """What a sign of a query means: an exact phrase, an excluded word, alternatives, or a field with its value."""

    PHRASE = "PHRASE"
    EXCLUDED = "EXCLUDED"
    ALTERNATIVES = "ALTERNATIVES"
    FIELD = "FIELD"


class QuerySign(common.ResponseModel):
    """A sign of the query that was followed."""

    kind: SignKind
    """Meaning of the sign."""
    written: str
    """Part of the query that has the sign, as written. The query without this part is the query without the sign."""
    values: list[str]
    """Words or phrases that the sign applies to; of a field, its value."""
    field: str | None = None
    """Name of the field, in lower case: title, type, owner, in, after or before; absent for other signs."""
    note: str | None = None
    """Why the sign found less than it could have found; absent when there is nothing to say."""


class AppliedSyntax(common.ResponseModel):
    """Signs of the query: "a phrase", -word, NOT word, OR and field:value. `literalQuery` turns them off."""

    signs: list[QuerySign]
    """Signs that were followed, in the query's order."""
    not_understood: list[str] = Field(default_factory=list)
    """Parts of the query that look like signs and were searched for as words, each with the reason."""


class SpellingCorrection(common.ResponseModel):
    """A word that no readable document contains, and the words that were searched for in its place."""

    word: str
    """Word of the query, as written."""
    replaced_by: list[str]
    """Similar words of documents that the caller may search; the first is searched for."""


class AppliedOptions(common.ResponseModel):
    """What a search did beyond its query; a member is absent when there is nothing to say."""

    filtering: AppliedFiltering | None = None
    """Filters drawn from the query."""
    extraction: AppliedExtraction | None = None
    """Questions of the query."""
    reranking: AppliedReranking | None = None
    """Order by a reranking model, too."""
    syntax: AppliedSyntax | None = None
    """Signs of the query; absent when it has none."""
    unmatched_words: list[str] | None = None
    """Words of the query, as written, that nothing contains which the caller may search here; absent: none."""
    corrections: list[SpellingCorrection] | None = None
    """Corrected spellings of unmatched words; absent: none."""
    without_meaning: int | None = None
    """Documents in reach that can be found by words alone, because their vectors are not there yet; at most 1,000 are
    counted, among 5,000 that wait. Absent: none, or a search by words alone."""

    @property
    def missing_words(self) -> list[str]:
        """Unmatched words that were not corrected."""
        corrected = {each.word for each in self.corrections or ()}
        return [word for word in self.unmatched_words or () if word not in corrected]


class ResultOrder(StrEnum):
    """The order of results: by relevance, or by the time of the documents' last change."""

    RELEVANCE = "RELEVANCE"
    NEWEST = "NEWEST"
    OLDEST = "OLDEST"


class CatalogSearchOptions(common.RequestModel):
    """How many documents at most, and which; filters narrow together."""

    max_results: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    """Most documents, 1 to 100; 10 unless given."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only documents of these types, at most 100."""
    metadata_filters: Filters = Field(default_factory=list[MetadataFilter])
    """Conditions on metadata, at most 50, which must all hold."""
    enable_reranking: Annotated[bool, Field(strict=True)] | None = None
    """Whether a reranking model orders the best results again; absent: as the organization has it."""
    literal_query: Annotated[bool, Field(strict=True)] | None = None
    """Whether signs in the query are plain text and its spelling is left as it is; false unless given."""
    order: ResultOrder | None = None
    """Order of the results; RELEVANCE unless given. By time, only relevant results are ordered, 100 at most."""
    passages_per_document: Annotated[int, Field(strict=True, ge=1, le=3)] | None = None
    """Most passages of a document, 1 to 3; 1 unless given."""
    group_similar: Annotated[bool, Field(strict=True)] | None = None
    """Whether documents with equal or nearly equal passages are one result; false unless given."""
    count_facets: Annotated[bool, Field(strict=True)] | None = None
    """Whether the results are also counted by type, collection, owner and year; false unless given."""
    similar_to: UUID | None = None
    """Id of a readable document: its text is searched for in place of the query, and it is left out."""


class SearchDocumentCatalogRequest(common.ActingRequest):
    """Search the documents the caller may READ."""

    search_query: SearchQuery
    search_options: CatalogSearchOptions = CatalogSearchOptions()
    """How many documents, which ones, and how to search."""


class TextSpan(common.ResponseModel):
    """A stretch of text: from `start` up to, not including, `end`, in characters (Unicode code points)."""

    start: int
    """Place of the first character, counted from 0 in Unicode code points."""
    end: int
    """Place after the last character, counted from 0 in Unicode code points."""


class Snippet(common.ResponseModel):
    """A passage of a document, with what in it matched."""

    text: str
    """The passage."""
    matches: list[TextSpan]
    """Where in the passage it matched."""
    chunk_index: int | None = None
    """Place of the passage's chunk in the catalog, in reading order, counted from 0; getDocumentChunks has it."""
    place: PassagePlace | None = None
    """Where the passage stands in the document; absent where that is unknown."""


class MatchedBy(common.ResponseModel):
    """Why a result was found."""

    words: list[str]
    """Words of the query, as written or corrected, that the title or the passage has in any form."""
    meaning: bool
    """Whether the document is close to the query in meaning."""

    def describe(self) -> str:
        """Return the reason for people; empty where neither words nor meaning are one."""
        return f"Contains {', '.join(self.words)}" if self.words else "Close in meaning" if self.meaning else ""


class CatalogSearchResult(common.NamedDocument):
    """A document found."""

    document_external_url: str | None = None
    document_version: int | None = None
    """Number of the version that was found; getDocument tells whether there is a newer one."""
    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    score: float
    """Nearness in meaning from 0 to 1; falls with the rank."""
    relevance: float | None = None
    """Relevance from 0 to 1 by words and meaning; falls with the rank. Absent: the service is older."""
    matched: MatchedBy | None = None
    """Why the document was found; absent: the service is older."""
    snippet: Snippet
    """A passage of the document that matched."""
    further_passages: list[Snippet] = Field(default_factory=list)
    """Other passages that matched, best first, when `passagesPerDocument` asked for them."""
    similar: list[common.NamedDocument] = Field(default_factory=list)
    """Documents with an equal or nearly equal passage, when `groupSimilar` asked for them."""
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    """The document's metadata: values by field name, always strings."""
    updated_at: Instant
    parent_document_id: UUID | None = None
    """Id of the archive or mail that the document is a file in; absent: none."""


class FacetValue(common.ResponseModel):
    """A value of a facet, and how many results have it."""

    value: str
    """Value, as a field of the query takes it: `type:pdf`."""
    label: str
    """Value as people read it."""
    count: int
    """Number of counted results with this value."""


class Facet(common.ResponseModel):
    """Results counted by a field."""

    field: str
    """Name of the field: type, in, owner or year."""
    values: list[FacetValue]
    """Values, the most frequent first, at most 20."""


class SearchDocumentCatalogResponse(common.Tabular):
    """What was found, best first."""

    search_id: UUID
    results: list[CatalogSearchResult]
    """The documents, best first."""
    facets: list[Facet] | None = None
    """Results by type, collection, owner and year; absent unless `countFacets` asked for them."""
    facets_counted: int | None = None
    """Number of results that the facets count, at most 200; absent without facets."""
    applied: AppliedOptions = Field(default_factory=AppliedOptions)
    """What the options of the search did."""


class CollectionSearchOptions(common.RequestModel):
    """How many chunks at most and how they are given."""

    max_chunks: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    """Most chunks, 1 to 100; 10 unless given."""
    merge_contents: Annotated[bool, Field(strict=True)] = False
    """Whether a document's chunks are also given as one text; false unless given."""
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Lowest score of a chunk, 0 to 1; absent: any."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    enable_smart_filtering: Annotated[bool, Field(strict=True)] | None = None
    """Whether filters are drawn from the query: "finance reports since March 2025"; false unless given."""
    enable_query_extraction: Annotated[bool, Field(strict=True)] | None = None
    """Whether the questions of a long message are searched for in place of the message; false unless given."""
    enable_reranking: Annotated[bool, Field(strict=True)] | None = None
    """Whether a reranking model orders the best chunks again; absent: as the organization has it."""
    literal_query: Annotated[bool, Field(strict=True)] | None = None
    """Whether signs in the query are plain text and its spelling is left as it is; false unless given."""


class SearchDocumentCollectionRequest(common.ActingRequest):
    """Search a collection's chunks; needs VIEWER there and READ on each document."""

    document_collection_id: UUID
    search_query: SearchQuery
    structured_query_filters: Filters = Field(default_factory=list[MetadataFilter])
    """Conditions on metadata, at most 50, which must all hold."""
    search_options: CollectionSearchOptions = CollectionSearchOptions()
    """How many chunks, and how to search."""


class FoundChunk(common.ResponseModel):
    """A chunk found."""

    chunk_id: UUID
    """Id of the chunk."""
    chunk_index: int
    """Place of the chunk in reading order, counted from 0."""
    text: str
    """Text of the chunk."""
    score: float
    """Nearness in meaning from 0 to 1."""
    relevance: float | None = None
    """Relevance from 0 to 1 by words and meaning; falls with the rank. Absent: the service is older."""
    matched: MatchedBy | None = None
    """Why the chunk was found; absent: the service is older."""
    place: PassagePlace | None = None
    """Where the chunk stands in the document; absent where that is unknown."""


class CollectionSearchResult(common.NamedDocument):
    """A document with its chunks that were found, best first."""

    document_url: str | None = None
    """Address of the document in its source system."""
    document_version: int | None = None
    """Number of the version that was found; getDocument tells whether there is a newer one."""
    document_metadata: dict[str, str]
    """The document's metadata in the collection: values by field name, always strings."""
    chunks: list[FoundChunk]
    """The chunks that were found, best first."""
    merged_contents: str | None = None
    """The chunks as one text, when `mergeContents` asked for it."""


class FoundChunkRow(FoundChunk):
    """A chunk found, with the document it belongs to: a line of a collection search's table."""

    document_id: UUID
    document_name: str
    """Name of the document, as people see it."""
    name = property(attrgetter("document_name"))
    document_external_id: str
    document_url: str | None
    """Address of the document in its source system."""
    document_version: int | None
    """Number of the version that was found."""
    document_metadata: dict[str, str]
    """The document's metadata in the collection: values by field name, always strings."""


class SearchDocumentCollectionResponse(common.Tabular):
    """What was found, the document with the best chunk first."""

    search_id: UUID
    results: list[CollectionSearchResult]
    """The documents, the one with the best chunk first."""
    search_terms_used: list[str]
    """Terms that were searched for."""
    structured_filters_applied: list[AppliedFilter]
    """Filters that were applied: the request's, then those drawn from the query."""
    applied: AppliedOptions = Field(default_factory=AppliedOptions)
    """What the options of the search did."""

    def table_rows(self) -> list[FoundChunkRow]:
        """Return one row per chunk, each with its document."""
        return [FoundChunkRow(**dict(result), **dict(chunk)) for result in self.results for chunk in result.chunks]

    @classmethod
    def row_type(cls) -> type[FoundChunkRow]:
        """Return the model of a line."""
        return FoundChunkRow


class SearchFeedback(StrEnum):
    """What an end user thinks of a search or a result."""

    THUMBS_UP = "THUMBS_UP"
    THUMBS_DOWN = "THUMBS_DOWN"


class SubmitSearchFeedbackRequest(common.FeedbackRequest):
    """Keep an end user's feedback on the audit log."""

    search_id: UUID
    """Id of the search: one's own, or for an admin anybody's."""
    feedback: SearchFeedback
    """What the end user thinks."""
    comments: Description | None = None
    """What the end user says about it, at most 10,000 characters."""
    document_id: UUID | None = None
    """Id of the document it is about, which the search found; absent: the whole search."""


class SubmitSearchFeedbackResponse(common.ResponseModel):
    """The audit-log entry that holds the feedback."""

    audit_log_id: UUID


SEARCH_DOCUMENT_CATALOG = ApiOperation(
    "search/searchDocumentCatalog", SearchDocumentCatalogRequest, SearchDocumentCatalogResponse, READ, SHARED
)
"""Find up to 100 documents, best first, by words and meaning (HYBRID), words (LEXICAL) or meaning (SEMANTIC).

A filter is `{"field": …, "operator": …, "value": …}` with one of `<`, `>`, `<=`, `>=`, `!=`, `==`, `contains`;
filters narrow together. `enable_reranking` has a model order the best 50 again; `applied.reranking` of the
answer says whether it did."""
SEARCH_DOCUMENT_COLLECTION = ApiOperation(
    "search/searchDocumentCollection",
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
    READ,
    NOT_FOUND,
    by_position=("search_query",),
)
"""Find up to 100 chunks in a collection, grouped by document; needs VIEWER there and READ on each document.

`threshold` drops chunks that score less (0 to 1); `merge_contents` also joins a document's chunks. Filters
compare by the type the collection's schema gives the field. `enable_smart_filtering` draws filters from the
query ("finance reports since March 2025"), `enable_query_extraction` searches for the questions of a message;
`enable_reranking` has a model order the best 50 chunks again; `applied` in the answer says what they did."""
SUBMIT_SEARCH_FEEDBACK = ApiOperation(
    "search/submitSearchFeedback",
    SubmitSearchFeedbackRequest,
    SubmitSearchFeedbackResponse,
    READ,
    KEYED | NOT_FOUND | SHARED,
    by_position=(),
)
"""Keep THUMBS_UP or THUMBS_DOWN on a search, or on a document that it found, on the audit log.

The search is the caller's own, or that of the user named by `user_email`; admins judge everybody's. An end user
who is no user of the organization is kept in the entry's text. Raises NotFoundError `search_not_found` for
other searches, BadRequestError `document_not_in_results` for other documents."""

# A search by meaning always finds something, however far it is. A result is strong whose relevance is at least this
# share of the best one's; the first results need a smaller share.
_STRONG, _FIRST, _STRONG_FIRST = 0.6, 3, 0.5


def count_strong(relevance: Sequence[float], has_words: Sequence[bool], mode: SearchMode) -> int:
    """Return how many results, of the first ones, are strong; the others are less relevant.

    Among results with words of the query, a result without any needs the larger share. By keywords, all are strong."""
    if mode is SearchMode.LEXICAL:
        return len(relevance)
    best, some_have_words = max(relevance, default=0.0), any(has_words)
    for number, (each, has_word) in enumerate(zip(relevance, has_words, strict=True)):
        is_first = number < _FIRST and (has_word or not some_have_words)
        if each < best * (_STRONG_FIRST if is_first else _STRONG):
            return number
    return len(relevance)
