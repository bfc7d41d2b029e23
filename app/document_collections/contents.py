"""The documents of collections: finding stale ones, adding, removing and changing them one after the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import carrel
from app import api
from app.ui.errors import line_of
from carrel.wire.collections import DocumentCollection, DocumentInCollection

MOST_LOOKED_THROUGH = 10_000
"""In so many documents of a collection stale ones are looked for here; a run looks through all."""
MOST_AT_ONCE = 50
"""So many are indexed again from a page, one after the other; more are a run's."""
_PAGE = 1000


class Again(StrEnum):
    """What happens to the fields of a document that is added to its collection again."""

    LEAVE = "leave"
    CHANGE = "change"
    REPLACE = "replace"


@dataclass(frozen=True)
class Done:
    """The result of a change to one document of a collection; `problem` is empty on success.

    `left`: the document needed no change.
    """

    document_id: UUID
    name: str
    problem: str = ""
    left: bool = False


@dataclass(frozen=True)
class Stale:
    """The documents of a collection whose newest contents can't be found there, of all or of the first that many."""

    collection_id: UUID
    documents: tuple[DocumentInCollection, ...]
    all_of_it: bool


def find_collection(address: str) -> DocumentCollection | None:
    """Return the collection of this id, if the person may search it."""
    return next((one for one in api.collections() if str(one.document_collection_id) == address), None)


def embedding_models() -> list[str]:
    """Return the models that the person can know of: those of the collections that they may search."""
    return list(dict.fromkeys(one.embeddings_model for one in api.collections()))


def find_stale(collection_id: UUID) -> Stale:
    """Find the stale documents of a collection."""
    documents: list[DocumentInCollection] = []
    looked = 0
    listing = api.client().document_collections.list_documents_in_collection(collection_id, page_size=_PAGE)
    for page in listing.pages():
        documents += [one for one in page.documents if one.stale]
        looked += len(page.documents)
        if looked >= MOST_LOOKED_THROUGH and page.next_page_token:
            return Stale(collection_id, tuple(documents), all_of_it=False)
    return Stale(collection_id, tuple(documents), all_of_it=True)


def index_again(collection_id: UUID, documents: Iterable[tuple[UUID, str]]) -> Iterator[Done]:
    """Index documents (id, name) of a collection again; yield what came of each."""
    index = api.client().document_collections.reindex_document_in_collection
    return _one_by_one(documents, lambda one: index(document_id=one, document_collection_id=collection_id))


def fields_inside(collection_id: UUID, documents: Sequence[UUID]) -> dict[UUID, dict[str, str]]:
    """Return the fields of those of the documents that are in a collection."""
    listing = api.client().document_collections.list_documents_in_collection
    batches = (documents[start : start + _PAGE] for start in range(0, len(documents), _PAGE))
    return {
        one.document_id: one.custom_metadata
        for batch in batches
        for one in listing(collection_id, ids=batch, page_size=_PAGE)
    }


def add(
    collection_id: UUID, documents: Sequence[tuple[UUID, str]], metadata: Mapping[str, str], *, again: Again
) -> Iterator[Done]:
    """Add documents (id, name) to a collection, each with this metadata; yield the result of each.

    The service replaces the fields of a document that is in it: which are, is read now, since others add too.
    """
    put = api.client().document_collections.add_document_to_collection
    present = fields_inside(collection_id, [document_id for document_id, _ in documents])

    def add_one(document_id: UUID) -> None:
        kept = present.get(document_id, {}) if again is Again.CHANGE else {}
        put(document_id=document_id, document_collection_id=collection_id, custom_metadata={**kept, **metadata})

    for document_id, name in documents:
        if again is Again.LEAVE and document_id in present:
            yield Done(document_id, name, left=True)
        else:
            yield from _one_by_one([(document_id, name)], add_one)


def _one_by_one(documents: Iterable[tuple[UUID, str]], change: Callable[[UUID], object]) -> Iterator[Done]:
    for document_id, name in documents:
        try:
            change(document_id)
        except carrel.CarrelError as error:
            yield Done(document_id, name, line_of(error))
        else:
            yield Done(document_id, name)
