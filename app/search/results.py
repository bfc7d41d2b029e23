"""Results as HTML: the name, how well it fits, the passages, and where it is from."""

import html
from collections.abc import Iterable, Mapping
from uuid import UUID

import streamlit as st

from app.search.questions import Answer
from app.ui.links import address
from app.ui.passages import linked, marked, marked_terms
from carrel.wire.search import CatalogSearchResult, CollectionSearchResult, SearchDocumentCollectionResponse


def show_result(found: Answer, result: CatalogSearchResult | CollectionSearchResult) -> None:
    """Show a document with the passages that answer best."""
    if isinstance(result, CatalogSearchResult):
        passages = [marked(result.snippet.text, result.snippet.matches)]
        heading = _heading(result.document_name, result.document_external_url, result.score)
        changed = f"changed {result.updated_at:%d %B %Y}"
        facts = _facts(result.document_external_id, result.custom_metadata, changed)
    else:
        terms = found.search_terms_used if isinstance(found, SearchDocumentCollectionResponse) else []
        passages = [marked_terms(chunk.text, terms) for chunk in result.chunks]
        score = max((chunk.score for chunk in result.chunks), default=0.0)
        heading = _heading(result.document_name, result.document_url, score)
        facts = _facts(result.document_external_id, result.document_metadata)
    st.html(f'<article class="carrel-result">{heading}{"".join(passages)}{facts}</article>')


def offer_document(document_id: UUID) -> None:
    """Offer the way to a document's own page."""
    where = html.escape(address("documents", document=str(document_id)))
    st.html(f'<a class="carrel-text" href="{where}" target="_self">Open document</a>', width="content")


def _heading(name: str, url: str | None, score: float) -> str:
    percent = f"{min(max(score, 0.0), 1.0):.0%}"
    meter = f'<div class="carrel-score" role="img" aria-label="Fits {percent}" title="Fits {percent}">'
    return f'<header><h3>{linked(name, url)}</h3>{meter}<span style="width: {percent}"></span></div></header>'


def _facts(external_id: str, metadata: Mapping[str, str], *more: str) -> str:
    facts: Iterable[str] = (external_id, *(f"{key}: {value}" for key, value in metadata.items()), *more)
    return f'<p class="carrel-facts">{html.escape(" · ".join(facts))}</p>'
