"""The preview of a document in the list: facts, readers, and the first page or passage."""

from uuid import UUID

import carrel
from app import api
from app.documents.facts import kind_of, owner_of, state_of
from app.documents.original import fetch_page, has_original, page_html
from app.documents.sections import names_of_readers
from app.formatting import moment
from app.ui.passages import PassageLocation, highlight, open_html, place_html
from app.ui.preview import document_html, note_html, section_html
from carrel.wire.catalog import GetDocumentResponse
from carrel.wire.places import PassagePlace
from flows.operations.formatting import list_text

GONE = "This document was deleted, or you can no longer read it."
UNREAD = "You can see that this document exists, but you cannot read it."


def preview_document(chosen: str) -> str:
    """Return the preview of a document by id as HTML, or that it is gone."""
    try:
        document = api.client().catalog.get_document(UUID(chosen))
    except carrel.NotFoundError:
        return section_html("Preview", note_html(GONE))
    readers = list_text(names_of_readers(document)) if api.me().is_admin else ""
    facts = {
        "Path": document.document_external_id,
        "Type": kind_of(document.media_type),
        "State": state_of(document),
        "Owner": owner_of(document),
        "Direct access": readers,
        "Changed": moment(document.updated_at),
    }
    address = PassageLocation(document.document_id).address
    return document_html(document.document_name, address, facts, _read_beginning(document))


def _read_beginning(document: GetDocumentResponse) -> str:
    document_id = document.document_id
    try:
        if has_original(document):
            where = PassageLocation(document_id, PassagePlace(page=1))
            page = fetch_page(document_id, 1)
            return f"{page_html(page, document.document_name)}{open_html(where)}"
        listed = api.client().document_collections.get_document_chunks(document_id, page_size=1)
        chunks = next(listed.pages()).chunks
    except carrel.NotFoundError:
        return note_html(UNREAD)
    if not chunks:
        return note_html("There is no text to show.")
    where = PassageLocation(document_id, chunk_index=0)
    return f"{place_html(chunks[0].place)}{highlight(chunks[0].text, ())}{open_html(where)}"
