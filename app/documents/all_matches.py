"""Changes of all documents that match the filters of the list, as jobs of the service."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.document_collections import contents
from app.documents.listing import CHOSEN, LIST, Wanted, tell_trash
from app.lookup import is_id
from app.ui import notices
from app.ui.dialogs import dialog, is_open, offer_submit, open_dialog
from app.ui.errors import error_boundary, show_errors
from app.ui.saving import keep_opened
from app.ui.tables import forget, shown_items
from carrel.wire.catalog import Document
from carrel.wire.document_changes import DocumentAction, DocumentChange, DocumentChangeStatus
from flows.operations.formatting import count_text

FORM, ALL, CHANGE, REFRESH_SECONDS, SHOWN = "all_matches", "documents.all", "change", 2.0, 5
ACTIONS = {
    DocumentAction.DELETE: ("Delete", "delete", "Nobody finds them any more, nor the files in them."),
    DocumentAction.REINDEX: ("Re-index", "refresh", "Their text is indexed in the catalog again."),
    DocumentAction.ADD_TO_COLLECTION: ("Add to a collection", "library_add", "The files in them are added, too."),
    DocumentAction.REMOVE_FROM_COLLECTION: ("Remove from a collection", "remove", "They stay in the catalog."),
}


def offers_all(chosen: Sequence[Document], wanted: Wanted) -> bool:
    """Offer to select all documents that match, once a whole page is chosen; if all are, offer actions on them."""
    on_page, filters = len(shown_items(CHOSEN)), wanted.filters()
    is_all = st.session_state.get(ALL) == filters
    if not (is_all or (chosen and len(chosen) == on_page)):
        return False
    count = show_errors(partial(_count, filters))
    if count <= on_page:
        return False
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_all:
            st.caption(f"All {on_page:,} on this page are selected.")
            select = partial(st.session_state.update, {ALL: filters})
            notices.offer_action(f"Select all {count:,} that match", select, key="all.select", kind="tertiary")
            return False
        st.caption(f"All {count:,} that match are selected.")
        for change, (label, icon, _) in ACTIONS.items():
            notices.offer_action(f"{label} …", open_dialog, FORM, change.value, key=f"all.{change.value}", icon=icon)
        notices.offer_action("Clear the selection", _unselect, key="all.clear", kind="tertiary")
    for change in ACTIONS:
        if is_open(FORM, change.value):
            _show_form(change, wanted, keep_opened(FORM, count))
    return True


def _count(filters: Mapping[str, Any]) -> int:
    return api.client().catalog.start_document_change(DocumentAction.DELETE, **filters).document_count


def _unselect() -> None:
    st.session_state.pop(ALL, None)
    for listed in (CHOSEN, LIST):
        forget(listed, unchoose=True)


@dialog("Change all documents that match", FORM, width="large")
def _show_form(change: DocumentAction, wanted: Wanted, count: int) -> None:
    (label, _, consequence), listed = ACTIONS[change], api.client().catalog.list_documents
    first = show_errors(lambda: next(listed(**wanted.arguments(), page_size=SHOWN).pages())).documents
    notices.show_text(f"{label}: {count_text(count, 'document')}. These are the first of them.")
    notices.show_table([(one.document_name, one.document_external_id) for one in first], heads=("Document", "Path"))
    deletes, target, is_ready = change is DocumentAction.DELETE, None, True
    notices.show_text(f"{consequence} {tell_trash('them')}" if deletes else consequence)
    if change in {DocumentAction.ADD_TO_COLLECTION, DocumentAction.REMOVE_FROM_COLLECTION}:
        picked = contents.choose_collection("Collection", f"{FORM}.collection", none="Choose")
        target, is_ready = picked and picked.document_collection_id, picked is not None
    if deletes:
        typed = st.text_input(f"To continue, type the number of documents: {count}", key=f"{FORM}.count")
        is_ready = typed.strip() == str(count)
    asked = {**wanted.filters(), "expected_count": count, "target_collection_id": target}
    offer_submit(FORM, label, action=partial(_start, change, asked), disabled=not is_ready)


def _start(change: DocumentAction, asked: Mapping[str, Any]) -> None:
    started = api.client().catalog.start_document_change(change, **asked)
    _unselect()
    st.query_params[CHANGE] = str(started.document_change_id)


def show_change() -> None:
    """Show the change in the page's address: how far it is, and by name what could not be changed."""
    if not is_id(address := st.query_params.get(CHANGE, "")):
        return
    with error_boundary():
        try:
            change = api.client().catalog.get_document_change(UUID(address))
        except carrel.NotFoundError:  # of another person, or too old
            return
    if change.status is DocumentChangeStatus.RUNNING:
        _watch(UUID(address))
        return
    of = count_text(change.document_count, "document")
    gone = change.document_count - change.done_count - change.failed_count
    notices.show_note(f"{change.done_count:,} of {of} done.")
    if change.error:
        notices.show_warning(f"This stopped before its end: {change.error}")
    elif gone > 0:
        notices.show_text(f"{count_text(gone, 'document')} had been deleted, or did not match any more.")
    if why := {one.document_id: one.message for one in change.failures or ()}:
        notices.show_warning(f"{count_text(change.failed_count, 'document')} could not be changed.")
        listed = show_errors(lambda: list(api.client().catalog.list_documents(ids=list(why), page_size=1000)))
        with st.container(height=240):
            rows = [(one.document_name, why[one.document_id]) for one in listed]
            notices.show_table(rows, heads=("Document", "Reason"))
    notices.offer_action("Close", notices.drop_parameters, CHANGE, key="all.close", kind="tertiary")


@st.fragment(run_every=REFRESH_SECONDS)
def _watch(change_id: UUID) -> None:
    change: DocumentChange = show_errors(lambda: api.client().catalog.get_document_change(change_id))
    if change.status is not DocumentChangeStatus.RUNNING:
        api.collections.clear()  # with their numbers of documents
        _unselect()
        st.rerun()
    tried = change.done_count + change.failed_count
    of = count_text(change.document_count, "document")
    st.progress(min(tried / max(change.document_count, 1), 1.0), text=f"{tried:,} of {of}. You may leave this page.")
