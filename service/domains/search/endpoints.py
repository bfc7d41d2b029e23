"""search/*: the catalog, a collection (extension), and feedback."""

from carrel.wire import search as wire
from service.domains.search import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.routing import Router

router = Router()


@router.operation(wire.SEARCH_DOCUMENT_CATALOG)
async def search_document_catalog(
    request: wire.SearchDocumentCatalogRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents."""
    return await service.search_catalog(runtime, caller, request=request)


@router.operation(wire.SEARCH_DOCUMENT_COLLECTION)
async def search_document_collection(
    request: wire.SearchDocumentCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.SearchDocumentCollectionResponse:
    """Search the chunks of a collection; needs VIEWER on it and READ on each document."""
    return await service.search_collection(runtime, caller, request=request)


@router.operation(wire.SUBMIT_SEARCH_FEEDBACK)
async def submit_search_feedback(
    request: wire.SubmitSearchFeedbackRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.SubmitSearchFeedbackResponse:
    """Store an end user's feedback on a search of the caller's, or by an admin on anybody's, on the audit log."""
    audit_log_id = await service.submit_feedback(connection, caller, request=request)
    return wire.SubmitSearchFeedbackResponse(audit_log_id=audit_log_id)
