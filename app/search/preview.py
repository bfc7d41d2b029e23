"""The preview of a result: facts, and passages with the surrounding text."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.rows import rows_html
from app.formatting import escape, moment, shorten
from app.search.queries import Answer, SearchQuery
from app.search.results import Documents, Result, locations_of, passages_of
from app.ui.passages import PassageLocation, highlight, open_html, paragraph, place_html
from app.ui.preview import document_html, note_html
from carrel.wire.search import TextSpan

_MOST_PASSAGES, _AROUND = 3, 600
_NO_DOCUMENT = "This document was deleted, or you can no longer read it. Search again for current results."
_NO_PASSAGE = "The document has changed since: this passage is no longer in its text."


def preview_result(found: Answer, question: SearchQuery, documents: Documents, place: str, chosen: str) -> str:
    """Return the preview of a result, empty if not in `found`; `place` is the collection's name (catalog: empty)."""
    result = next((each for each in found.results if str(each.document_id) == chosen), None)
    if result is None:
        return ""
    address, document = locations_of(result, question)[0].address, documents.get(result.document_id)
    facts = {"Path": result.document_external_id, "Collection": place}
    if document is not None:
        facts |= {"Owner": document.owner.name, "Changed": moment(document.updated_at)}
    try:
        body = _read_passages(found, result, question)
    except carrel.NotFoundError:
        body = note_html(_NO_DOCUMENT)
    return document_html(result.document_name, address, facts, body)


def _read_passages(found: Answer, result: Result, question: SearchQuery) -> str:
    hits = list(zip(passages_of(found, result), locations_of(result, question), strict=True))[:_MOST_PASSAGES]
    numbers = [where.chunk_index for _, where in hits if where.chunk_index is not None]
    texts, asked = dict[int, str](), set[int]()
    for number in numbers:
        wanted = {max(number - 1, 0), number, number + 1}
        if not wanted <= asked:
            asked |= wanted
            texts |= _read_again(found.search_id, replace(hits[0][1], chunk_index=number))
    return "".join(f"{passage_html(*hit, where, texts, numbers)}{open_html(where)}" for hit, where in hits)


@st.cache_data(ttl=30, show_spinner=False, scope="session", max_entries=200)
def _read_again(search_id: UUID, location: PassageLocation) -> Mapping[int, str]:
    """Read chunks again only for another `search_id`."""
    del search_id
    return read_around(api.client(), location)


def read_around(client: carrel.Carrel, location: PassageLocation) -> Mapping[int, str]:
    """Return a passage's chunk and its neighbours by number; empty after a new version."""
    chunks = client.document_collections.get_document_chunks(
        location.document_id,
        document_collection_id=location.collection_id,
        first_chunk_index=max((location.chunk_index or 0) - 1, 0),
        page_size=3,
    )
    page = next(chunks.pages())
    is_same = location.version in {None, page.document_version}
    return {chunk.chunk_index: chunk.text for chunk in page.chunks} if is_same else {}


def passage_html(
    text: str, spans: Sequence[TextSpan], location: PassageLocation, texts: Mapping[int, str], hits: Container[int]
) -> str:
    """Return a passage as HTML, within its chunk's text and, unless `hits` has their numbers, the chunks around it."""
    if (number := location.chunk_index) is None:  # an older service sends no index
        return f"{place_html(location.place)}{highlight(text, spans)}"
    found, chunk = text.removesuffix(" …"), texts.get(number, "")  # `shorten` added the ellipsis
    if (at := chunk.find(found)) < 0:
        note = f'<p class="carrel-facts" role="status">{_NO_PASSAGE}</p>'
        return f"{place_html(location.place)}{note}{highlight(text, spans)}"
    begin, end = max(at - _AROUND, 0), at + len(found) + _AROUND
    before, after = ("" if each in hits else texts.get(each, "") for each in (number - 1, number + 1))
    moved = [TextSpan(start=span.start + at - begin, end=span.end + at - begin) for span in spans]
    words = [text[span.start : span.end] for span in spans] or None
    rows = rows_html(chunk, location.place, marked=words, marks_all=False)
    body = rows or highlight(chunk[begin:end], moved)
    before = f"… {before[-_AROUND:]}" if len(before) > _AROUND else before
    around = [
        f'<div class="carrel-around">{paragraph(escape(item))}</div>' if item else ""
        for item in (before, shorten(after, _AROUND))
    ]
    return f"{place_html(location.place)}{around[0]}{body}{around[1]}"
