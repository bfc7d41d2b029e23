"""Changes of documents as jobs of the service: their progress, the documents that could not be changed, and undoing."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.documents.listing import CHANGE, list_documents, unselect
from app.lookup import find_by_id
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from carrel.wire.document_changes import DocumentChangeStatus
from flows.operations.formatting import count_text

REFRESH_SECONDS = 2.0
UNDOES = "Each document gets back what this change replaced, unless someone has changed it since."


def show_change() -> None:
    """Show the change in the page's address: its progress, failed documents by name, and Undo."""
    address = st.query_params.get(CHANGE, "")
    change = show_errors(lambda: find_by_id(api.client().catalog.get_document_change, address))
    if change is None:  # no address, another person's change, or too old
        return
    if change.status is DocumentChangeStatus.RUNNING:
        _watch(UUID(address))
        return
    notices.show_note(f"{change.done_count:,} of {count_text(change.document_count, 'document')} done.")
    gone = change.document_count - change.done_count - change.failed_count
    if change.error:
        notices.show_warning(f"This stopped before its end: {change.error}")
    elif gone > 0:
        notices.show_text(f"{count_text(gone, 'document')} had been deleted, or no longer matched.")
    if why := {failure.document_id: failure.message for failure in change.failures or ()}:
        notices.show_warning(f"{count_text(change.failed_count, 'document')} could not be changed.")
        listed = show_errors(lambda: list(api.client().catalog.list_documents(ids=list(why), page_size=1000)))
        list_documents(listed, "Reason", lambda document: why[document.document_id])
    with st.container(horizontal=True):
        until = change.undoable_until
        if until and until > datetime.now(UTC) and st.button("Undo …", key="change.undo", icon=":material/undo:"):
            confirm("Undo this change?", UNDOES, action=partial(_undo, UUID(address)))
        notices.offer_action("Close", notices.drop_parameters, CHANGE, key="change.close", kind="tertiary")


def _undo(change_id: UUID) -> None:
    st.query_params[CHANGE] = str(api.client().catalog.undo_document_change(change_id).document_change_id)


@st.fragment(run_every=REFRESH_SECONDS)
def _watch(change_id: UUID) -> None:
    change = show_errors(lambda: api.client().catalog.get_document_change(change_id))
    if change.status is not DocumentChangeStatus.RUNNING:
        unselect()
        st.rerun()
    tried, of = change.done_count + change.failed_count, count_text(change.document_count, "document")
    st.progress(min(tried / max(change.document_count, 1), 1.0), text=f"{tried:,} of {of}. You can leave this page.")
