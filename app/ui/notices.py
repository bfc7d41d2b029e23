"""What goes wrong, in words; and text of others in tables. All of it escaped, none of it Markdown."""

import html
from collections.abc import Iterable, Sequence

import streamlit as st


def show_problem(message: str, *notes: str) -> None:
    """Show an error with advice under the message."""
    _show("problem", "alert", message, notes)


def show_warning(message: str, *notes: str) -> None:
    """Show a warning."""
    _show("warning", "status", message, notes)


def show_text(text: str) -> None:
    """Show text of anybody's as it is, in the page's own type."""
    st.html(f'<p class="carrel-text">{html.escape(text)}</p>')


def show_note(text: str) -> None:
    """Show a small note."""
    st.html(f'<p class="carrel-facts">{html.escape(text)}</p>')


def show_empty(title: str, hint: str = "") -> None:
    """Say in place of a list that there is nothing in it, what would be, and what to do."""
    more = f"<p>{html.escape(hint)}</p>" if hint else ""
    st.html(
        f'<div class="carrel-empty" role="status"><p class="carrel-empty-title">{html.escape(title)}</p>{more}</div>'
    )


def show_title(title: str, purpose: str) -> None:
    """Head a page: what it is called, and in a sentence what it is for."""
    st.title(title, anchor=False)
    st.html(f'<p class="carrel-purpose">{html.escape(purpose)}</p>')


def show_heading(name: str, *facts: str) -> None:
    """Head what somebody named: its name as it is, and in a line under it what is to know first."""
    line = f'<p class="carrel-facts">{html.escape(" · ".join(fact for fact in facts if fact))}</p>' if facts else ""
    st.html(f'<h2 class="carrel-name">{html.escape(name)}</h2>{line}')


def show_table(rows: Iterable[Sequence[str]], *, heads: Sequence[str] = (), named: bool = False) -> None:
    """Show rows of text; `named` rows begin with what they are called."""
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{_cells(row, named=named)}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    st.html(f'<table class="carrel-table">{top}<tbody>{body}</tbody></table>')


def _show(kind: str, role: str, message: str, notes: Iterable[str]) -> None:
    texts = "".join(f"<p>{html.escape(text)}</p>" for text in (message, *notes) if text)
    st.html(f'<div class="carrel-notice carrel-{kind}" role="{role}">{texts}</div>')


def _cells(row: Sequence[str], *, named: bool) -> str:
    cells = [f"<td>{html.escape(text)}</td>" for text in row]
    if named:
        cells[0] = f"<th scope='row'>{html.escape(row[0])}</th>"
    return "".join(cells)
