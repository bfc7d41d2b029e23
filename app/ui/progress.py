"""The progress of work that goes step by step while the page waits."""

import html
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st

from app.ui.tables import Page

T = TypeVar("T")


def show_progress(outcomes: Iterable[T], *, of: int, doing: str) -> Iterator[T]:
    """Yield outcomes one by one under a progress bar; `doing` is the label of the bar.

    A click meanwhile ends the page's run at the bar: after an outcome was yielded, never before.
    """
    bar = st.progress(0.0, text=f"{doing} 1 of {of:,}")
    for number, outcome in enumerate(outcomes, 1):
        yield outcome
        bar.progress(number / of, text=f"{doing} {min(number + 1, of):,} of {of:,}")
    bar.empty()


def find_rows(pages: Iterator[Page], *, rows: Callable[[Page], Sequence[object]], most: int, of: str) -> Page:
    """Return the first page that has rows, or the last, and tell until then how many were looked through.

    A log that is narrowed by words has pages without any: the service looks through `most` entries for each.
    """
    page, place, looked_through = next(pages), st.empty(), 0
    while not rows(page) and page.next_page_token is not None:
        looked_through += most
        place.html(f'<p class="carrel-facts" role="status">Looked through {looked_through:,} {of} so far …</p>')
        page = next(pages)
    place.empty()
    return page


@contextmanager
def show_skeletons(doing: str, *, count: int) -> Generator[None]:
    """Show boxes in the shape of results while these are waited for; screen readers say `doing`."""
    place = st.empty()
    one = '<div class="carrel-skeleton"><span></span><span></span><span></span></div>'
    said = f'<p class="carrel-unseen" role="status">{html.escape(doing)}</p>'
    place.html(f'{said}<div class="carrel-skeletons" aria-hidden="true">{one * count}</div>')
    try:
        yield
    finally:
        place.empty()
