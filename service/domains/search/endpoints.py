"""search/*: the catalog, a collection (extension), and feedback."""

from carrel.wire.search import (
    SearchDocumentCatalogRequest,
    SearchDocumentCatalogResponse,
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
    SubmitSearchFeedbackRequest,
    SubmitSearchFeedbackResponse,
)
from service.domains.search import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent
from service.web.routing import Router

router = Router(prefix="/search", tags=["search"])


@router.post("/searchDocumentCatalog")
async def search_document_catalog(
    request: SearchDocumentCatalogRequest, runtime: RuntimeDep, caller: CallerDep
) -> SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents."""
    return await service.search_catalog(runtime, caller, request=request)


@router.post("/searchDocumentCollection", tags=["extension"])
async def search_document_collection(
    request: SearchDocumentCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> SearchDocumentCollectionResponse:
    """Search the chunks of a collection; needs VIEWER on it and READ on each document."""
    return await service.search_collection(runtime, caller, request=request)


@router.post("/submitSearchFeedback")
@idempotent
async def submit_search_feedback(
    request: SubmitSearchFeedbackRequest, connection: ConnectionDep, caller: CallerDep
) -> SubmitSearchFeedbackResponse:
    """Store an end user's feedback on the audit log."""
    audit_log_id = await service.submit_feedback(connection, caller, request=request)
    return SubmitSearchFeedbackResponse(audit_log_id=audit_log_id)
