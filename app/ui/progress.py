"""Step-by-step work while the page waits, and the export of a whole list as a file, with a progress bar."""

import csv
import html
import io
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar
from uuid import uuid4

import streamlit as st

from app.ui.errors import error_boundary
from app.ui.notices import offer_download, show_text
from carrel.spreadsheets import as_text
from carrel.wire.common import PagedResponse
from flows.operations.formatting import count_text

T = TypeVar("T")
Page = TypeVar("Page", bound=PagedResponse)


def show_progress(outcomes: Iterable[T], *, of: int, doing: str) -> Iterator[T]:
    """Yield outcomes under a progress bar to `of`. A click ends the page's run only after an outcome was yielded."""
    bar = st.progress(0.0, text=f"{doing} 1 of {of:,}")
    for number, outcome in enumerate(outcomes, 1):
        yield outcome
        bar.progress(number / of, text=f"{doing} {min(number + 1, of):,} of {of:,}")
    bar.empty()


def find_rows(pages: Iterator[Page], *, rows: Callable[[Page], Sequence[object]], most: int, of: str) -> Page:
    """Return the first page with rows, or the last; report the entries looked through, `most` for each page."""
    page, place, looked_through = next(pages), st.empty(), 0
    while not rows(page) and page.next_page_token is not None:
        looked_through += most
        place.html(f'<p class="carrel-facts" role="status">Looked through {looked_through:,} {of} so far …</p>')
        page = next(pages)
    place.empty()
    return page


@contextmanager
def show_skeletons(doing: str, *, count: int) -> Generator[None]:
    """Show boxes in the shape of results during loading; screen readers say `doing`."""
    place = st.empty()
    box = '<div class="carrel-skeleton"><span></span><span></span><span></span></div>'
    said = f'<p class="carrel-unseen" role="status">{html.escape(doing)}</p>'
    place.html(f'{said}<div class="carrel-skeletons" aria-hidden="true">{box * count}</div>')
    try:
        yield
    finally:
        place.empty()


MOST_ROWS = 100_000


def csv_of_pages(
    heads: Sequence[str], pages: Iterable[Iterable[Sequence[str]]], *, count: Callable[[int], object], most: int
) -> bytes:
    """Return at most `most` rows as UTF-8 CSV, with a mark for spreadsheets; `count` gets the rows after each page."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(heads)
    done = 0
    for page in pages:
        for row in islice(page, most - done):
            writer.writerow([as_text(cell) for cell in row])
            done += 1
        count(done)
        if done == most:
            break
    return b"\xef\xbb\xbf" + text.getvalue().encode()


_KEPT = "export.kept"


@dataclass(frozen=True)
class _Kept:
    about: Hashable
    data: bytes
    rows: int
    mark: str = field(default_factory=lambda: uuid4().hex)


def offer_export(
    file_name: str,
    heads: Sequence[str],
    pages: Iterable[Iterable[Sequence[str]]],
    *,
    about: Hashable,
    most: int = MOST_ROWS,
    label: str = "Export as CSV",
) -> None:
    """Show a button that makes and downloads a list's CSV from `pages`. The session keeps the last file by `about`."""
    about = (file_name, about)
    kept: _Kept | None = st.session_state.get(_KEPT)
    if kept is not None and kept.about != about:
        kept = None
    with st.container(horizontal=True, vertical_alignment="center"):
        if made := st.button(label, key=f"export.{file_name}", icon=":material/table:"):
            kept = _make_file(heads, pages, about, most=most)
        if kept is not None:
            with st.container(width="content", key=f"export-made-{kept.mark}" if made else "export-kept"):
                offer_download("Download again", kept.data, file_name)
            show_text(_describe_size(kept.rows, most=most))


def _make_file(heads: Sequence[str], pages: Iterable[Iterable[Sequence[str]]], about: Hashable, *, most: int) -> _Kept:
    bar = st.progress(0.0, text="Loading the first rows …")
    rows = 0

    def count(done: int) -> None:
        nonlocal rows
        rows = done
        # The total is unknown: the bar approaches its end, and the number is exact.
        bar.progress(1 - 1 / (1 + done / 1000), text=f"{count_text(done, 'row')} so far …")

    with error_boundary():
        data = csv_of_pages(heads, pages, count=count, most=most)
    bar.empty()
    st.session_state[_KEPT] = kept = _Kept(about, data, rows)
    return kept


def _describe_size(rows: int, *, most: int) -> str:
    if rows < most:
        return f"{count_text(rows, 'row')}, as of now"
    return f"First {count_text(rows, 'row')}, the most that a file can have. Filter the list to export others."
