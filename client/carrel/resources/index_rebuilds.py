"""documentCollections/…IndexRebuild: an index made anew with another embedding model, and swapped in at once."""

from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any
from carrel.wire import rebuilds as wire

M = TypeVar("M")


class IndexRebuilds(Resource[M]):
    """The index of a collection, for its EDITORs and admins; without a collection the catalog's, for admins."""

    @property
    def with_raw_response(self) -> "IndexRebuilds[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return IndexRebuilds(self._session.as_raw())

    @Operation
    def start_index_rebuild(
        self,
        document_collection_id: Id | None = None,
        *,
        embeddings_model: str,
        force: bool = False,
        user_email: str | None = None,
    ) -> Call[wire.StartIndexRebuildResponse]:
        """Make an index with another model beside the one that is searched; returns at once.

        While it goes on already with this model, what failed is tried again at once; with `force`, the new index takes
        the old one's place without the documents that fail. Raises ConflictError `model_in_use` for the model it has,
        `rebuild_running` while it is rebuilt with a third one.
        """
        request = wire.StartIndexRebuildRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            embeddings_model=embeddings_model,
            force=force,
            user_email=user_email,
        )
        return Call(wire.START_INDEX_REBUILD, request)

    @Operation
    def get_index_rebuild(
        self, document_collection_id: Id | None = None, *, user_email: str | None = None
    ) -> Call[wire.GetIndexRebuildResponse]:
        """Show the newest rebuild of an index. Raises ConflictError `no_rebuild` when there has been none."""
        request = wire.GetIndexRebuildRequest(
            document_collection_id=as_any(UUID, document_collection_id), user_email=user_email
        )
        return Call(wire.GET_INDEX_REBUILD, request)

    @ListOperation
    def list_index_rebuild_failures(
        self,
        document_collection_id: Id | None = None,
        *,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.IndexRebuildFailure, wire.ListIndexRebuildFailuresResponse]:
        """Walk the documents that keep a rebuild from coming to its end, each with the reason of its last failure."""
        request = wire.ListIndexRebuildFailuresRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_INDEX_REBUILD_FAILURES, request, lambda page: page.failures)

    @Operation
    def cancel_index_rebuild(
        self, document_collection_id: Id | None = None, *, user_email: str | None = None
    ) -> Call[wire.CancelIndexRebuildResponse]:
        """Give up the rebuild that goes on; the index that is searched stays. Raises ConflictError `rebuild_over`."""
        request = wire.CancelIndexRebuildRequest(
            document_collection_id=as_any(UUID, document_collection_id), user_email=user_email
        )
        return Call(wire.CANCEL_INDEX_REBUILD, request)
