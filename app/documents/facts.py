"""Facts about documents for people: kind, owner, and progress of indexing."""

import re
from collections.abc import Mapping

from app.labels import FILE_KINDS
from app.lookup import Resource
from carrel.wire import catalog
from carrel.wire.common import UserPrincipal
from carrel.wire.formats import FORMATS
from flows.operations.formatting import capitalize, count_text, name_language

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    kind: (label, tuple(each.media_type for each in FORMATS if each.kind == kind)) for kind, label in FILE_KINDS.items()
}

STATES = {
    catalog.IndexingStatus.DONE: "Searchable",
    catalog.IndexingStatus.RUNNING: "Being indexed",
    catalog.IndexingStatus.FAILED: "Not searchable",
}


def state_of(document: catalog.Document) -> str:
    """Return a document's state in words, also if it has no text, or none yet; empty if the service tells no state."""
    if document.indexing is None:
        return ""
    if document.has_no_text_yet:
        return "Being read"
    return "No text" if document.has_no_text else STATES[document.indexing]


_FAMILIES = {"Word": "wordprocessing|ms-word", "Excel": "spreadsheet|excel", "PowerPoint": "presentation|powerpoint"}


def kind_of(media_type: str) -> str:
    """Return the name of a media type's format, else of its family of programs, else the media type."""
    plain = media_type.partition(";")[0].strip()
    known = (capitalize(each.name) for each in FORMATS if each.media_type == plain)
    return next(known, None) or next((name for name, of in _FAMILIES.items() if re.search(of, plain)), media_type)


def owner_of(document: catalog.Document) -> str:
    owner = document.owner
    return f"{owner.name} ({owner.email})" if isinstance(owner, UserPrincipal) else owner.name


def resource_of(document: catalog.Document) -> Resource:
    resource = document.resource
    return Resource(resource.resource_type, resource.resource_id, document.document_name, document.document_id)


def name_of_place(place: catalog.DocumentIndexing) -> str:
    return "The whole catalog" if place.document_collection_id is None else place.collection_name or "A collection"


def state_in(place: catalog.DocumentIndexing, recognition: catalog.TextRecognition | None = None) -> str:
    """Return a sentence about a document's state in an index, and how many pages and pictures are read so far."""
    has_text = place.indexed_version and place.chunk_count
    searchable = f"version {place.indexed_version} is searchable" if has_text else "no version is searchable"
    if place.status is catalog.IndexingStatus.FAILED:
        return f"Version {place.document_version} could not be indexed; {searchable}."
    if place.status is catalog.IndexingStatus.RUNNING:
        return f"Version {place.document_version} is being indexed. Until then, {searchable}."
    pages = pages_being_read(recognition)
    if not place.chunk_count:
        return f"Not searchable{f' yet: {pages}' if pages else ': the document contains no text. Its name is listed'}."
    language = f" Language: {name_language(place.language)}." if place.language else ""
    more = f" More text will follow: {pages}." if pages else ""
    return f"{capitalize(searchable)}, in {count_text(place.chunk_count, 'passage')}.{more}{language}"


def pages_being_read(recognition: catalog.TextRecognition | None) -> str:
    """Return how many scanned pages and pictures of a document are still being read; empty if none."""
    if recognition is None or recognition.status is not catalog.RecognitionStatus.RUNNING:
        return ""
    pages = recognition.pages - recognition.pages_read - recognition.pages_failed
    left = {"page": pages, "picture": recognition.waiting - pages}
    named = " and ".join(count_text(number, name) for name, number in left.items() if number)
    if not named:
        return "its text is being indexed"
    return f"{named} {'is' if recognition.waiting == 1 else 'are'} still being read"


def is_stale(place: catalog.DocumentIndexing, document: catalog.GetDocumentResponse) -> bool:
    """Return whether a collection has older contents of a document while no newer contents are being indexed."""
    return (
        place.document_collection_id is not None
        and place.status is not catalog.IndexingStatus.RUNNING
        and place.indexed_version != document.document_version
    )
