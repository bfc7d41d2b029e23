"""The sample organization: loaded and removed by a button, each after saying what it changes."""

import os
from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.loading.runs import runs_to_change
from app.loading.starting import open_run
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.notices import show_problem, show_table, show_text, show_warning
from app.ui.progress import show_progress
from flows.operations.options import UploadOptions
from sample.organization import MANIFEST, NAME, STEPS, collection_name, set_up_by_steps
from sample.removal import SampleItem, count_items, find_sample, remove_sample

_DOING, _OUTCOME = "sample.doing", "sample.outcome"
_LOAD, _REMOVE = "load", "remove"
_NAMED = 5


def offer_sample() -> None:
    """Show the buttons that load and remove the sample, and carry out what was confirmed."""
    show_text(
        f"{NAME}: a small company's documents, with people, groups, a collection and an agent, for trying everything "
        "out. What you have yourself is not touched, neither by loading nor by removing."
    )
    doing = st.session_state.pop(_DOING, None)
    if doing == _LOAD:
        _load()
    elif doing == _REMOVE:
        _remove()
    with st.container(horizontal=True):
        if st.button("Load the sample …", key="sample.load", type="primary", icon=":material/download:"):
            _ask_for_loading()
        if st.button("Remove the sample …", key="sample.remove", icon=":material/delete:"):
            _ask_for_removal()
    gone, of = st.session_state.pop(_OUTCOME, ([], 0))
    if not of:
        return
    if len(gone) < of:
        show_warning(f"Interrupted: {of - len(gone):,} of {of:,} were not removed.", "Remove the sample once more.")
    show_text(f"Removed: {count_items(gone)}.")
    show_table([(item.kind.capitalize(), item.name) for item in gone if item.kind != "document"])


def _ask_for_loading() -> None:
    with st.spinner("Looking for what bears the sample's names …"):
        state = show_errors(lambda: find_sample(api.client()))
    if hindrances := state.hindrances:
        told = "Loading would change what isn't the sample's." if state.foreign else "An earlier sample is here."
        show_problem(told, *hindrances[:_NAMED], _more(hindrances))
        return
    confirm(
        "Load the sample?",
        "It makes people and groups, a collection that everybody may search, and an agent that everybody may ask; a "
        "run then loads the documents. Loading it again changes nothing.",
        doing="Load it",
        action=partial(_begin, _LOAD),
    )


def _ask_for_removal() -> None:
    with st.spinner("Looking for what the sample has brought …"):
        state = show_errors(lambda: find_sample(api.client()))
    if state.stays:
        show_warning("This stays as it is:", *state.stays[:_NAMED], _more(state.stays))
    if not state.items:
        show_text("Nothing of the sample is here that could be removed.")
        return
    confirm(
        "Remove the sample?",
        f"What will go: {count_items(state.items)}. People are offboarded: they can't sign in any more. What isn't the "
        "sample's, or is needed by something else, stays; the page says what.",
        doing="Remove it",
        action=partial(_begin, _REMOVE),
    )


def _begin(doing: str) -> None:
    st.session_state[_DOING] = doing


def _load() -> None:
    """Set the sample up, then open the page of the run that loads its documents; interrupted, it is done again."""
    steps = set_up_by_steps(api.client(), password=os.environ.get("CARREL_SAMPLE_PASSWORD"))
    show_errors(lambda: list(show_progress(steps, of=STEPS, doing="Setting up")))
    api.collections.clear()
    options = UploadOptions(collection=collection_name())
    run = show_errors(lambda: runs_to_change().start_upload(str(MANIFEST), options, person=api.me().email))
    open_run(run)


def _remove() -> None:
    """Remove what the sample has brought, looked at anew; what is gone is kept, for whoever leaves half-way."""
    with st.spinner("Looking for what the sample has brought …"):
        state = show_errors(lambda: find_sample(api.client()))
    gone = list[SampleItem]()
    st.session_state[_OUTCOME] = (gone, len(state.items))
    show_errors(lambda: gone.extend(show_progress(remove_sample(state), of=len(state.items), doing="Removing")))
    api.collections.clear()


def _more(sentences: Sequence[str]) -> str:
    return f"… and {len(sentences) - _NAMED:,} more." if len(sentences) > _NAMED else ""
