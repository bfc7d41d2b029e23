"""Messages, headings, and tables of foreign text, all of it escaped and none of it Markdown."""

import html
from collections.abc import Callable, Iterable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.ui.help import HelpLink, help_link, link_to_help, topic_of_page
from app.ui.links import LinkedText

Cell = str | HelpLink | LinkedText


def show_problem(message: str, *notes: str, help_at: str | None = None) -> None:
    """Show an error with advice under the message, and a link to the address of help about the error."""
    _show("problem", "alert", message, notes, help_at)


def show_warning(message: str, *notes: str) -> None:
    """Show a warning."""
    _show("warning", "status", message, notes)


def show_text(text: str) -> None:
    """Show a foreign text escaped, in the page's font."""
    st.html(f'<p class="carrel-text">{html.escape(text)}</p>')


def show_note(text: str) -> None:
    """Show a small note."""
    st.html(f'<p class="carrel-facts">{html.escape(text)}</p>')


def show_empty(title: str, hint: str = "") -> None:
    """Show in place of an empty list a title, what it would contain, and what to do."""
    more = f"<p>{html.escape(hint)}</p>" if hint else ""
    st.html(
        f'<div class="carrel-empty" role="status"><p class="carrel-empty-title">{html.escape(title)}</p>{more}</div>'
    )


def show_title(title: str, purpose: str, *, action: Callable[[], object] | None = None) -> DeltaGenerator:
    """Show a page's title in one line, with its purpose behind a mark, and what `action` draws at the line's end.

    A link leads to the page's part of the documentation. The place that is returned is for `show_count`.
    """
    topic = topic_of_page(title)
    with st.container(horizontal=True, vertical_alignment="center", key="title", gap="small"):
        st.title(title, anchor=False, help=purpose, width="content")
        count = st.empty()
        if topic:
            st.html(f'<p class="carrel-facts">{help_link("Help", topic, about=title)}</p>', width="content")
        if action is not None:
            with st.container(horizontal=True, horizontal_alignment="right", key="title-action"):
                action()
    return count


def show_count(place: DeltaGenerator, count: int, *, more: bool = False) -> None:
    """Show in the title's line how many there are; `more`: at least so many."""
    unseen = '<span class="carrel-unseen"> in the list</span>'
    place.html(f'<p class="carrel-count" role="status">{count:,}{"+" if more else ""}{unseen}</p>')


def show_heading(name: str, *facts: str) -> None:
    """Show a name that somebody chose as a heading, escaped, with a line below."""
    line = f'<p class="carrel-facts">{html.escape(" · ".join(fact for fact in facts if fact))}</p>' if facts else ""
    st.html(f'<h2 class="carrel-name">{html.escape(name)}</h2>{line}')


def show_table(rows: Iterable[Sequence[Cell]], *, heads: Sequence[str] = (), named: bool = False) -> None:
    """Show rows of text; `named` rows begin with their heading."""
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{_cells(row, named=named)}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    st.html(f'<table class="carrel-table">{top}<tbody>{body}</tbody></table>')


def _show(kind: str, role: str, message: str, notes: Iterable[str], help_at: str | None = None) -> None:
    texts = "".join(f"<p>{html.escape(text)}</p>" for text in (message, *notes) if text)
    more = f"<p>{link_to_help('What to do', help_at)}</p>" if help_at else ""
    st.html(f'<div class="carrel-notice carrel-{kind}" role="{role}">{texts}{more}</div>')


def _cells(row: Sequence[Cell], *, named: bool) -> str:
    bodies = [html.escape(one) if isinstance(one, str) else one.body for one in row]
    head = f"<th scope='row'>{bodies.pop(0)}</th>" if named else ""
    return head + "".join(f"<td>{body}</td>" for body in bodies)
