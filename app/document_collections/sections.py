"""The sections of a collection's page: its documents, and those that are stale."""

from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

from app import api
from app.document_collections.contents import (
    MOST_AT_ONCE,
    MOST_LOOKED_THROUGH,
    Stale,
    find_stale,
    index_again,
)
from app.document_collections.outcomes import INSIDE, show_outcomes, work_through
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.links import show_link
from app.ui.notices import show_empty, show_heading, show_problem, show_table, show_text
from app.ui.tables import PAGE_ROWS, Source, forget, show_pages, time_cell
from carrel.wire.collections import DocumentCollection, DocumentInCollection, ListDocumentsInCollectionResponse
from flows.operations.formatting import count_text

_STALE = "collection.stale"


def show_documents(collection: DocumentCollection, *, edits: bool) -> None:
    """Show the documents of a collection, with buttons for the chosen one."""
    where = collection.document_collection_id

    def fetch(token: str | None) -> ListDocumentsInCollectionResponse:
        listed = api.client().document_collections.list_documents_in_collection(
            where, page_size=PAGE_ROWS, page_token=token
        )
        return next(listed.pages())

    hint = "Add some under Add documents." if edits else "An editor of it may not have added any yet."
    chosen = show_pages(
        INSIDE,
        Source(fetch, lambda page: page.documents, where),
        row=_row,
        empty=partial(show_empty, "There is no document in it that you may read.", hint),
    )
    if chosen is not None:
        _show_chosen(where, chosen, edits=edits)
    if edits:
        _show_stale(collection)
    show_outcomes()


def _row(document: DocumentInCollection) -> dict[str, Any]:
    return {
        "Name": document.document_name,
        "State": _state(document),
        "Version": f"{document.indexed_version or 'none'} of {document.document_version}",
        "Passages": document.chunk_count,
        "Added": time_cell(document.added_at),
        "Fields": ", ".join(f"{name}: {value}" for name, value in document.custom_metadata.items()),
    }


def _state(document: DocumentInCollection) -> str:
    if document.error:
        return "Failed"
    if document.indexed_version is None:
        return "Being indexed"
    return "Stale" if document.stale else "Searchable"


def _show_chosen(where: UUID, document: DocumentInCollection, *, edits: bool) -> None:
    with st.container(border=True):
        show_heading(document.document_name, document.document_external_id)
        if document.error:
            show_problem(document.error)
        show_link("All about this document", "documents", document=str(document.document_id))
        if not edits:
            return
        one = (document.document_id, document.document_name)
        with st.container(horizontal=True):
            again = st.button("Re-index", key="inside.again")
            if st.button("Remove …", key="inside.remove"):
                confirm(
                    "Remove this document from the collection?",
                    f"{document.document_name} can't be found here any more. It stays in the catalog.",
                    doing="Remove",
                    action=partial(_remove, where, document.document_id),
                )
        if again:
            _index_again(where, [one])


def _remove(where: UUID, document_id: UUID) -> None:
    api.client().document_collections.remove_document_from_collection(
        document_id=document_id, document_collection_id=where
    )
    forget(INSIDE, unchoose=True)


def _index_again(where: UUID, documents: list[tuple[UUID, str]]) -> None:
    show_errors(lambda: work_through(index_again(where, documents), [], of=len(documents), doing="Re-indexing"))
    st.session_state.pop(_STALE, None)
    st.rerun()


def _show_stale(collection: DocumentCollection) -> None:
    where = collection.document_collection_id
    st.subheader("Stale documents", anchor=False)
    found: Stale | None = st.session_state.get(_STALE)
    if found is None or found.collection_id != where:
        show_text("A document is stale when its contents have changed since it was indexed here.")
        if st.button("Find stale documents", key="stale.look"):
            with st.spinner("Looking …"):
                st.session_state[_STALE] = show_errors(lambda: find_stale(where))
            st.rerun()
        return
    beyond = "" if found.all_of_it else f" among the first {MOST_LOOKED_THROUGH:,}"
    if not found.documents:
        show_text(f"None is stale{beyond}.")
        return
    show_text(f"{count_text(len(found.documents), 'document')} of those that you may read{beyond}.")
    show_table([(one.document_name, one.error or "") for one in found.documents[:MOST_AT_ONCE]])
    more = len(found.documents) - MOST_AT_ONCE
    if more <= 0:
        if st.button("Re-index them", key="stale.go", type="primary"):
            _index_again(where, [(one.document_id, one.document_name) for one in found.documents])
        return
    show_text(f"… and {count_text(more, 'document')} more.")
    if api.me().is_admin:
        text = "These are many: re-index them in a run, under Ingestion"
        show_link(text, "ingestion", job="indexing", collection=str(where))
    else:
        show_text("These are many: have an admin re-index them in a run.")
