"""search/*: over the catalog, within a collection, and the feedback on what was found."""

from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from carrel.wire.common import (
    ActingRequest,
    Description,
    Instant,
    Label,
    MetadataValue,
    RequestModel,
    ResourceIdentifier,
    ResourceType,
    ResponseModel,
    SearchQuery,
    Tabular,
)


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


class MetadataFilter(RequestModel):
    """A condition on a metadata field; the value is a string, compared by the field's type."""

    field: Label
    operator: FilterOperator
    value: MetadataValue


class AppliedFilter(ResponseModel):
    """A filter a search applied."""

    field: str
    operator: FilterOperator
    value: str


Filters = Annotated[list[MetadataFilter], Field(max_length=50)]


class CatalogSearchOptions(RequestModel):
    """How many documents at most, and which; filters narrow together."""

    max_results: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    mode: SearchMode = SearchMode.HYBRID
    resource_types: Annotated[list[ResourceType] | None, Field(min_length=1, max_length=100)] = None
    metadata_filters: Filters = Field(default_factory=list[MetadataFilter])


class SearchDocumentCatalogRequest(ActingRequest):
    """Search the documents the caller may READ (seed)."""

    search_query: SearchQuery
    search_options: CatalogSearchOptions = CatalogSearchOptions()


class TextSpan(ResponseModel):
    """A stretch of text: from `start` up to, not including, `end`, in characters (Unicode code points)."""

    start: int
    end: int


class Snippet(ResponseModel):
    """A passage of a document, with what in it matched."""

    text: str
    matches: list[TextSpan]


class CatalogSearchResult(ResponseModel):
    """A document found; `score` is between 0 and 1 and falls with the rank."""

    document_id: UUID
    document_name: str
    document_external_id: str
    document_external_url: str | None = None
    resource: ResourceIdentifier
    score: float
    snippet: Snippet
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    updated_at: Instant


class SearchDocumentCatalogResponse(Tabular):
    """What was found, best first."""

    rows_in: ClassVar[str] = "results"
    search_id: UUID
    results: list[CatalogSearchResult]


class CollectionSearchOptions(RequestModel):
    """How many chunks at most and how they are given.

    `threshold` drops chunks that score less; `merge_contents` joins a document's chunks into one text. The three
    `enable…` switches, which published clients send, are accepted without effect.
    """

    max_chunks: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    merge_contents: Annotated[bool, Field(strict=True)] = False
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    mode: SearchMode = SearchMode.HYBRID
    enable_smart_filtering: Annotated[bool, Field(strict=True)] | None = None
    enable_query_extraction: Annotated[bool, Field(strict=True)] | None = None
    enable_reranking: Annotated[bool, Field(strict=True)] | None = None


class SearchDocumentCollectionRequest(ActingRequest):
    """Search a collection's chunks; needs VIEWER there and READ on each document; extension."""

    document_collection_id: UUID
    search_query: SearchQuery
    structured_query_filters: Filters = Field(default_factory=list[MetadataFilter])
    search_options: CollectionSearchOptions = CollectionSearchOptions()


class FoundChunk(ResponseModel):
    """A chunk found; `chunk_index` counts from 0, `score` is between 0 and 1."""

    chunk_id: UUID
    chunk_index: int
    text: str
    score: float


class CollectionSearchResult(ResponseModel):
    """A document with its chunks that were found, best first."""

    document_id: UUID
    document_name: str
    document_external_id: str
    document_url: str | None = None
    document_metadata: dict[str, str]
    chunks: list[FoundChunk]
    merged_contents: str | None = None


class FoundChunkRow(FoundChunk):
    """A chunk found, with the document it belongs to: a line of a collection search's table."""

    document_id: UUID
    document_name: str
    document_external_id: str
    document_url: str | None
    document_metadata: dict[str, str]


def _row_of(result: CollectionSearchResult, chunk: FoundChunk) -> FoundChunkRow:
    return FoundChunkRow(
        chunk_id=chunk.chunk_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        score=chunk.score,
        document_id=result.document_id,
        document_name=result.document_name,
        document_external_id=result.document_external_id,
        document_url=result.document_url,
        document_metadata=result.document_metadata,
    )


class SearchDocumentCollectionResponse(Tabular):
    """What was found, the document with the best chunk first."""

    rows_in: ClassVar[str] = "results"
    search_id: UUID
    results: list[CollectionSearchResult]
    search_terms_used: list[str]
    structured_filters_applied: list[AppliedFilter]

    def table_rows(self) -> list[FoundChunkRow]:
        """Return one row per chunk, each with its document."""
        return [_row_of(result, chunk) for result in self.results for chunk in result.chunks]

    @classmethod
    def row_type(cls) -> type[FoundChunkRow]:
        """Return the model of a line."""
        return FoundChunkRow


class SearchFeedback(StrEnum):
    """What an end user thinks of a search or a result."""

    THUMBS_UP = "THUMBS_UP"
    THUMBS_DOWN = "THUMBS_DOWN"


class SubmitSearchFeedbackRequest(ActingRequest):
    """Keep an end user's feedback on the audit log (seed); `document_id`: about this result alone (extension)."""

    search_id: UUID
    feedback: SearchFeedback
    comments: Description | None = None
    document_id: UUID | None = None


class SubmitSearchFeedbackResponse(ResponseModel):
    """The audit-log entry that holds the feedback."""

    audit_log_id: UUID
