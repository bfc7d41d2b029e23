"""search/*: over the catalog, within a collection, feedback on what was found, and the caller's own searches."""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import Operation, Raw, Resource
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnyResourceType, AnySearchFeedback, AnySearchMode
from carrel.wire import own_searches
from carrel.wire import search as wire
from carrel.wire.common import ResourceType

M = TypeVar("M")


class Search(Resource[M]):
    """Searches; only what the acting principal may read is ever ranked, counted or quoted."""

    @property
    def with_raw_response(self) -> "Search[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Search(self._session.as_raw())

    @Operation
    def search_document_catalog(
        self,
        search_query: str,
        *,
        max_results: int = 10,
        mode: AnySearchMode = wire.SearchMode.HYBRID,
        resource_types: Sequence[AnyResourceType] | None = None,
        metadata_filters: Sequence[wire.MetadataFilter | Members] = (),
        enable_reranking: bool | None = None,
        user_email: str | None = None,
    ) -> Call[wire.SearchDocumentCatalogResponse]:
        """Find up to 100 documents, best first, by words and meaning (HYBRID), words (LEXICAL) or meaning (SEMANTIC).

        A filter is `{"field": …, "operator": …, "value": …}` with one of `<`, `>`, `<=`, `>=`, `!=`, `==`, `contains`;
        filters narrow together. `enable_reranking` has a model order the best 50 again; `applied.reranking` of the
        answer says whether it did.
        """
        options = wire.CatalogSearchOptions(
            max_results=max_results,
            mode=as_any(wire.SearchMode, mode),
            resource_types=as_list(ResourceType, resource_types),
            metadata_filters=as_list(wire.MetadataFilter, metadata_filters),
            enable_reranking=enable_reranking,
        )
        request = wire.SearchDocumentCatalogRequest(
            search_query=search_query, search_options=options, user_email=user_email
        )
        return Call(wire.SEARCH_DOCUMENT_CATALOG, request)

    @Operation
    def search_document_collection(
        self,
        search_query: str,
        *,
        document_collection_id: Id,
        max_chunks: int = 10,
        merge_contents: bool = False,
        threshold: float | None = None,
        mode: AnySearchMode = wire.SearchMode.HYBRID,
        structured_query_filters: Sequence[wire.MetadataFilter | Members] = (),
        enable_smart_filtering: bool | None = None,
        enable_query_extraction: bool | None = None,
        enable_reranking: bool | None = None,
        user_email: str | None = None,
    ) -> Call[wire.SearchDocumentCollectionResponse]:
        """Find up to 100 chunks in a collection, grouped by document; needs VIEWER there and READ on each document.

        `threshold` drops chunks that score less (0 to 1); `merge_contents` also joins a document's chunks. Filters
        compare by the type the collection's schema gives the field. `enable_smart_filtering` draws filters from the
        query ("finance reports since March 2025"), `enable_query_extraction` searches for the questions of a message;
        `enable_reranking` has a model order the best 50 chunks again; `applied` in the answer says what they did.
        """
        options = wire.CollectionSearchOptions(
            max_chunks=max_chunks,
            merge_contents=merge_contents,
            threshold=threshold,
            mode=as_any(wire.SearchMode, mode),
            enable_smart_filtering=enable_smart_filtering,
            enable_query_extraction=enable_query_extraction,
            enable_reranking=enable_reranking,
        )
        request = wire.SearchDocumentCollectionRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            search_query=search_query,
            structured_query_filters=as_list(wire.MetadataFilter, structured_query_filters),
            search_options=options,
            user_email=user_email,
        )
        return Call(wire.SEARCH_DOCUMENT_COLLECTION, request)

    @Operation
    def submit_search_feedback(
        self,
        *,
        search_id: Id,
        feedback: AnySearchFeedback,
        comments: str | None = None,
        document_id: Id | None = None,
        user_email: str | None = None,
    ) -> Call[wire.SubmitSearchFeedbackResponse]:
        """Keep THUMBS_UP or THUMBS_DOWN on a search, or on a document that it found, on the audit log.

        The search is the caller's own, or that of the user named by `user_email`; admins judge everybody's. An end user
        who is no user of the organization is kept in the entry's text. Raises NotFoundError `search_not_found` for
        other searches, BadRequestError `document_not_in_results` for other documents.
        """
        request = wire.SubmitSearchFeedbackRequest(
            search_id=as_any(UUID, search_id),
            feedback=as_any(wire.SearchFeedback, feedback),
            comments=comments,
            document_id=as_any(UUID, document_id),
            user_email=user_email,
        )
        return Call(wire.SUBMIT_SEARCH_FEEDBACK, request)

    @Operation
    def list_recent_searches(self, *, max_searches: int = 10) -> Call[own_searches.ListRecentSearchesResponse]:
        """List up to 50 searches that the caller did of late, each once, the newest first.

        They come from the search log, as long as that keeps their words; nobody else's are among them.
        """
        request = own_searches.ListRecentSearchesRequest(max_searches=max_searches)
        return Call(own_searches.LIST_RECENT_SEARCHES, request)

    @Operation
    def save_search(
        self,
        search_query: str,
        *,
        document_collection_id: Id | None = None,
        mode: AnySearchMode = wire.SearchMode.HYBRID,
        metadata_filters: Sequence[wire.MetadataFilter | Members] = (),
    ) -> Call[own_searches.SaveSearchResponse]:
        """Save a search, of the catalog or a collection, for the caller alone; saving it again changes nothing.

        Raises ConflictError `too_many_saved_searches` beyond 100.
        """
        request = own_searches.SaveSearchRequest(
            search_query=search_query,
            document_collection_id=as_any(UUID, document_collection_id),
            mode=as_any(wire.SearchMode, mode),
            metadata_filters=as_list(wire.MetadataFilter, metadata_filters),
        )
        return Call(own_searches.SAVE_SEARCH, request)

    @Operation
    def list_saved_searches(self) -> Call[own_searches.ListSavedSearchesResponse]:
        """List the searches that the caller saved, at most 100, the newest first."""
        return Call(own_searches.LIST_SAVED_SEARCHES, own_searches.ListSavedSearchesRequest())

    @Operation
    def delete_saved_search(self, saved_search_id: Id) -> Call[own_searches.DeleteSavedSearchResponse]:
        """Delete a search that the caller saved. Raises NotFoundError `saved_search_not_found`."""
        request = own_searches.DeleteSavedSearchRequest(saved_search_id=as_any(UUID, saved_search_id))
        return Call(own_searches.DELETE_SAVED_SEARCH, request)
