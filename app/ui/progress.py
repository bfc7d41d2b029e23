"""The progress of work that goes step by step while the page waits."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import streamlit as st

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
