"""A source of a reply next to the conversation: the passage with the text around it, read when it is pressed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlencode

import streamlit as st

import carrel
from app.auth.current import person_client
from app.chat import conversations
from app.formatting import escape, isolate
from app.search.preview import passage_html, read_around
from app.ui.errors import error_boundary
from app.ui.preview import WAITING
from app.ui.tables import draw_component
from carrel.wire.conversations import GetConversationResponse
from carrel.wire.replies import ReferencedSource
from carrel.wire.search import TextSpan

_GONE = "This document was deleted, or you can no longer read it."
_NO_REPLY = "This reply is no longer available. Reload the page."


@st.fragment
def show_source(place: conversations.ChatLocation) -> None:
    told = draw_component("source", key=f"source-{place.conversation}", on_chosen_change=lambda: None)
    if not (chosen := cast("Mapping[str, Any]", told or {}).get("chosen")):
        return
    shown = st.empty()

    def show(body: str, shows: str, *, is_busy: bool = False) -> None:
        state = f'data-source-shown="{escape(shows)}" aria-busy="{str(is_busy).lower()}"'
        close = '<button type="button" class="carrel-close">Close</button>'
        shown.html(f'<section class="carrel-preview" tabindex="0" aria-label="Source" {state}>{close}{body}</section>')

    show(WAITING, str(chosen), is_busy=True)
    body, shows = "", ""  # source.js asks again for a source that isn't shown
    with error_boundary():
        try:
            body, shows = _read_source_html(place, str(chosen)), str(chosen)
        finally:
            show(body, shows)


def _read_source_html(place: conversations.ChatLocation, chosen: str) -> str:
    """Read the reply again, then the passage: access may have changed since the page was drawn."""
    if (transcript := conversations.read(place.conversation)) is None:
        return f'<p class="carrel-text" role="status">{_NO_REPLY}</p>'
    source = _find_source(transcript, chosen)
    where = source and conversations.location_of(source, urlencode(place.address()))
    texts: Mapping[int, str] = {}
    if where is not None and where.chunk_index is not None:
        try:
            texts = read_around(person_client(), where)
        except carrel.NotFoundError as error:
            # An agent's collection may be hidden from the person, and the document may have left it.
            where = None if error.code == "document_not_found" else replace(where, chunk_index=None, collection_id=None)
    if source is None or where is None:
        return f'<p class="carrel-text" role="status">{_GONE}</p>'
    quoted = [TextSpan(start=0, end=len(source.quote))]
    passage = passage_html(source.quote, quoted, where, texts, ())
    address = escape(where.address)
    link = f'<p class="carrel-facts"><a href="{address}" target="_blank" rel="noopener">Open the document</a></p>'
    return f"<h2>{isolate(source.name)}</h2>{passage}{link}"


def _find_source(transcript: GetConversationResponse, chosen: str) -> ReferencedSource | None:
    for message in transcript.messages:
        for number, source in enumerate(message.referenced_sources, 1):
            if conversations.anchor_of(message.message_id, number) == chosen:
                return source
    return None
