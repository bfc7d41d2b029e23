"""Search results as HTML: name, relevance, passages, and source."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import streamlit as st

from app.formatting import shorten
from app.search.queries import Answer, SearchQuery
from app.ui.links import address
from app.ui.passages import highlight, link_html, words_like
from carrel.wire.search import (
    CatalogSearchResult,
    CollectionSearchResult,
    SearchDocumentCollectionResponse,
    SearchMode,
    TextSpan,
)

_LONGEST_PASSAGE, _LONGEST_FACT = 2000, 200
_YES_NO = {"true": "yes", "false": "no"}
_RELEVANCE = "How close the meaning of the passage is to the meaning of the question"


def show_result(found: Answer, result: CatalogSearchResult | CollectionSearchResult) -> None:
    """Show a document with the passages that answer best."""
    if isinstance(result, CatalogSearchResult):
        heading = _heading(result.document_name, result.document_external_url, result.score)
        changed = f"changed {result.updated_at:%d %B %Y}"
        facts = _facts(result.document_external_id, result.custom_metadata, changed)
    else:
        score = max((chunk.score for chunk in result.chunks), default=0.0)
        heading = _heading(result.document_name, result.document_url, score)
        facts = _facts(result.document_external_id, result.document_metadata)
    shown = (_beneath(result.document_name, text, spans) for text, spans in _passages(found, result))
    passages = "".join(highlight(*_in_the_middle(text, spans)) for text, spans in shown)
    st.html(f'<article class="carrel-result">{heading}{passages}{facts}</article>')


def offer_document(document_id: UUID) -> None:
    """Offer the way to a document's own page."""
    where = html.escape(address("documents", document=str(document_id)))
    st.html(f'<a class="carrel-text" href="{where}" target="_self">Open document</a>', width="content")


def by_meaning_alone(found: Answer, question: SearchQuery) -> bool:
    """Return whether a hybrid search found no word of the query, nor a word that begins alike.

    Such a search finds the texts nearest in meaning, however far they are.
    """
    if question.mode is not SearchMode.HYBRID or not found.results:
        return False
    passages = [passage for result in found.results for passage in _passages(found, result)]
    if any(spans for _, spans in passages):
        return False
    # The service compares stems, and counts a document's name to its text; what it compared isn't all in its answer.
    names = [result.document_name for result in found.results]
    inside = isinstance(found, SearchDocumentCollectionResponse)
    words = found.search_terms_used if inside else [word for word in re.findall(r"\w+", question.text) if len(word) > 3]
    stems = [word[: max(4, len(word) - 3)] for word in words]
    return not any(words_like(text, stems) for text in (*names, *((text for text, _ in passages) if inside else ())))


def _passages(
    found: Answer, result: CatalogSearchResult | CollectionSearchResult
) -> list[tuple[str, Sequence[TextSpan]]]:
    """Return a document's passages, each with its matches."""
    if isinstance(result, CatalogSearchResult):
        return [(result.snippet.text, result.snippet.matches)]
    terms = found.search_terms_used if isinstance(found, SearchDocumentCollectionResponse) else []
    texts = [shorten(chunk.text, _LONGEST_PASSAGE) for chunk in result.chunks]
    return [(text, words_like(text, terms)) for text in texts]


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


def _heading(name: str, url: str | None, score: float) -> str:
    percent = round(100 * min(max(score, 0.0), 1.0))
    meter = f'role="meter" aria-label="Relevance" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}"'
    bar = f'<div class="carrel-score" {meter}><span style="width: {percent}%"></span></div>'
    relevance = f'<div class="carrel-relevance" title="{_RELEVANCE}">Relevance{bar}</div>'
    return f"<header><h3>{link_html(name, url)}</h3>{relevance}</header>"


def _facts(external_id: str, metadata: Mapping[str, str], *more: str) -> str:
    named = (f"{key}: {_YES_NO.get(value) or shorten(value, _LONGEST_FACT)}" for key, value in metadata.items())
    facts: Iterable[str] = (external_id, *named, *more)
    return f'<p class="carrel-facts">{html.escape(" · ".join(facts))}</p>'
