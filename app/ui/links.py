"""Links between pages, and from an item back to its list."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st


def address(page: str, /, **parameters: str) -> str:
    """Return the address of a page (the name of its file in app/views) with these parameters."""
    return f"{page}?{urlencode(parameters)}" if parameters else page


@dataclass(frozen=True)
class LinkedText:
    """A table cell with a text that leads to an address of the workbench."""

    text: str
    address: str

    @property
    def body(self) -> str:
        """The link as HTML, in the same window."""
        return f'<a href="{html.escape(self.address)}" target="_self">{html.escape(self.text)}</a>'


def show_link(text: str, page: str, /, **parameters: str) -> None:
    """Show a link to another page in the same window; `text` is escaped."""
    st.html(f'<p class="carrel-text">{LinkedText(text, address(page, **parameters)).body}</p>')


def look_at(parameter: str, one: object) -> None:
    """Look at a row of a list; what narrows the list stays in the address, for the way back."""
    st.query_params[parameter] = str(one)
    st.rerun()


def leave(*parameters: str) -> None:
    """Go back from an item to its list, by removing these parameters from the address."""
    for name in parameters:
        st.query_params.pop(name, None)


def offer_way_back(text: str, *parameters: str, also: Callable[[], object] | None = None) -> None:
    """Show a button that goes back from an item to its list, by removing parameters from the address."""

    def go() -> None:
        leave(*parameters)
        if also is not None:
            also()

    st.button(text, key=f"back.{parameters[0]}", icon=":material/arrow_back:", type="tertiary", on_click=go)
