"""What goes wrong, in words; and text of others in tables. All of it escaped, none of it Markdown."""

import html
from collections.abc import Iterable, Sequence

import streamlit as st


def show_problem(message: str, *notes: str) -> None:
    """Say what failed, and under it what else helps."""
    _show("problem", "alert", message, notes)


def show_warning(message: str, *notes: str) -> None:
    """Say what is odd, though nothing failed."""
    _show("warning", "status", message, notes)


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
