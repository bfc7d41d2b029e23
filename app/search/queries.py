"""Search queries, and sending them; in a module of its own, because the page's script runs at every interaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app import api
from app.search.conditions import Condition, Kinds, from_address
from carrel.wire.search import SearchDocumentCatalogResponse, SearchDocumentCollectionResponse, SearchMode

CATALOG = "catalog"
FILTERS, QUESTIONS = "filters", "questions"
LONGEST = 1000
"""Characters of a question that pages ask: fewer than the service takes, since its address has all of them."""

MODES: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "Hybrid",
    SearchMode.LEXICAL: "Keywords",
    SearchMode.SEMANTIC: "Meaning",
}
"""What people call the ways to search."""

HOW_TO_RERANK = "A reranking model can order results, too: give the service its endpoint"
"""The text of a link for admins of a service that has none."""

SIZES = (10, 30, 100)
"""How many results are shown at first, and each time more are asked for; the last is the most the service gives."""

_YES_NO = {"yes": True, "no": False}

Answer = SearchDocumentCatalogResponse | SearchDocumentCollectionResponse


@dataclass(frozen=True)
class SearchQuery:
    """A search with everything its answer depends on; the answer is cached by this value.

    `where` is CATALOG or a collection's id; `only` are conditions that a document's metadata must all meet. In a
    collection the service may draw further ones from the text, and look for the questions in it. `reranks` is None for
    what the organization has by default. `drawn` are those that are left of what the service drew from the text, once
    the person has taken one away.
    """

    text: str
    where: str = CATALOG
    mode: SearchMode = SearchMode.HYBRID
    only: tuple[Condition, ...] = ()
    draws_filters: bool = False
    extracts_questions: bool = False
    reranks: bool | None = None
    drawn: tuple[Condition, ...] = ()

    @classmethod
    def from_address(cls, parameters: Mapping[str, Sequence[str]]) -> "SearchQuery":
        """Return the query in a page's address; a collection in `in` need not exist.

        The parameters have all their values; of all but `only`, `drawn` and `read` the last one counts.
        """
        last = {name: values[-1] for name, values in parameters.items() if values}
        try:
            mode = SearchMode(last.get("by", "").upper())
        except ValueError:
            mode = SearchMode.HYBRID
        only, drawn = (from_address(parameters.get(name, ())) for name in ("only", "drawn"))
        reads = parameters.get("read", ())
        text, where = last.get("q", "").replace("\0", " "), last.get("in") or CATALOG
        reranks = _YES_NO.get(last.get("rerank", ""))
        return cls(text, where, mode, only, FILTERS in reads, QUESTIONS in reads, reranks, drawn)

    def address(self) -> dict[str, list[str]]:
        """Return the address parameters for this query, without default values."""
        wanted = {
            "q": [self.text],
            "in": ["" if self.where == CATALOG else self.where],
            "by": ["" if self.mode is SearchMode.HYBRID else self.mode.value.lower()],
            "only": [condition.in_address() for condition in self.only],
            "read": [FILTERS] * self.draws_filters + [QUESTIONS] * self.extracts_questions,
            "drawn": [condition.in_address() for condition in self.drawn],
            "rerank": [word for word, reranks in _YES_NO.items() if reranks is self.reranks],
        }
        return {name: values for name, values in wanted.items() if any(values)}


def search(question: SearchQuery, kinds: Kinds, *, size: int) -> Answer:
    """Ask the service for at most `size` documents, or chunks in a collection, whose fields are of these kinds."""
    conditions = [asked for condition in (*question.only, *question.drawn) for asked in condition.as_filters(kinds)]
    if question.where == CATALOG:
        return api.client().search.search_document_catalog(
            search_query=question.text,
            max_results=size,
            mode=question.mode,
            metadata_filters=conditions,
            enable_reranking=question.reranks,
        )
    return api.client().search.search_document_collection(
        document_collection_id=UUID(question.where),
        search_query=question.text,
        max_chunks=size,
        mode=question.mode,
        structured_query_filters=conditions,
        enable_smart_filtering=question.draws_filters or None,
        enable_query_extraction=question.extracts_questions or None,
        enable_reranking=question.reranks,
    )
