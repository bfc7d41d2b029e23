"""catalog/uploadDocumentContents, which existing clients of v0 call."""

from functools import partial

from fastapi import Request

from carrel.wire.uploads import UPLOAD_DOCUMENT_CONTENTS, UploadDocumentContentsRequest, UploadFileResponse
from service.domains.documents.catalog.uploads import save_upload, use_stored_name
from service.domains.documents.catalog.waiting import wait_for_index
from service.web.dependencies import CallerDep, RuntimeDep, is_stopping
from service.web.multipart import uploads_folder, write_bytes
from service.web.routing import Router

router = Router()
# Text in a file of this kind is read as it is, unless it begins as another kind of file does (%PDF-).
FILE_NAME = "contents.txt"


@router.operation(UPLOAD_DOCUMENT_CONTENTS)
async def upload_contents(
    request: UploadDocumentContentsRequest, http: Request, runtime: RuntimeDep, caller: CallerDep
) -> UploadFileResponse:
    """Create or update the document of an external id from JSON text. Superseded by uploadFile."""
    folder, limit = uploads_folder(runtime.settings), runtime.settings.max_upload_bytes
    text = request.document_contents
    async with write_bytes(text.encode(), folder=folder, name=FILE_NAME, max_bytes=limit) as file:
        form = await use_stored_name(runtime, caller, request)
        saved = await save_upload(runtime, caller, form=form, file=file, gives_up=partial(is_stopping, http))
    return await wait_for_index(http, runtime, saved, patiently=request.await_vector_store_sync)
