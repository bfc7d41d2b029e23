"""The preview beside a list: the chosen entry, fetched only if the screen has room. The last entry stays until then."""

from collections.abc import Callable, Mapping
from typing import Any, cast
from uuid import UUID

import streamlit as st

from app.formatting import escape, isolate, shorten
from app.ui.errors import error_boundary
from app.ui.tables import draw_component

_LONGEST_FACT = 200
WAITING = (
    '<p class="carrel-unseen" role="status">Reading the passages …</p>'
    '<div class="carrel-skeleton" aria-hidden="true"><span></span><span></span><span></span></div>'
)


@st.fragment
def show_preview(key: str, read: Callable[[str], str], *, first: UUID | None) -> None:
    """Show a preview of the document chosen in the browser, before a choice of `first`. `read` returns the HTML."""
    data = {"first": str(first or "")}
    told = draw_component("preview", key=key, data=data, on_chosen_change=lambda: None)
    if not (chosen := cast("Mapping[str, Any]", told or {}).get("chosen")):
        return
    shown, last = st.empty(), f"{key}.last"
    shown.html(st.session_state.get(last) or section_html("Preview", WAITING))
    body = ""
    with error_boundary():
        try:
            body = read(str(chosen))
        finally:
            st.session_state[last] = body
            shown.html(body or "<p></p>")


def section_html(label: str, body: str) -> str:
    return f'<section class="carrel-preview" tabindex="0" aria-label="{escape(label)}">{body}</section>'


def document_html(name: str, address: str, facts: Mapping[str, str], body: str) -> str:
    """Return a preview as HTML: the document's name as a link to `address`, facts with a value, and `body`."""
    listed = "".join(
        f"<dt>{title}</dt><dd>{isolate(shorten(fact, _LONGEST_FACT))}</dd>" for title, fact in facts.items() if fact
    )
    heading = f'<h2><a href="{escape(address)}" target="_self">{escape(name)}</a></h2><dl>{listed}</dl>'
    return section_html(f"Preview of {name}", f"{heading}{body}")


def note_html(text: str) -> str:
    return f'<p class="carrel-text" role="status">{escape(text)}</p>'
