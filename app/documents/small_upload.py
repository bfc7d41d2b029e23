"""The part that uploads a few files of one's own, under a button over the list of documents."""

from typing import cast
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.own_files import MOST_FILES, ChosenFile, Outcome, load, select_unloaded
from app.loading import staging
from app.ui.notices import show_problem, show_table, show_text
from app.ui.progress import show_progress
from app.ui.tables import forget
from carrel.wire.formats import in_words

ONLY_ME, EVERYBODY = "Only me", "Everybody in the organization"
_BATCH, _OUTCOMES = "load.batch", "load.outcomes"


def offer_upload(list_key: str) -> None:
    """Offer to load files; `list_key` is the list's that shows them then."""
    with st.popover("Add documents", icon=":material/upload_file:", key="load", type="primary"):
        show_text(f"{in_words()}. A file with the name of one you added before becomes its next version.")
        files = _choose()
        readers = st.radio("Who may read them", [ONLY_ME, EVERYBODY], key="load.readers", horizontal=True)
        # What was added with its pictures stays so where nothing is said.
        pictures = st.toggle("Read text in pictures within them", key="load.pictures") or None
        collection_id = _choose_collection()
        left = select_unloaded(files, _outcomes())
        with st.container(horizontal=True):
            pressed = st.button("Add", type="primary", key="load.go", disabled=not left)
            if _outcomes():
                st.button("Done", key="load.done", on_click=_begin_anew)
        if pressed:
            _load(left, everybody=readers == EVERYBODY, collection_id=collection_id, read_pictures=pictures)
            forget(list_key)
            st.rerun()
        _show_outcomes()


def _choose() -> list[ChosenFile]:
    dropped = st.file_uploader(
        "Files", accept_multiple_files=True, label_visibility="collapsed", key=f"load.files.{_batch()}"
    )
    files = cast("list[ChosenFile]", dropped or [])
    if len(files) > MOST_FILES:
        show_problem(
            f"These are {len(files)} files, and {MOST_FILES} can be added here at once.",
            "Take some out, or ask an admin to load them all.",
        )
        return []
    if repeated := staging.find_repeated_names(file.name for file in files):
        show_problem(
            f"Several files are called {', '.join(repeated)}.",
            "A document is known by its file's name: rename them, or leave all but one out.",
        )
        return []
    return files


def _choose_collection() -> UUID | None:
    """Show a choice of the collections that the person may change, if there are any; return the chosen one."""
    try:
        names = {one.document_collection_id: one.collection_name for one in api.editable_collections()}
    except carrel.CarrelError:  # the list below says what is wrong
        return None
    if not names:
        return None
    return st.selectbox(
        "Also add them to a collection",
        [None, *names],
        key="load.collection",
        format_func=lambda one: "No" if one is None else names[one],
    )


def _load(files: list[ChosenFile], *, everybody: bool, collection_id: UUID | None, read_pictures: bool | None) -> None:
    """Upload the remaining files, and store each outcome at once in case the person leaves the page."""
    loading = load(files, everybody=everybody, collection_id=collection_id, read_pictures=read_pictures)
    for file_id, outcome in show_progress(loading, of=len(files), doing="Loading"):
        _outcomes()[file_id] = outcome


def _show_outcomes() -> None:
    outcomes = _outcomes()
    if not outcomes:
        return
    failed = [outcome for outcome in outcomes.values() if outcome.problem]
    if failed:
        show_problem(
            f"{len(failed)} of {len(outcomes)} could not be added as you asked.",
            "The others are there. Mend what is wrong and drop the file again, or press Add to try once more.",
        )
    show_table([(outcome.name, outcome.said) for outcome in outcomes.values()], heads=("File", "Result"))


def _outcomes() -> dict[str, Outcome]:
    return st.session_state.setdefault(_OUTCOMES, {})


def _batch() -> int:
    return int(st.session_state.get(_BATCH, 0))


def _begin_anew() -> None:
    st.session_state[_BATCH] = _batch() + 1
    st.session_state[_OUTCOMES] = {}
