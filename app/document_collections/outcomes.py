"""Results of changes to documents of a collection, stored while the changes are made, and shown once."""

from collections.abc import Iterable
from typing import cast

import streamlit as st

from app.document_collections.contents import Done
from app.ui.notices import show_problem, show_table, show_text, show_warning
from app.ui.progress import show_progress
from app.ui.tables import forget
from flows.operations.formatting import count_text

INSIDE = "inside"
"""The table of a collection's documents."""
_OUTCOMES = "collection.outcomes"


def work_through(outcomes: Iterable[Done], kept: list[Done], *, of: int, doing: str) -> None:
    """Store each result at once, so that a person who leaves the page half-way still sees what was done."""
    st.session_state[_OUTCOMES] = (kept, of)
    forget(INSIDE)
    kept.extend(show_progress(outcomes, of=of, doing=doing))


def show_outcomes() -> None:
    """Show the results of the last change, once."""
    outcomes, of = cast("tuple[list[Done], int]", st.session_state.pop(_OUTCOMES, ([], 0)))
    failed = [one for one in outcomes if one.problem]
    unchanged = sum(one.left for one in outcomes)
    if len(outcomes) < of:
        show_warning(
            f"Interrupted: {of - len(outcomes):,} of {count_text(of, 'document')} were not begun. Try them again."
        )
    if failed:
        show_problem(f"{len(failed)} of {count_text(len(outcomes), 'document')} failed.", "The others are done.")
        show_table([(one.name, one.problem) for one in failed], heads=("Document", "Why"))
    elif done := len(outcomes) - unchanged:
        show_text(f"Done: {count_text(done, 'document')}.")
    if unchanged:
        show_text(f"Already in it, and left as it is: {count_text(unchanged, 'document')}.")
