"""documentCollections/docstore/*: syncs that keep collections as outside document databases have them."""

from typing import TypeVar
from uuid import UUID

from pydantic import SecretStr

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any
from carrel.wire import docstore as wire

M = TypeVar("M")


class Docstore(Resource[M]):
    """Syncs into the collections that the caller may edit. Not for service-account tokens."""

    @property
    def with_raw_response(self) -> "Docstore[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Docstore(self._session.as_raw())

    @Operation
    def create_docstore_sync(
        self,
        document_collection_id: Id,
        *,
        docstore_uri: str | SecretStr,
        config: wire.DocstoreConfig | Members,
        user_email: str | None = None,
    ) -> Call[wire.CreateDocstoreSyncResponse]:
        """Keep a collection as a collection of a document database has it, and launch the first run.

        `docstore_uri` is mongodb://user:password@host:port/database or mongodb+srv://…; it is encrypted at rest and
        never returned. `config` is `{"sync_name": …, "collection_name": …, "source_fields": {"body": …,
        "source_name": …}}`, and what else `carrel.wire.docstore.DocstoreConfig` has.
        """
        request = wire.CreateDocstoreSyncRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            docstore_uri=as_any(SecretStr, docstore_uri),
            config=as_any(wire.DocstoreConfig, config),
            user_email=user_email,
        )
        return Call(wire.CREATE_DOCSTORE_SYNC, request)

    @Operation
    def update_docstore_sync(
        self,
        docstore_credential_id: Id,
        *,
        docstore_uri: str | SecretStr,
        config: wire.DocstoreConfig | Members,
        user_email: str | None = None,
    ) -> Call[wire.UpdateDocstoreSyncResponse]:
        """Replace a sync's address and config, and launch a run that reads everything; for who made it, and admins."""
        request = wire.UpdateDocstoreSyncRequest(
            docstore_credential_id=as_any(UUID, docstore_credential_id),
            docstore_uri=as_any(SecretStr, docstore_uri),
            config=as_any(wire.DocstoreConfig, config),
            user_email=user_email,
        )
        return Call(wire.UPDATE_DOCSTORE_SYNC, request)

    @Operation
    def launch_docstore_sync(
        self, docstore_credential_id: Id, *, user_email: str | None = None
    ) -> Call[wire.LaunchDocstoreSyncResponse]:
        """Launch a run that goes on where the last one stopped; `sync_launched` is False while one goes on."""
        request = wire.LaunchDocstoreSyncRequest(
            docstore_credential_id=as_any(UUID, docstore_credential_id), user_email=user_email
        )
        return Call(wire.LAUNCH_DOCSTORE_SYNC, request)

    @Operation
    def get_docstore_sync(
        self, docstore_credential_id: Id, *, user_email: str | None = None
    ) -> Call[wire.GetDocstoreSyncResponse]:
        """Show a sync: its config, its status, the counts of its last run, and what went wrong."""
        request = wire.GetDocstoreSyncRequest(
            docstore_credential_id=as_any(UUID, docstore_credential_id), user_email=user_email
        )
        return Call(wire.GET_DOCSTORE_SYNC, request)

    @ListOperation
    def list_docstore_syncs(
        self,
        *,
        document_collection_id: Id | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.DocstoreSync, wire.ListDocstoreSyncsResponse]:
        """Walk the syncs into collections that the caller may edit, or into one of them."""
        request = wire.ListDocstoreSyncsRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_DOCSTORE_SYNCS, request, lambda page: page.docstore_syncs)

    @ListOperation
    def list_docstore_failures(
        self,
        docstore_credential_id: Id,
        *,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.DocstoreFailure, wire.ListDocstoreFailuresResponse]:
        """Walk the source documents that a sync could not take, each with its reason."""
        request = wire.ListDocstoreFailuresRequest(
            docstore_credential_id=as_any(UUID, docstore_credential_id),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_DOCSTORE_FAILURES, request, lambda page: page.failures)

    @Operation
    def delete_docstore_sync(
        self, docstore_credential_id: Id, *, user_email: str | None = None
    ) -> Call[wire.DeleteDocstoreSyncResponse]:
        """Delete a sync and its address; the documents that it brought stay."""
        request = wire.DeleteDocstoreSyncRequest(
            docstore_credential_id=as_any(UUID, docstore_credential_id), user_email=user_email
        )
        return Call(wire.DELETE_DOCSTORE_SYNC, request)
