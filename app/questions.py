"""What a search depends on, and asking it: kept apart from the page, whose script runs anew at every interaction."""

from dataclasses import dataclass
from uuid import UUID

from app import api
from carrel.wire.search import SearchDocumentCatalogResponse, SearchDocumentCollectionResponse, SearchMode

CATALOG = "catalog"
RESULTS = 10

Answer = SearchDocumentCatalogResponse | SearchDocumentCollectionResponse


@dataclass(frozen=True)
class Question:
    """Everything a search depends on; as long as it stays the same, its answer is kept and not asked for again."""

    text: str
    where: str
    mode: SearchMode
    person: str | None


def search(question: Question) -> Answer:
    """Ask the service."""
    if question.where == CATALOG:
        return api.client().search.search_document_catalog(
            search_query=question.text, max_results=RESULTS, mode=question.mode, user_email=question.person
        )
    return api.client().search.search_document_collection(
        document_collection_id=UUID(question.where),
        search_query=question.text,
        max_chunks=RESULTS,
        mode=question.mode,
        user_email=question.person,
    )
