"""Indexing one document of the catalog again, such as after its indexing has failed."""

from uuid import UUID

from carrel.wire.catalog import IndexingStatus, ReindexDocumentRequest, ReindexDocumentResponse
from carrel.wire.common import Role
from service.audit.service import record
from service.auth.callers import Caller, acting_for
from service.domains.documents.catalog.documents import lock_known_document
from service.index.ingestion.queries import request_indexing_in_space
from service.index.service import Space, ensure_catalog_space
from service.platform.errors import Forbidden
from service.runtime import Runtime


async def reindex(runtime: Runtime, caller: Caller, *, request: ReindexDocumentRequest) -> ReindexDocumentResponse:
    """Chunk and index a document's newest contents in the catalog again; 503 while too much waits to be indexed.

    404 when the caller may not know of it, 403 below EDITOR, 503 `indexing_backlog` when too much waits to be indexed.
    """
    document_id, organization_id = request.document_id, caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        document, role = await lock_known_document(connection, caller, document_id=document_id)
        if role not in {Role.OWNER, Role.EDITOR} and not caller.is_admin:
            raise Forbidden(
                "You may read this document, not index it again. Ask its owner for the EDITOR role, or an admin to do "
                "it.",
                code="document_editor_required",
            )
        runtime.indexer.refuse_backlog(organization_id)
        catalog = await ensure_catalog_space(connection, organization_id, model=runtime.embedders.default.model)
        await request_indexing_in_space(
            connection,
            organization_id,
            document_id=document_id,
            space_id=catalog.space_id,
            version=document.version,
            custom_metadata={},
            is_begun=False,
            anew=True,
        )
        await record(
            connection,
            caller,
            action="document.reindex",
            target_type="document",
            target_id=document_id,
            details={"version": document.version},
        )
    status = await _await_index(runtime, organization_id, document_id=document_id, catalog=catalog)
    return ReindexDocumentResponse(document_id=document_id, document_version=document.version, indexing=status)


async def _await_index(runtime: Runtime, organization_id: UUID, *, document_id: UUID, catalog: Space) -> IndexingStatus:
    waiter = runtime.indexer.request(
        organization_id, document_id=document_id, space_ids=[catalog.space_id], is_begun=False
    )
    outcomes = await runtime.indexer.wait(waiter, seconds=runtime.settings.inline_indexing_seconds)
    return IndexingStatus.RUNNING if outcomes is None else IndexingStatus.DONE
