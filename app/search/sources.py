"""The sources of results: icon, path, format, owner and date, from the documents that a search found."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from app import api
from app.documents.facts import kind_of
from app.formatting import moment
from app.labels import TYPES
from app.search.queries import Answer
from carrel.wire.catalog import Document
from carrel.wire.common import ResourceType
from carrel.wire.formats import FORMATS

Documents = Mapping[UUID, Document]

_ICONS = {
    "pdf": "picture_as_pdf",
    "word": "article",
    "slides": "slideshow",
    "sheet": "table",
    "table": "csv",
    "web": "language",
    "markdown": "markdown",
    "data": "data_object",
    "mail": "mail",
}


def documents_of(found: Answer) -> Documents:
    """Fetch the documents that a search found, in one call; results name neither their owners nor their formats."""
    ids = [result.document_id for result in found.results]
    if not ids:
        return {}
    listed = api.client().catalog.list_documents(ids=ids, page_size=len(ids))
    return {document.document_id: document for document in listed}


def icon_of(document: Document | None) -> tuple[str, str]:
    """Return the icon of a document's format, and the format's name."""
    if document is None:
        return "description", "Document"
    kind = next((each.kind for each in FORMATS if each.media_type == document.media_type), "")
    return _ICONS.get(kind, "description"), kind_of(document.media_type)


def facts_of(document: Document | None) -> Iterator[str]:
    """Yield a document's source, owner and date, as far as they are known."""
    if document is None:
        return
    if document.resource.resource_type is not ResourceType.UPLOADED_DOCUMENT:
        yield TYPES[document.resource.resource_type]
    yield document.owner.name
    yield f"changed {moment(document.updated_at)}"
