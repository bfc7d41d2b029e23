"""Starting runs that upload nothing: adding the catalog's documents to a collection, and indexing again."""

import streamlit as st

import carrel
from app import api
from app.document_collections.contents import embedding_models
from app.loading.form import CREDENTIAL, Job, Missing, field
from app.loading.starting import begin_job, show_refusal, was_pressed
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_text
from carrel.wire.collections import DocumentCollection
from carrel.wire.sources import holds_credential
from flows.operations.options import CATALOG, CollectionOptions, ReindexOptions

STALE, EVERYTHING, MODEL = "What has changed since", "Everything", "Everything, with another model"


def offer_addition() -> None:
    """Show the form that adds documents of the catalog to a collection; then start the run."""
    job = addition_job()
    if job is None:
        return
    if was_pressed(st.button("Start the addition", type="primary", key="start.addition")):
        begin_job(job, key="add")
    show_refusal()


def offer_indexing() -> None:
    """Show the form that indexes documents again; then start the run."""
    job = indexing_job()
    if was_pressed(st.button("Start the indexing", type="primary", key="start.indexing")):
        begin_job(job, key="index")
    show_refusal()


def addition_job(base: CollectionOptions | None = None) -> Job | Missing | None:
    """Show the fields of an addition to a collection; return None where there is no collection."""
    collections = show_errors(api.collections)
    if not collections:
        show_empty("There is no collection yet.", "Make one on the page Collections.")
        return None
    show_text(
        "Adds documents that are in the catalog already: those that a manifest or a folder names, with the fields that "
        "a manifest gives them, or those that a pattern chooses. No file is sent, and nothing is taken out."
    )
    collection = _choose_collection(collections)
    place = st.text_input(
        "Which documents",
        key=field("addition"),
        placeholder="catalog://policies/*?team=ferries, /srv/manifest.csv",
        help="catalog:// and a pattern of identifiers (* is anything), after a question mark with fields and values "
        "that they must have.",
    ).strip()
    if not place:
        return Missing("It isn't said which documents.", "Name them, and start again.")
    if holds_credential(place):
        return CREDENTIAL
    known = {} if base is None else base.model_dump()
    options = CollectionOptions.model_validate({**known, "collection": collection})
    return Job("collection-add", {"source": place, "options": options.model_dump()})


def indexing_job(base: ReindexOptions | None = None) -> Job | Missing:
    """Show the fields of indexing documents again."""
    show_text(
        "A document is re-indexed by itself when it changes. This is for those that were told not to be, and for "
        "another embedding model; searches work during that time."
    )
    collection = _choose_collection(show_errors(api.collections), everything=True)
    kinds = [MODEL] if collection == CATALOG else [STALE, EVERYTHING, MODEL]
    everything = st.query_params.get("what") == "everything" and EVERYTHING in kinds
    kind = f"what-{collection == CATALOG}"
    what = st.radio("What is indexed", kinds, key=field(kind, EVERYTHING if everything else kinds[0]))
    model, force = None, False
    if what == MODEL:
        kept = [base.model] if base and base.model else []
        model = st.selectbox(
            "Embedding model",
            list(dict.fromkeys([*_models(), *kept])),
            key=field("model"),
            accept_new_options=True,
            placeholder="Choose one, or write its name",
        )
        force = st.toggle("Go without the documents that fail", key=field("force"))
        show_text("The new index is built beside the old one, and replaces it when it is complete.")
        if not model:
            return Missing(
                "It isn't said with which embedding model.", "Choose one, or write its name, and start again."
            )
    known = {} if base is None else base.model_dump()
    options = ReindexOptions.model_validate({**known, "everything": what == EVERYTHING, "model": model, "force": force})
    return Job("reindex", {"source": collection, "options": options.model_dump()})


def fill_addition(options: CollectionOptions, place: str) -> None:
    """Fill the fields with an addition that was described before."""
    field("addition", place)
    _fill_collection(options.collection)


def fill_indexing(options: ReindexOptions, collection: str) -> None:
    """Fill the fields with an indexing that was described before."""
    _fill_collection(collection)
    what = MODEL if options.model else EVERYTHING if options.everything else STALE
    for name, value in {f"what-{collection == CATALOG}": what, "model": options.model, "force": options.force}.items():
        field(name, value)


def _fill_collection(named: str) -> None:
    """Fill the field of the collection, which is named by its id or its name; one that is gone is left empty."""
    if named == CATALOG:
        field("to", CATALOG)
    for one in show_errors(api.collections):
        if named in {str(one.document_collection_id), one.collection_name}:
            field("to", str(one.document_collection_id))


def _choose_collection(collections: list[DocumentCollection], *, everything: bool = False) -> str:
    names = {str(one.document_collection_id): one.collection_name for one in collections}
    if everything:
        names[CATALOG] = "The whole catalog"
    asked = st.query_params.get("collection", "")
    key = field("to", asked if asked in names else None)
    if st.session_state.get(key) not in {None, *names}:
        st.session_state.pop(key)
    return st.selectbox("Collection", list(names), key=key, format_func=lambda key: names[key])


def _models() -> list[str]:
    try:
        return embedding_models()
    except carrel.APIError:
        return []
