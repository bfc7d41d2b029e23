"""Search results as HTML: name, relevance, passages, and source."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlencode
from uuid import UUID

import streamlit as st

from app import api
from app.documents.facts import kind_of
from app.formatting import escape, isolate, moment, shorten
from app.labels import TYPES
from app.search.queries import CATALOG, Answer, SearchQuery
from app.ui.passages import PassageLocation, highlight, link_html, open_html, place_html, words_like
from carrel.wire.catalog import Document
from carrel.wire.common import ResourceType
from carrel.wire.formats import FORMATS
from carrel.wire.search import (
    STRONG,
    CatalogSearchResult,
    CollectionSearchResult,
    SearchDocumentCollectionResponse,
    SearchMode,
    TextSpan,
)
from flows.operations.formatting import count_text

Result = CatalogSearchResult | CollectionSearchResult


def score_of(result: Result) -> float:
    """Return a result's score: of a collection's, its best chunk's."""
    if isinstance(result, CatalogSearchResult):
        return result.score
    return max((chunk.score for chunk in result.chunks), default=0.0)


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


def _icon_of(document: Document | None) -> tuple[str, str]:
    if document is None:
        return "description", "Document"
    kind = next((each.kind for each in FORMATS if each.media_type == document.media_type), "")
    return _ICONS.get(kind, "description"), kind_of(document.media_type)


def _facts_of(document: Document | None) -> Iterator[str]:
    if document is None:
        return
    if document.resource.resource_type is not ResourceType.UPLOADED_DOCUMENT:
        yield TYPES[document.resource.resource_type]
    yield document.owner.name
    yield f"changed {moment(document.updated_at)}"


_LONGEST_PASSAGE, _LONGEST_FACT = 2000, 200
_YES_NO = {"true": "yes", "false": "no"}
_RELEVANCE = "How near the meaning of the passage is to the question's, beside the best result"
_HIGH = 0.85


def show_result(
    found: Answer, result: Result, *, share: float, document: Document | None, question: SearchQuery
) -> None:
    """Show a document with the passages that answer best; `share` is its relevance as a part of the best one's."""
    shown = [_beneath(result.document_name, text, spans) for text, spans in _passages(found, result)]
    where, *others = _locations(result, question)
    passages = [
        f"{before}{highlight(*_in_the_middle(text, spans))}{after}"
        for (before, after), (text, spans) in zip(
            [("", ""), *((place_html(one.place), open_html(one)) for one in others)], shown, strict=True
        )
    ]
    st.html(
        f'<article class="carrel-result">{_heading(result, where, share=share, document=document)}'
        f"{_fold(passages)}{_facts(result, document)}</article>"
    )


def by_meaning_alone(found: Answer, question: SearchQuery) -> bool:
    """Return whether a hybrid search found no word of the query, and so only the nearest texts, however far."""
    if question.mode is not SearchMode.HYBRID or not found.results:
        return False
    passages = [passage for result in found.results for passage in _passages(found, result)]
    if any(spans for _, spans in passages):
        return False
    # The service compares stems, and counts a document's name to its text; what it compared isn't all in its answer.
    names = [result.document_name for result in found.results]
    inside = isinstance(found, SearchDocumentCollectionResponse)
    words = found.search_terms_used if inside else [word for word in re.findall(r"\w+", question.text) if len(word) > 3]
    stems = tuple(word[: max(4, len(word) - 3)].casefold() for word in words)
    texts = (*names, *((text for text, _ in passages) if inside else ()))
    return not any(word.startswith(stems) for text in texts for word in re.findall(r"\w+", text.casefold()))


def _passages(found: Answer, result: Result) -> list[tuple[str, Sequence[TextSpan]]]:
    if isinstance(result, CatalogSearchResult):
        return [(result.snippet.text, result.snippet.matches)]
    terms = found.search_terms_used if isinstance(found, SearchDocumentCollectionResponse) else []
    texts = [shorten(chunk.text, _LONGEST_PASSAGE) for chunk in result.chunks]
    return [(text, words_like(text, terms)) for text in texts]


def _locations(result: Result, question: SearchQuery) -> list[PassageLocation]:
    if isinstance(result, CatalogSearchResult):
        found = [(result.snippet.place, result.snippet.chunk_index)]
    else:
        found = [(chunk.place, chunk.chunk_index) for chunk in result.chunks]
    collection_id = None if question.where == CATALOG else UUID(question.where)
    back = urlencode(question.address(), doseq=True)
    return [
        PassageLocation(result.document_id, *each, collection_id, result.document_version, search=back)
        for each in found
    ]


def _beneath(name: str, text: str, spans: Sequence[TextSpan]) -> tuple[str, Sequence[TextSpan]]:
    """Leave out a first line that says the name again, which stands above."""
    first, line_end, rest = text.partition("\n")
    if not line_end or first.strip().casefold() != name.strip().casefold():
        return text, spans
    cut = len(text) - len(rest)
    return rest, [TextSpan(start=span.start - cut, end=span.end - cut) for span in spans if span.start >= cut]


def _in_the_middle(text: str, spans: Sequence[TextSpan]) -> tuple[str, Sequence[TextSpan]]:
    """Put an ellipsis before a passage that begins within a sentence."""
    if not text[:1].islower():
        return text, spans
    left_out = "… "
    moved = [TextSpan(start=span.start + len(left_out), end=span.end + len(left_out)) for span in spans]
    return f"{left_out}{text}", moved


def _fold(passages: Sequence[str]) -> str:
    if len(passages) < 2:
        return "".join(passages)
    best, *others = passages
    return f"{best}<details><summary>{count_text(len(others), 'more passage')}</summary>{''.join(others)}</details>"


def _heading(result: Result, where: PassageLocation, *, share: float, document: Document | None) -> str:
    icon, kind = _icon_of(document)
    name = f'<a href="{escape(where.address)}" target="_self">{escape(result.document_name)}</a>'
    place = place_html(where.place)
    drawn = f'<span class="carrel-icon" aria-hidden="true" title="{escape(kind)}">{icon}</span>'
    return f"<header><h2>{drawn}{name}{place}</h2>{_relevance(share)}</header>"


def _relevance(share: float) -> str:
    """Return a bar without a number: a figure that is far from 100 makes a good answer look bad."""
    percent = round(100 * share)
    level = "high" if share >= _HIGH else "medium" if share >= STRONG else "low"
    meter = f'role="meter" aria-label="Relevance" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}"'
    bar = f'<div class="carrel-score" {meter} aria-valuetext="{level}"><span style="width: {percent}%"></span></div>'
    return f'<div class="carrel-relevance" title="{_RELEVANCE}">Relevance{bar}</div>'


def _facts(result: Result, document: Document | None) -> str:
    if isinstance(result, CatalogSearchResult):
        url, metadata = result.document_external_url, result.custom_metadata
    else:
        url, metadata = result.document_url, result.document_metadata
    path = escape(shorten(result.document_external_id, _LONGEST_FACT))
    address = [link_html(shorten(url, _LONGEST_FACT), url)] if url else []
    named = (f"{key}: {_YES_NO.get(value) or shorten(value, _LONGEST_FACT)}" for key, value in metadata.items())
    facts: Iterable[str] = (*_facts_of(document), *named)
    return f'<p class="carrel-facts">{" · ".join([path, *address, *map(isolate, facts)])}</p>'
