"""catalog/*: upload, plan, look up, list, download and delete documents."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import DownloadOperation, ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel._uploads import FileInput, Upload, UploadProgress, source_of
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnyIndexingStatus, AnyResourceType
from carrel.wire import catalog as wire
from carrel.wire import pages, uploads
from carrel.wire.common import ResourceType

M = TypeVar("M")

# The service answers an upload within about 20 seconds, unless asked to wait until it is indexed.
INDEXING_PATIENCE = 3600.0


class Catalog(Resource[M]):
    """The documents of the organization that the caller may read."""

    @property
    def with_raw_response(self) -> "Catalog[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Catalog(self._session.as_raw())

    @Operation
    def upload_file(
        self,
        file: FileInput,
        *,
        document_external_id: str,
        document_name: str | None = None,
        file_name: str | None = None,
        collection_id: Id | None = None,
        upload_as_user_email: str | None = None,
        allowed_users_email_addresses: Sequence[str] | None = None,
        allowed_group_ids: Sequence[Id] | None = None,
        internal_public: bool | None = None,
        document_external_url: str | None = None,
        custom_metadata: Mapping[str, str] | None = None,
        source_system_updated: datetime | str | None = None,
        resource_id: str | None = None,
        resource_type: AnyResourceType | None = None,
        force_update: bool = False,
        read_pictures: bool | None = None,
        reindex_collections: bool = True,
        fingerprint: str | None = None,
        await_vector_store_sync: bool = False,
        on_progress: UploadProgress | None = None,
    ) -> Call[uploads.UploadFileResponse]:
        """Upload a document, or update the one with the same external id.

        `file` is a path, bytes, or a file open for reading bytes; it is streamed, never held whole. Access that is not
        given stays as it was; a new document without any is readable by its uploader alone. With
        `await_vector_store_sync` the call returns when the document is searchable, however long that takes; otherwise
        `indexing` tells whether it is. With `read_pictures`, text in pictures within the file is read by machine (OCR),
        too, after the answer; it stays so for updates that don't say. Sent again after a broken connection unless
        `file` can't be rewound. Raises
        PermissionDeniedError `external_id_taken` when the external id is somebody else's document.

        `on_progress` is called with two numbers: how many of the file's bytes the socket has taken, and how many there
        are (None for a pipe). It gets 0 when an attempt begins, so again when the file is sent again, and is called
        after each piece of up to 256 KiB. What it raises ends the upload. An AsyncCarrel calls it in the event loop.
        """
        form = uploads.UploadFileForm(
            document_external_id=document_external_id,
            document_name=document_name,
            collection_id=as_any(UUID, collection_id),
            upload_as_user_email=upload_as_user_email,
            allowed_users_email_addresses=as_list(str, allowed_users_email_addresses),
            allowed_group_ids=as_list(UUID, allowed_group_ids),
            internal_public=internal_public,
            document_external_url=document_external_url,
            custom_metadata=None if custom_metadata is None else dict(custom_metadata),
            source_system_updated=as_any(datetime, source_system_updated),
            resource_id=resource_id,
            resource_type=as_any(ResourceType, resource_type),
            force_update=force_update,
            read_pictures=read_pictures,
            reindex_collections=reindex_collections,
            fingerprint=fingerprint,
            await_vector_store_sync=await_vector_store_sync,
        )
        source = source_of(file, file_name=file_name, fallback_name=document_name or document_external_id)
        upload = Upload(fields=form.parts(), part="file", source=source, on_progress=on_progress)
        patience = INDEXING_PATIENCE if await_vector_store_sync else 0.0
        return Call(uploads.UPLOAD_FILE, upload, patience=patience)

    @Operation
    def upload_document_file(
        self, file: FileInput, *, file_name: str | None = None
    ) -> Call[uploads.UploadDocumentFileResponse]:
        """Upload a document under an external id of its own (deprecated: use `upload_file`)."""
        source = source_of(file, file_name=file_name, fallback_name="document")
        upload = Upload(fields={}, part="document", source=source)
        return Call(uploads.UPLOAD_DOCUMENT_FILE, upload)

    @Operation
    def plan_upload(
        self, documents: Sequence[uploads.PlannedUpload | Members], *, upload_as_user_email: str | None = None
    ) -> Call[uploads.PlanUploadResponse]:
        """Ask what uploading each of up to 1000 documents would do, by the fingerprints of what would be sent."""
        request = uploads.PlanUploadRequest(
            documents=as_list(uploads.PlannedUpload, documents), upload_as_user_email=upload_as_user_email
        )
        return Call(uploads.PLAN_UPLOAD, request)

    @Operation
    def get_document(self, document_id: Id, *, user_email: str | None = None) -> Call[wire.GetDocumentResponse]:
        """Return a document with its versions, newest first, and how far it is indexed where."""
        request = wire.GetDocumentRequest(document_id=as_any(UUID, document_id), user_email=user_email)
        return Call(wire.GET_DOCUMENT, request)

    @ListOperation
    def list_documents(
        self,
        *,
        ids: Sequence[Id] | None = None,
        document_external_ids: Sequence[str] | None = None,
        document_name: str | None = None,
        owner_email: str | None = None,
        resource_types: Sequence[AnyResourceType] | None = None,
        media_types: Sequence[str] | None = None,
        updated_from: datetime | str | None = None,
        updated_to: datetime | str | None = None,
        indexing: AnyIndexingStatus | None = None,
        parent_document_id: Id | None = None,
        contained: bool | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.Document, wire.ListDocumentsResponse]:
        """Walk the documents the caller may read, in a stable order; filters narrow together.

        `ids` and `document_external_ids` are at most 1000 each, and those of nothing are passed over.
        `document_name` is part of the name, whatever its case; `updated_from` is included, `updated_to` is not.
        `indexing` (DONE, RUNNING or FAILED) is of the catalog's index. `parent_document_id` is the archive or mail that
        the documents are files in; `contained`: only files in any (True), or only documents that are none (False).
        """
        request = wire.ListDocumentsRequest(
            ids=as_list(UUID, ids),
            document_external_ids=as_list(str, document_external_ids),
            document_name=document_name,
            owner_email=owner_email,
            resource_types=as_list(ResourceType, resource_types),
            media_types=as_list(str, media_types),
            updated_from=as_any(datetime, updated_from),
            updated_to=as_any(datetime, updated_to),
            indexing=as_any(wire.IndexingStatus, indexing),
            parent_document_id=as_any(UUID, parent_document_id),
            contained=contained,
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_DOCUMENTS, request, lambda page: page.documents)

    @ListOperation
    def list_left_out_files(
        self, document_id: Id, *, user_email: str | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.LeftOutFile, wire.ListLeftOutFilesResponse]:
        """Walk the files in an archive or mail that are no documents, each with its reason, in their order there.

        Those in an archive in it are listed of that one. Raises NotFoundError for who may not read it.
        """
        request = wire.ListLeftOutFilesRequest(
            document_id=as_any(UUID, document_id), user_email=user_email, page_size=page_size, page_token=page_token
        )
        return Listing(wire.LIST_LEFT_OUT_FILES, request, lambda page: page.files)

    @DownloadOperation
    def download_document(
        self, document_id: Id, *, document_version: int | None = None, user_email: str | None = None
    ) -> Call[Any]:
        """Open a document's file, of its newest version unless one is named; `save`, `read` or iterate it."""
        request = wire.DownloadDocumentRequest(
            document_id=as_any(UUID, document_id), document_version=document_version, user_email=user_email
        )
        return Call(wire.DOWNLOAD_DOCUMENT, request)

    @DownloadOperation
    def download_document_page(
        self, document_id: Id, page: int, *, document_version: int | None = None, user_email: str | None = None
    ) -> Call[Any]:
        """Open a page of a PDF or picture, counted from 1, as a JPEG; its `page_count` tells how many pages there are.

        It is the newest version's unless one is named. The boxes of a passage's `place` are in fractions of the
        picture's width and height. Raises NotFoundError `page_not_found` after the last page, BadRequestError
        `document_without_pages` for other formats.
        """
        request = pages.DownloadDocumentPageRequest(
            document_id=as_any(UUID, document_id), page=page, document_version=document_version, user_email=user_email
        )
        return Call(pages.DOWNLOAD_DOCUMENT_PAGE, request)

    @Operation
    def reindex_document(self, document_id: Id, *, user_email: str | None = None) -> Call[wire.ReindexDocumentResponse]:
        """Chunk and index a document's newest contents in the catalog again, such as after indexing has failed.

        Raises PermissionDeniedError `document_editor_required` for who may read it and not update it.
        """
        request = wire.ReindexDocumentRequest(document_id=as_any(UUID, document_id), user_email=user_email)
        return Call(wire.REINDEX_DOCUMENT, request)

    @Operation
    def delete_document(self, document_id: Id, *, user_email: str | None = None) -> Call[wire.DeleteDocumentResponse]:
        """Delete a document everywhere; its id and version numbers are never used for something else."""
        request = wire.DeleteDocumentRequest(document_id=as_any(UUID, document_id), user_email=user_email)
        return Call(wire.DELETE_DOCUMENT, request)
