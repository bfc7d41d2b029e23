"""Documents as resources: a list in pages, and the text of one by its address."""

from uuid import UUID

from mcp_types import ListResourcesResult, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from carrel.wire.catalog import GET_DOCUMENT, LIST_DOCUMENTS, Document, ListDocumentsRequest
from service.domains.documents.catalog.documents import list_documents
from service.mcp.documents import SCHEME, open_document, uri_of
from service.mcp.tools import Call
from service.permissions.rights import unknown_document

PAGE_SIZE = 100
MEDIA_TYPE = "text/plain"
TEMPLATE = ResourceTemplate(
    name="document",
    title="Document",
    uri_template=f"{SCHEME}{{documentId}}",
    description="The text of a document that the person may read.",
    mime_type=MEDIA_TYPE,
)


async def list_page(call: Call, *, cursor: str | None) -> ListResourcesResult:
    """List a page of the documents that the caller may READ, newest first; BadRequest for another list's cursor."""
    call.require(LIST_DOCUMENTS)
    request = ListDocumentsRequest(page_size=PAGE_SIZE, page_token=cursor)
    page = await call.read(lambda connection: list_documents(connection, call.reader, request=request))
    return ListResourcesResult(resources=[_resource(one) for one in page.documents], next_cursor=page.next_page_token)


async def read(call: Call, *, uri: str) -> ReadResourceResult:
    """Read the text of a document by its address; NotFound for what is none, or the caller may not READ."""
    call.require(GET_DOCUMENT)
    document, (text, next_start) = await open_document(call, _document_id(uri))
    if next_start is not None:
        text += f"\n\n[The text goes on. The tool `fetch` reads on from start={next_start}.]"
    return ReadResourceResult(
        contents=[TextResourceContents(uri=uri_of(document.document_id), mime_type=MEDIA_TYPE, text=text)]
    )


def _resource(document: Document) -> Resource:
    return Resource(
        uri=uri_of(document.document_id),
        name=document.document_name,
        title=document.document_name,
        description=document.document_external_url,
        mime_type=MEDIA_TYPE,
    )


def _document_id(uri: str) -> UUID:
    scheme, found, value = uri.partition(SCHEME)
    try:
        if scheme or not found:
            raise unknown_document()
        return UUID(value)
    except ValueError as error:
        raise unknown_document() from error
