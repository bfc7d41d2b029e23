"""Starting runs that upload nothing: adding the catalog's documents to a collection, and indexing again."""

import streamlit as st

import carrel
from app import api
from app.document_collections.contents import embedding_models
from app.loading.runs import runs_to_change
from app.loading.starting import CREDENTIAL, CREDENTIAL_HINT, batch, begin, refuse, show_refusal, was_pressed
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_text
from carrel.wire.collections import DocumentCollection
from carrel.wire.sources import holds_credential
from flows.operations.options import CATALOG, CollectionOptions, ReindexOptions

STALE, EVERYTHING, MODEL = "What has changed since", "Everything", "Everything, with another model"


def offer_addition() -> None:
    """Show the form that adds documents of the catalog to a collection; then start the run."""
    collections = show_errors(api.collections)
    if not collections:
        show_empty("There is no collection yet.", "Make one on the page Collections.")
        return
    show_text(
        "Adds documents that are in the catalog already: those that a manifest or a folder names, with the fields that "
        "a manifest gives them, or those that a pattern chooses. No file is sent, and nothing is taken out."
    )
    collection = _choose_collection(collections)
    place = st.text_input(
        "Which documents",
        key=f"addition-{batch()}",
        placeholder="catalog://policies/*?team=ferries, /srv/manifest.csv",
        help="catalog:// and a pattern of identifiers (* is anything), after a question mark with fields and values "
        "that they must have.",
    ).strip()
    if was_pressed(st.button("Start the addition", type="primary", key="start.addition")):
        if not place:
            refuse("It isn't said which documents.", "Name them, and start again.")
        elif holds_credential(place):
            refuse(CREDENTIAL, CREDENTIAL_HINT)
        else:
            options = CollectionOptions(collection=collection)
            begin(
                lambda: runs_to_change().start_collection_add(
                    place, options, person=api.me().email, key=f"add-{batch()}"
                )
            )
    show_refusal()


def offer_indexing() -> None:
    """Show the form that indexes documents again; then start the run."""
    show_text(
        "A document is indexed again by itself when it changes. This is for those that were told not to be, and for "
        "another embedding model; searches continue meanwhile."
    )
    collection = _choose_collection(show_errors(api.collections), everything=True)
    kinds = [MODEL] if collection == CATALOG else [STALE, EVERYTHING, MODEL]
    everything = st.query_params.get("what") == "everything" and EVERYTHING in kinds
    what = st.radio(
        "What is indexed",
        kinds,
        index=kinds.index(EVERYTHING) if everything else 0,
        key=f"what-{batch()}-{collection == CATALOG}",
    )
    model, force = None, False
    if what == MODEL:
        model = st.selectbox(
            "Embedding model",
            _models(),
            key=f"model-{batch()}",
            accept_new_options=True,
            placeholder="Choose one, or write its name",
        )
        force = st.toggle("Go without the documents that fail", key=f"force-{batch()}")
        show_text("The new index is built beside the old one, and replaces it when it is complete.")
    if was_pressed(st.button("Start the indexing", type="primary", key="start.indexing")):
        if what == MODEL and not model:
            refuse("It isn't said with which embedding model.", "Choose one, or write its name, and start again.")
        else:
            options = ReindexOptions(everything=what == EVERYTHING, model=model, force=force)
            begin(
                lambda: runs_to_change().start_reindex(
                    collection, options, person=api.me().email, key=f"index-{batch()}"
                )
            )
    show_refusal()


def _choose_collection(collections: list[DocumentCollection], *, everything: bool = False) -> str:
    names = {str(one.document_collection_id): one.collection_name for one in collections}
    if everything:
        names[CATALOG] = "The whole catalog"
    asked = st.query_params.get("collection", "")
    return st.selectbox(
        "Collection",
        list(names),
        index=list(names).index(asked) if asked in names else 0,
        key=f"to-{batch()}",
        format_func=lambda key: names[key],
    )


def _models() -> list[str]:
    try:
        return embedding_models()
    except carrel.APIError:
        return []
