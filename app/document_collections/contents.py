"""Collections as people think of them: their fields, what in them is stale, and their index made anew."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import carrel
from app import api
from carrel.wire.collections import DocumentCollection, DocumentInCollection, FieldType, SchemaField
from carrel.wire.rebuilds import IndexRebuild, IndexRebuildStatus

TYPES: Mapping[str, FieldType] = {
    "Text": FieldType.STRING,
    "Whole number": FieldType.INT,
    "Number": FieldType.DOUBLE,
    "Date and time": FieldType.DATETIME,
    "Yes or no": FieldType.BOOLEAN,
}
"""How people call a field's type. Values are written as text: 12, 1.5, 2026-01-31T09:30:00Z, true."""

MOST_LOOKED_THROUGH = 10_000
"""In so many documents of a collection stale ones are looked for here; a run looks through all."""
MOST_AT_ONCE = 50
"""So many are indexed again from a page, one after the other; more are a run's."""
_PAGE = 1000


@dataclass(frozen=True)
class Done:
    """What came of a change to one document of a collection; `problem` is empty where it went well."""

    name: str
    problem: str = ""


@dataclass(frozen=True)
class Stale:
    """The documents of a collection whose newest contents can't be found there, of all or of the first that many."""

    collection_id: UUID
    documents: tuple[DocumentInCollection, ...]
    all_of_it: bool


def type_in_words(kind: FieldType) -> str:
    """Return how people call a field's type."""
    return next(words for words, known in TYPES.items() if known is kind)


def schema_of(rows: Iterable[Mapping[str, Any]]) -> list[SchemaField]:
    """Return the fields that somebody wrote into rows of Field and Type; rows without a name are none.

    Raises ValueError with what is wrong, in words.
    """
    fields = [
        SchemaField(name=name, type=TYPES.get(str(row.get("Type") or ""), FieldType.STRING))
        for row in rows
        if (name := str(row.get("Field") or "").strip())
    ]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"Two fields have the same name: {', '.join(twice)}."
        raise ValueError(msg)
    return fields


def find_collection(address: str) -> DocumentCollection | None:
    """Return the collection of this id, if the person may search it."""
    return next((one for one in api.collections() if str(one.document_collection_id) == address), None)


def embedding_models() -> list[str]:
    """Return the models that the person can know of: those of the collections that they may search."""
    return list(dict.fromkeys(one.embeddings_model for one in api.collections()))


def find_stale(collection_id: UUID) -> Stale:
    """Look through a collection for what is stale."""
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
    """Index documents (id, name) of a collection again, one after the other; yield what came of each."""
    collections = api.client().document_collections
    for document_id, name in documents:
        yield _done(
            name,
            lambda document_id=document_id: collections.reindex_document_in_collection(
                document_id=document_id, document_collection_id=collection_id
            ),
        )


def add(collection_id: UUID, documents: Iterable[tuple[UUID, str]], metadata: Mapping[str, str]) -> Iterator[Done]:
    """Add documents (id, name) to a collection, each with this metadata; yield what came of each."""
    collections = api.client().document_collections
    for document_id, name in documents:
        yield _done(
            name,
            lambda document_id=document_id: collections.add_document_to_collection(
                document_id=document_id, document_collection_id=collection_id, custom_metadata=metadata
            ),
        )


def _done(name: str, work: Callable[[], object]) -> Done:
    try:
        work()
    except carrel.APIConnectionError:
        return Done(name, "The service doesn't answer. Try again in a moment.")
    except carrel.APIError as error:
        return Done(name, " ".join([error.message, *(f"{one.field}: {one.message}" for one in error.details)]))
    except carrel.CarrelError as error:
        return Done(name, str(error))
    return Done(name)


def rebuild_of(collection_id: UUID) -> IndexRebuild | None:
    """Return the newest rebuild of a collection's index; None when there has been none."""
    try:
        return api.client().document_collections.index_rebuilds.get_index_rebuild(collection_id)
    except carrel.ConflictError as error:
        if error.code == "no_rebuild":
            return None
        raise


def goes_on(rebuild: IndexRebuild | None) -> bool:
    """Tell whether a rebuild hasn't come to its end."""
    return rebuild is not None and rebuild.status in {IndexRebuildStatus.RUNNING, IndexRebuildStatus.HELD}


def rebuild_in_words(rebuild: IndexRebuild) -> str:
    """Say in a sentence how far a rebuild is."""
    change = f"from {rebuild.previous_embeddings_model} to {rebuild.embeddings_model}"
    done, all_of_them = rebuild.indexed_count or 0, rebuild.document_count or 0
    match rebuild.status:
        case IndexRebuildStatus.RUNNING:
            return f"Being made anew, {change}: {done:,} of {all_of_them:,} documents. Searches use the old one."
        case IndexRebuildStatus.HELD:
            left = f"{all_of_them - done:,} of {all_of_them:,}"
            return f"Held back, {change}: {left} documents fail again and again. Searches use the old one."
        case IndexRebuildStatus.COMPLETED:
            return f"Made anew, {change}."
        case IndexRebuildStatus.CANCELLED:
            return f"Given up, {change}: the index stayed as it was."
