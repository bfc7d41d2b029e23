"""catalog/*: uploading, planning uploads, showing, downloading and deleting documents."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid5

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError

from carrel.wire import catalog as wire
from carrel.wire import pages, trash, uploads
from service.auth.callers import acting_for
from service.domains.documents.catalog import documents
from service.domains.documents.catalog.decisions import plan_uploads
from service.domains.documents.catalog.downloads import download, download_page
from service.domains.documents.catalog.trash import service as trash_rules
from service.domains.documents.catalog.uploads import ACTING_PART, require_room, save_upload, use_stored_name
from service.domains.documents.catalog.waiting import wait_for_index
from service.domains.documents.stored.queries import StoredFile
from service.permissions.service import resolve_readers
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.dependencies import CallerDep, RuntimeDep, SnapshotDep, is_stopping
from service.web.guidance import refuse_members
from service.web.idempotency import REPLAYED, idempotency_key
from service.web.multipart import Received, receive, uploads_folder, write_bytes
from service.web.routing import Router

router = Router()
# A file with this name is read as plain text, unless it begins like another kind of file (%PDF-).
FILE_NAME = "contents.txt"


@router.operation(uploads.UPLOAD_FILE)
async def upload(request: Request, runtime: RuntimeDep, caller: CallerDep) -> uploads.UploadFileResponse:
    """Create or update the document of an external id from a file. 503 while the indexing backlog is full."""
    async with _receive_form(request, runtime, file_part="file", form=uploads.UploadFileForm) as parts:
        form = await use_stored_name(runtime, caller, _parse_upload_form(parts.fields))
        saved = await save_upload(runtime, caller, form=form, file=parts.file, gives_up=partial(is_stopping, request))
    return await wait_for_index(request, runtime, saved, patiently=form.await_vector_store_sync)


@asynccontextmanager
async def _receive_form(
    request: Request, runtime: Runtime, *, file_part: str, form: type[BaseModel]
) -> AsyncGenerator[Received]:
    """Receive a form whose text parts are the fields of `form`, its file on disk until the block ends."""
    folder = uploads_folder(runtime.settings)
    allowed = frozenset(field.alias or name for name, field in form.model_fields.items())
    limit = runtime.settings.max_upload_bytes
    async with receive(request, folder=folder, file_part=file_part, max_file_bytes=limit, allowed=allowed) as parts:
        yield parts


def _parse_upload_form(fields: dict[str, str]) -> uploads.UploadFileForm:
    try:
        return uploads.UploadFileForm.model_validate(fields)
    except ValidationError as error:
        raise refuse_members(error.errors(include_url=False), uploads.UploadFileForm) from error


@router.operation(uploads.UPLOAD_DOCUMENT_FILE, own_key=True)
async def upload_document(
    request: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> uploads.UploadDocumentFileResponse:
    """Create a document from a file, by Idempotency-Key if given. Superseded by uploadFile."""
    key = idempotency_key(request)
    if key is None:
        # Without a key, the document is new and adds to the backlog, so refuse before reading the body.
        await require_room(runtime, caller.organization_id, None)
    async with _receive_form(request, runtime, file_part="document", form=uploads.UploadDocumentFileForm) as parts:
        own_id = uuid7() if key is None else uuid5(caller.principal_id, key)
        form = uploads.UploadFileForm(document_external_id=f"upload-{own_id}")
        saved = await save_upload(
            runtime, caller, form=form, file=parts.file, new_only=True, gives_up=partial(is_stopping, request)
        )
    uploaded = await wait_for_index(request, runtime, saved, patiently=form.await_vector_store_sync)
    if uploaded.status is uploads.UploadStatus.UNCHANGED:
        response.headers[REPLAYED] = "true"
    return uploads.UploadDocumentFileResponse(**dict(uploaded))


@router.operation(uploads.UPLOAD_DOCUMENT_CONTENTS)
async def upload_contents(
    request: uploads.UploadDocumentContentsRequest, http: Request, runtime: RuntimeDep, caller: CallerDep
) -> uploads.UploadFileResponse:
    """Create or update the document of an external id from JSON text. Superseded by uploadFile."""
    folder, limit = uploads_folder(runtime.settings), runtime.settings.max_upload_bytes
    text = request.document_contents
    async with write_bytes(text.encode(), folder=folder, name=FILE_NAME, max_bytes=limit) as file:
        form = await use_stored_name(runtime, caller, request)
        saved = await save_upload(runtime, caller, form=form, file=file, gives_up=partial(is_stopping, http))
    return await wait_for_index(http, runtime, saved, patiently=request.await_vector_store_sync)


@router.operation(uploads.PLAN_UPLOAD)
async def plan(
    request: uploads.PlanUploadRequest, connection: SnapshotDep, caller: CallerDep
) -> uploads.PlanUploadResponse:
    """Return the effects of uploading up to 1000 documents, without uploading; 400 for unknown readers."""
    caller = await acting_for(connection, caller, request.upload_as_user_email, field=ACTING_PART)
    await resolve_readers(connection, caller.organization_id, request)
    return uploads.PlanUploadResponse(documents=await plan_uploads(connection, caller, planned=request.documents))


router.read(wire.GET_DOCUMENT, documents.get_document)
router.read(wire.LIST_DOCUMENTS, documents.list_documents)
router.read(wire.LIST_FOLDERS, documents.list_folders)
router.read(wire.LIST_LEFT_OUT_FILES, documents.list_left_out_files)


@router.operation(wire.DOWNLOAD_DOCUMENT, response_class=StreamingResponse)
async def download_document(
    request: wire.DownloadDocumentRequest, runtime: RuntimeDep, caller: CallerDep
) -> StreamingResponse:
    """Send a document's file as an attachment."""
    return await download(runtime, await _find_file(request, runtime, caller))


@router.operation(pages.DOWNLOAD_DOCUMENT_PAGE, response_class=Response)
async def download_document_page(
    request: pages.DownloadDocumentPageRequest, runtime: RuntimeDep, caller: CallerDep
) -> Response:
    """Send a page of a PDF or picture as a JPEG; 503 while too many pages are being rendered."""
    return await download_page(
        runtime, await _find_file(request, runtime, caller), page=request.page, wanted_by=caller.principal_id
    )


async def _find_file(request: wire.DownloadDocumentRequest, runtime: RuntimeDep, caller: CallerDep) -> StoredFile:
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        return await documents.find_download(
            connection, caller, document_id=request.document_id, version=request.document_version
        )


router.serve(wire.REINDEX_DOCUMENT, documents.reindex, acting=False)
router.serve(wire.RENAME_DOCUMENT, documents.rename, acting=False)
router.serve(wire.DELETE_DOCUMENT, documents.delete_document)
router.read(trash.LIST_TRASHED_DOCUMENTS, trash_rules.list_trashed)
router.serve(trash.RESTORE_DOCUMENT, trash_rules.restore, acting=False)
router.serve(trash.DELETE_TRASHED_DOCUMENTS, trash_rules.delete_for_good)
