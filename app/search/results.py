"""Search results as HTML: name, relevance, passages, and source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlencode
from uuid import UUID

import streamlit as st

from app import api
from app.documents.facts import kind_of
from app.formatting import escape, isolate, moment, shorten
from app.labels import ICONS, TYPES, YES_NO
from app.search.queries import CATALOG, Answer, SearchQuery
from app.ui.notices import LinkedText
from app.ui.passages import PassageLocation, highlight, link_html, mark_spans, open_html, place_html, words_like
from carrel.wire import search
from carrel.wire.catalog import Document
from carrel.wire.common import ResourceType
from carrel.wire.formats import FORMATS
from flows.operations.formatting import count_text

Result = search.CatalogSearchResult | search.CollectionSearchResult


def relevance_of(result: Result) -> float:
    """Return the relevance of a result or of its best chunk. Older services report no relevance: return the score."""
    found = [result] if isinstance(result, search.CatalogSearchResult) else result.chunks
    return max((item.score if item.relevance is None else item.relevance for item in found), default=0.0)


def matched_in(result: Result) -> search.MatchedBy:
    """Return the query words in a result, and whether the meaning is close."""
    if isinstance(result, search.CatalogSearchResult):
        return result.matched or search.MatchedBy(words=[], meaning=False)
    matched = [chunk.matched for chunk in result.chunks if chunk.matched]
    words = dict.fromkeys(word for each in matched for word in each.words)
    return search.MatchedBy(words=list(words), meaning=any(each.meaning for each in matched))


Documents = Mapping[UUID, Document]


def documents_of(found: Answer, like: UUID | None) -> Documents:
    """Return the found documents and the document `like`, if readable, by id. Results lack owners and formats."""
    ids = [*(result.document_id for result in found.results), *([like] if like else [])]
    if not ids:
        return {}
    listed = api.client().catalog.list_documents(ids=ids, page_size=len(ids))
    return {document.document_id: document for document in listed}


def _icon_of(document: Document | None) -> tuple[str, str]:
    if document is None:
        return "description", "Document"
    kind = next((each.kind for each in FORMATS if each.media_type == document.media_type), "")
    return ICONS.get(kind, "description"), kind_of(document.media_type)


def _facts_of(document: Document | None) -> Iterator[str]:
    if document is None:
        return
    if document.resource.resource_type is not ResourceType.UPLOADED_DOCUMENT:
        yield TYPES[document.resource.resource_type]
    yield document.owner.name
    yield f"changed {moment(document.updated_at)}"


_LONGEST_PASSAGE, _LONGEST_FACT = 2000, 200
_RELEVANCE = "How many words of the question the document contains, and how close its meaning is"
_HIGH, _MEDIUM = 0.6, 0.3
_PREVIEW = '<button type="button" class="carrel-previews">Preview</button>'


def show_result(found: Answer, result: Result, *, document: Document | None, question: SearchQuery) -> None:
    shown = [_drop_name_line(result.document_name, text, spans) for text, spans in passages_of(found, result)]
    where, *others = locations_of(result, question)
    passages = [
        f"{before}{highlight(*_mark_omission(text, spans))}{after}"
        for (before, after), (text, spans) in zip(
            [("", ""), *((place_html(other.place), open_html(other)) for other in others)], shown, strict=True
        )
    ]
    best, *more = passages
    similar = result.similar if isinstance(result, search.CatalogSearchResult) else ()
    names = [LinkedText(each.document_name, PassageLocation(each.document_id).address).body for each in similar]
    said = f"and {len(names):,} more with the same text"
    folded = _fold(count_text(len(more), "more passage"), more) + _fold(said, [f"<p>{name}</p>" for name in names])
    heading = _heading(result, where, document=document)
    body = f"{heading}{best}{folded}{_facts(result, document)}"
    st.html(f'<article class="carrel-result" data-document="{result.document_id}">{body}</article>')


def passages_of(found: Answer, result: Result) -> list[tuple[str, Sequence[search.TextSpan]]]:
    if isinstance(result, search.CatalogSearchResult):
        return [(each.text, each.matches) for each in (result.snippet, *result.further_passages)]
    terms = found.search_terms_used if isinstance(found, search.SearchDocumentCollectionResponse) else []
    texts = [shorten(chunk.text, _LONGEST_PASSAGE) for chunk in result.chunks]
    return [(text, words_like(text, terms)) for text in texts]


def locations_of(result: Result, question: SearchQuery) -> list[PassageLocation]:
    """Return the link target of each passage in `passages_of`, with the way back to the search."""
    if isinstance(result, search.CatalogSearchResult):
        found = [(each.place, each.chunk_index) for each in (result.snippet, *result.further_passages)]
    else:
        found = [(chunk.place, chunk.chunk_index) for chunk in result.chunks]
    collection_id = None if question.where == CATALOG else UUID(question.where)
    back = urlencode(question.address(), doseq=True)
    return [
        PassageLocation(result.document_id, *each, collection_id, result.document_version, search=back)
        for each in found
    ]


def _drop_name_line(name: str, text: str, spans: Sequence[search.TextSpan]) -> tuple[str, Sequence[search.TextSpan]]:
    """Drop a first line repeating the name shown above."""
    first, line_end, rest = text.partition("\n")
    if not line_end or first.strip().casefold() != name.strip().casefold():
        return text, spans
    cut = len(text) - len(rest)
    return rest, [search.TextSpan(start=span.start - cut, end=span.end - cut) for span in spans if span.start >= cut]


def _mark_omission(text: str, spans: Sequence[search.TextSpan]) -> tuple[str, Sequence[search.TextSpan]]:
    if not text[:1].islower():
        return text, spans
    left_out = "… "
    moved = [search.TextSpan(start=span.start + len(left_out), end=span.end + len(left_out)) for span in spans]
    return f"{left_out}{text}", moved


def _fold(summary: str, bodies: Sequence[str]) -> str:
    return f"<details><summary>{summary}</summary>{''.join(bodies)}</details>" if bodies else ""


def _heading(result: Result, location: PassageLocation, *, document: Document | None) -> str:
    icon, kind = _icon_of(document)
    spans = result.name_matches if isinstance(result, search.CatalogSearchResult) else None
    if spans is None:  # an underscore also separates words in the index
        spans = words_like(result.document_name.replace("_", " "), matched_in(result).words)
    name = f'<a href="{escape(location.address)}" target="_self">{mark_spans(result.document_name, spans)}</a>'
    place = place_html(location.place)
    drawn = f'<span class="carrel-icon" aria-hidden="true" title="{escape(kind)}">{icon}</span>'
    return f"<header><h2>{drawn}{name}{place}</h2>{_PREVIEW}{_meter_html(relevance_of(result))}</header>"


def _meter_html(relevance: float) -> str:
    """Return a bar without a number: a figure far below 100 makes a good answer look bad."""
    percent = round(100 * relevance)
    level = "high" if relevance >= _HIGH else "medium" if relevance >= _MEDIUM else "low"
    meter = f'role="meter" aria-label="Relevance" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}"'
    bar = f'<div class="carrel-score" {meter} aria-valuetext="{level}"><span style="width: {percent}%"></span></div>'
    return f'<div class="carrel-relevance" title="{_RELEVANCE}">Relevance{bar}</div>'


def _facts(result: Result, document: Document | None) -> str:
    if isinstance(result, search.CatalogSearchResult):
        url, metadata = result.document_external_url, result.custom_metadata
    else:
        url, metadata = result.document_url, result.document_metadata
    path = escape(shorten(result.document_external_id, _LONGEST_FACT))
    address = [link_html(shorten(url, _LONGEST_FACT), url)] if url else []
    named = (f"{key}: {YES_NO.get(value) or shorten(value, _LONGEST_FACT)}" for key, value in metadata.items())
    why = [found] if (found := matched_in(result).describe()) else []
    facts: Iterable[str] = (*_facts_of(document), *named)
    return f'<p class="carrel-facts">{" · ".join([*map(isolate, why), path, *address, *map(isolate, facts)])}</p>'
