"""The sections of a collection's page: documents, stale documents, and the rebuild of the index."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.document_collections import contents, values
from app.document_collections.values_file import offer_values_import
from app.formatting import ago, moment
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, show_errors
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel.wire.collections import DocumentCollection, DocumentInCollection
from carrel.wire.rebuilds import IndexRebuild, IndexRebuildFailure, IndexRebuildStatus
from flows.operations.formatting import count_text

REFRESH_SECONDS = 2.0
MOST_FAILURES = 50


def show_index(collection: DocumentCollection) -> None:
    collection_id = collection.document_collection_id
    notices.show_text(f"Embedding model: {collection.embeddings_model}")
    rebuild = show_errors(lambda: _rebuild_of(collection_id))
    if rebuild is not None and _is_running(rebuild):
        _watch(collection_id)
        _offer_an_end(collection_id, rebuild)
        return
    if rebuild is not None:
        ended = rebuild.finished_at or rebuild.started_at
        notices.show_text(f"{_rebuild_in_words(rebuild)} {ago(ended).capitalize()} ({moment(ended)}).")
        if rebuild.left_count:
            left = count_text(rebuild.left_count, "document")
            notices.show_warning(f"{left} could not be indexed. Carrel keeps trying.")
    if api.me().is_admin:
        notices.show_text(
            "Carrel re-indexes a document when it changes. A run under Ingestion can re-index all documents."
        )
        notices.show_link(
            "Re-index all documents in a run",
            "ingestion",
            job="indexing",
            collection=str(collection_id),
            what="everything",
        )
    _offer_rebuild(collection)


def _rebuild_of(collection_id: UUID) -> IndexRebuild | None:
    try:
        return api.client().document_collections.index_rebuilds.get_index_rebuild(collection_id)
    except carrel.ConflictError as error:
        if error.code == "no_rebuild":
            return None
        raise


def _is_running(rebuild: IndexRebuild | None) -> bool:
    return rebuild is not None and rebuild.status in {IndexRebuildStatus.RUNNING, IndexRebuildStatus.HELD}


def _rebuild_in_words(rebuild: IndexRebuild) -> str:
    change = f"from {rebuild.previous_embeddings_model} to {rebuild.embeddings_model}"
    done, all_of_them = rebuild.indexed_count or 0, rebuild.document_count or 0
    match rebuild.status:
        case IndexRebuildStatus.RUNNING:
            return f"Rebuilding, {change}: {done:,} of {all_of_them:,} documents. Searches use the old index."
        case IndexRebuildStatus.HELD:
            left = f"{all_of_them - done:,} of {all_of_them:,}"
            return f"Blocked, {change}: {left} documents keep failing. Searches use the old index."
        case IndexRebuildStatus.COMPLETED:
            return f"Rebuilt, {change}."
        case IndexRebuildStatus.CANCELLED:
            return f"Cancelled, {change}. The index did not change."


@st.fragment(run_every=REFRESH_SECONDS)
def _watch(collection_id: UUID) -> None:
    try:
        rebuild = _rebuild_of(collection_id)
        failures = _failures(collection_id) if rebuild is not None and rebuild.failed_count else ()
    except carrel.CarrelError as error:
        notices.show_warning("Progress is not available right now. This page keeps trying.", problem_of(error).message)
        return
    if rebuild is None or not _is_running(rebuild):
        api.collections.clear()
        st.rerun()
    done, whole = rebuild.indexed_count or 0, rebuild.document_count or 0
    st.progress(min(done / whole, 1.0) if whole else 0.0, text=f"{done:,} of {count_text(whole, 'document')}")
    notices.show_text(_rebuild_in_words(rebuild))
    if failures:
        notices.show_problem(
            f"{count_text(rebuild.failed_count or 0, 'document')} failed.",
            "Carrel retries automatically. Correct or remove these documents, or finish without them.",
        )
        rows = [(failure.document_name, failure.error, f"{failure.attempts:,}") for failure in failures]
        notices.show_table(rows, heads=("Document", "Reason", "Attempts in a row"))
        if (more := (rebuild.failed_count or 0) - len(rows)) > 0:
            notices.show_text(f"… and {count_text(more, 'document')} more.")


def _failures(collection_id: UUID) -> Sequence[IndexRebuildFailure]:
    rebuilds = api.client().document_collections.index_rebuilds
    return next(rebuilds.list_index_rebuild_failures(collection_id, page_size=MOST_FAILURES).pages()).failures


def _offer_an_end(collection_id: UUID, rebuild: IndexRebuild) -> None:
    rebuilds = api.client().document_collections.index_rebuilds
    model = rebuild.embeddings_model
    with st.container(horizontal=True):
        if st.button("Retry failed documents", key="rebuild.again"):
            show_errors(lambda: rebuilds.start_index_rebuild(collection_id, embeddings_model=model))
            st.toast("Retry started.")
        if rebuild.status is IndexRebuildStatus.HELD and st.button("Finish without them …", key="rebuild.force"):
            confirm(
                "Finish without them?",
                "Failed documents are not searchable until the new model can index them. Carrel keeps trying.",
                doing="Finish without them",
                action=partial(rebuilds.start_index_rebuild, collection_id, embeddings_model=model, force=True),
            )
        if st.button("Stop the rebuild …", key="rebuild.cancel"):
            confirm(
                "Stop the rebuild?",
                "This deletes the unfinished index. Searches keep using the current index.",
                doing="Stop the rebuild",
                action=partial(rebuilds.cancel_index_rebuild, collection_id),
            )


def _offer_rebuild(collection: DocumentCollection) -> None:
    st.subheader("Change the embedding model", anchor=False)
    notices.show_text(
        "Searches use the old index until the new index is complete. Every document is embedded again, which "
        "takes time and may cost money."
    )
    others = [model for model in show_errors(contents.embedding_models) if model != collection.embeddings_model]
    notices.show_text(
        "Choose a model that another collection uses, or enter the name of a model that the operator set up."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox(
            "Model",
            others,
            key="rebuild.model",
            index=None,
            accept_new_options=True,
            placeholder="Choose a model, or enter its name" if others else "Enter its name",
        )
        if st.button("Rebuild …", key="rebuild.start", disabled=not model) and model:
            rebuilds = api.client().document_collections.index_rebuilds
            confirm(
                "Rebuild the index?",
                f"{collection.collection_name}, with {model}: "
                f"{count_text(collection.document_count, 'document')} that you can read, and all others.",
                action=partial(rebuilds.start_index_rebuild, collection.document_collection_id, embeddings_model=model),
            )


_STALE = "collection.stale"
NONE_WITH = ("No document you can read has these values.", "Set a filter to Any.")


def show_documents(collection: DocumentCollection, *, edits: bool) -> None:
    collection_id = collection.document_collection_id
    if edits and values.show_editor(collection):
        return
    narrowing = values.ask_narrowing(collection)
    hint = "Use Add documents to add some." if edits else "Editors may not have added documents yet."
    missing = ("This collection has no documents you can read.", hint)
    list_documents = partial(api.client().document_collections.list_documents_in_collection, collection_id, **narrowing)
    chosen = show_pages(
        contents.INSIDE,
        pages_of(lambda at: list_documents(**at), about=(collection_id, repr(narrowing))),
        row=partial(_row, collection),
        empty=partial(notices.show_empty, *(NONE_WITH if "metadata_filters" in narrowing else missing)),
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if edits and collection.custom_metadata_schema.fields:
            values.offer_value_editor(collection)
        values.offer_values_export(collection, narrowing)
    if edits and collection.custom_metadata_schema.fields:
        offer_values_import(collection)
    if chosen is not None:
        _show_chosen(collection, chosen, edits=edits)
    if edits:
        _show_stale(collection)
    contents.show_outcomes()


def _row(collection: DocumentCollection, document: DocumentInCollection) -> dict[str, Any]:
    shown, most = list(values.values_shown(collection, document).items()), values.MOST_COLUMNS
    more = [": ".join(pair) for pair in shown[most:] if pair[1]]
    row = {
        "Name": document.document_name,
        "State": _state(document),
        "Version": f"{document.indexed_version or 'none'} of {document.document_version}",
        "Passages": document.chunk_count,
        "Added": time_cell(document.added_at),
    }
    columns = {f"{name} (field)" if name in row else name: value for name, value in shown[:most]}
    return row | columns | ({"More fields": ", ".join(more)} if len(shown) > most else {})


def _state(document: DocumentInCollection) -> str:
    if document.error:
        return "Failed"
    if document.indexed_version is None:
        return "Being indexed"
    return "Stale" if document.stale else "Searchable"


def _show_chosen(collection: DocumentCollection, document: DocumentInCollection, *, edits: bool) -> None:
    collection_id = collection.document_collection_id
    with st.container(border=True):
        notices.show_heading(document.document_name, document.document_external_id)
        if document.error:
            notices.show_problem(document.error)
        notices.show_link("Open document", "documents", document=str(document.document_id))
        if not edits:
            return
        with st.container(horizontal=True):
            again = st.button("Re-index", key="inside.again")
            if st.button("Remove …", key="inside.remove"):
                confirm(
                    "Remove this document from the collection?",
                    f"{document.document_name} is no longer searchable here. It stays in the catalog.",
                    action=lambda: api.client().document_collections.remove_document_from_collection(
                        document_id=document.document_id, document_collection_id=collection_id
                    ),
                    then=partial(forget, contents.INSIDE, unchoose=True),
                )
        if again:
            _index_again(collection_id, [document])


def _index_again(collection_id: UUID, documents: Sequence[DocumentInCollection]) -> None:
    outcomes = contents.index_again(collection_id, documents)
    show_errors(lambda: contents.work_through(outcomes, of=len(documents), doing="Re-indexing"))
    st.session_state.pop(_STALE, None)
    st.rerun()


def _show_stale(collection: DocumentCollection) -> None:
    collection_id = collection.document_collection_id
    st.subheader("Stale documents", anchor=False)
    looked_at, documents, is_whole = st.session_state.get(_STALE, (None, list[DocumentInCollection](), True))
    if looked_at != collection_id:
        notices.show_text("A document is stale if it has changed since it was indexed here.")
        if st.button("Find stale documents", key="stale.look"):
            with st.spinner("Looking …"):
                st.session_state[_STALE] = (collection_id, *show_errors(lambda: contents.find_stale(collection_id)))
            st.rerun()
        return
    beyond = "" if is_whole else f" among the first {contents.MOST_LOOKED_THROUGH:,}"
    if not documents:
        notices.show_text(f"No documents are stale{beyond}.")
        return
    notices.show_text(f"{count_text(len(documents), 'stale document')} that you can read{beyond}.")
    notices.show_table([(item.document_name, item.error or "") for item in documents[: contents.MOST_AT_ONCE]])
    if (more := len(documents) - contents.MOST_AT_ONCE) > 0:
        notices.show_text(f"… and {count_text(more, 'document')} more.")
        if api.me().is_admin:
            text = "Re-index these documents in a run under Ingestion"
            notices.show_link(text, "ingestion", job="indexing", collection=str(collection_id))
        else:
            notices.show_text("Ask an admin to re-index these documents in a run.")
    elif st.button("Re-index all", key="stale.go", type="primary"):
        _index_again(collection_id, documents)
