"""A whole list as a file that spreadsheets can open safely: fetched page by page under a progress bar."""

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import uuid4

import streamlit as st

from app.ui.errors import error_boundary
from app.ui.notices import show_text
from carrel.spreadsheets import as_text
from flows.operations.formatting import count_text

MOST_ROWS = 100_000


def in_batches(
    heads: Sequence[str], pages: Iterable[Iterable[Sequence[str]]], *, count: Callable[[int], object], most: int
) -> bytes:
    """Return the rows of all pages as CSV in UTF-8, at most `most`; `count` gets the number of rows after each page.

    It begins with a byte order mark, without which spreadsheets take UTF-8 for another encoding.
    """
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
class Export:
    """A list as a file: the columns' headings, its rows page by page, and what it depends on."""

    file_name: str
    heads: Sequence[str]
    pages: Iterable[Iterable[Sequence[str]]]
    about: Hashable
    most: int = MOST_ROWS


@dataclass(frozen=True)
class _Kept:
    about: Hashable
    data: bytes
    rows: int
    mark: str = field(default_factory=lambda: uuid4().hex)


def offer_export(export: Export) -> None:
    """Show a button that makes a list's CSV and downloads it; the session keeps the last file only.

    The page's script (assets/page.js) downloads what was just made; where a browser refuses that, a second button does.
    """
    about = (export.file_name, export.about)
    kept: _Kept | None = st.session_state.get(_KEPT)
    if kept is not None and kept.about != about:
        del st.session_state[_KEPT]
        kept = None
    with st.container(horizontal=True, vertical_alignment="center"):
        if made := st.button("Export as CSV", key=f"export.{export.file_name}", icon=":material/table:"):
            kept = _make(export, about)
        if kept is not None:
            with st.container(width="content", key=f"export-made-{kept.mark}" if made else "export-kept"):
                _offer_download(export, kept)
            show_text(_size(kept.rows, most=export.most))


def _offer_download(export: Export, kept: _Kept) -> None:
    st.download_button(
        "Download again",
        kept.data,
        file_name=export.file_name,
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def _make(export: Export, about: Hashable) -> _Kept:
    bar = st.progress(0.0, text="Asking for the first rows …")
    rows = 0

    def count(done: int) -> None:
        nonlocal rows
        rows = done
        # How many there will be is not known before: the bar comes nearer to its end, and the number says the truth.
        bar.progress(1 - 1 / (1 + done / 1000), text=f"{count_text(done, 'row')} so far …")

    with error_boundary():
        data = in_batches(export.heads, export.pages, count=count, most=export.most)
    bar.empty()
    st.session_state[_KEPT] = kept = _Kept(about, data, rows)
    return kept


def _size(rows: int, *, most: int) -> str:
    if rows < most:
        return f"{count_text(rows, 'row')}, as things were just now"
    return f"The first {count_text(rows, 'row')}: no file holds more. Narrow the list down for the others."
