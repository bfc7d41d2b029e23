"""Help in place: links to the pages of the documentation, which the workbench shows itself, at /help/."""

import html
from dataclasses import dataclass

import streamlit as st

from app.documentation import HELP, anchor_of, read_page

# Where an error's code is looked for: first what to do about it, then what it says.
_PAGES_OF_CODES = ("troubleshooting", "errors")


@dataclass(frozen=True, slots=True)
class HelpLink:
    """A table cell with a link to an address of the documentation, if there is one; `about` is what it is about."""

    address: str | None
    about: str

    @property
    def body(self) -> str:
        """The link as HTML."""
        return link_to_help("What to do", self.address, about=self.about) if self.address else ""


def help_address(topic: str) -> str:
    """Return the address of a page of the documentation ("loading"), or of a heading on it ("loading#the-ledger").

    A test looks for each topic that is written in the workbench's code.
    """
    page, mark, anchor = topic.partition("#")
    return f"{HELP}/{page}{mark}{anchor}"


def help_address_of_code(code: str) -> str | None:
    """Return the address of the entry of an error's or a reason's code in the documentation; None if it has none."""
    found = ((name, read_page(name)) for name in _PAGES_OF_CODES)
    return next((help_address(f"{name}#{code}") for name, page in found if page and code in page.anchors), None)


def help_cell(code: str, *, about: str) -> HelpLink:
    """Return a table cell that leads to what to do about a reason's code, for a document or whatever it is `about`."""
    return HelpLink(help_address_of_code(code), about)


def topic_of_page(title: str) -> str | None:
    """Return the topic about a page of the workbench; None for a title that docs/workbench.md has no heading for."""
    anchor, pages = anchor_of(title), read_page("workbench")
    return f"workbench#{anchor}" if pages and anchor in pages.anchors else None


def help_link(text: str, topic: str, *, about: str = "") -> str:
    """Return HTML of a link to a topic of the documentation; `about` is what a reader of the link alone must know."""
    return link_to_help(text, help_address(topic), about=about)


def link_to_help(text: str, address: str, *, about: str = "") -> str:
    """Return HTML of a link to an address of the documentation, in a new tab, so that a form keeps what was typed."""
    label = f' aria-label="{html.escape(f"{text}: {about}")}"' if about else ""
    return f'<a href="{html.escape(address)}" target="_blank" rel="noopener"{label}>{html.escape(text)}</a>'


def show_help(text: str, topic: str) -> None:
    """Show a link to a topic of the documentation on a line of its own."""
    st.html(f'<p class="carrel-facts">{help_link(text, topic)}</p>')
