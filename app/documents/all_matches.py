"""Changes of all documents that match the filters of the list, as jobs of the service."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import streamlit as st

from app import api
from app.document_collections import contents
from app.documents.listing import CHOSEN, LIST, Wanted, list_documents, tell_trash
from app.labels import DOCUMENT_CHANGES, ROLES
from app.lookup import find_by_id
from app.permissions import panel
from app.ui import notices
from app.ui.dialogs import dialog, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.pickers import drop_choice, get_principals, pick_principals
from app.ui.saving import keep_opened
from app.ui.tables import forget, shown_items
from carrel.wire.catalog import Document
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import Role
from carrel.wire.document_changes import DocumentChangeStatus
from flows.operations.formatting import count_text

FORM, ALL, CHANGE, REFRESH_SECONDS, SHOWN, ACCESS = "all_matches", "documents.all", "change", 2.0, 5, "ACCESS"


class Opened(NamedTuple):
    """The documents of the dialog, fixed when it opens; `key` lets the service start the change once."""

    filters: Mapping[str, Any]
    number: int
    first: Sequence[Document]
    key: str


def offers_all(chosen: Sequence[Document], wanted: Wanted) -> bool:
    """Offer to select all documents that match, once a whole page is chosen; if all are, offer actions on them."""
    on_page, filters = len(shown_items(CHOSEN)), wanted.filters()
    if (chosen and len(chosen) < on_page) or st.session_state.get(ALL) != filters:
        st.session_state.pop(ALL, None)  # rows were unselected, or the filters changed
    is_all = ALL in st.session_state
    if not (is_all or (chosen and len(chosen) == on_page)):
        return False
    count = show_errors(lambda: api.client().catalog.start_document_change("DELETE", **filters).document_count)
    if not is_all and count <= on_page:
        return False
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_all:
            st.caption(f"All {on_page:,} on this page are selected.")
            select = partial(st.session_state.update, {ALL: filters})
            notices.offer_action(f"Select all {count:,} that match", select, key="all.select", kind="tertiary")
            return False
        st.caption(f"All {count:,} that match are selected.")
        for change, (label, icon, _) in DOCUMENT_CHANGES.items():
            if change != ACCESS or api.me().is_admin:
                notices.offer_action(f"{label} …", open_dialog, FORM, change, key=f"all.{change}", icon=icon)
        notices.offer_action("Clear the selection", _unselect, key="all.clear", kind="tertiary")
    for change in filter(partial(is_open, FORM), DOCUMENT_CHANGES):
        first = list(shown_items(CHOSEN))[:SHOWN]
        _show_form(change, keep_opened(FORM, Opened(filters, count, first, uuid4().hex)))
    return True


def _unselect() -> None:
    st.session_state.pop(ALL, None)
    for listed in (CHOSEN, LIST):
        forget(listed, unchoose=True)


@dialog("Change all documents that match", FORM, width="large")
def _show_form(change: str, opened: Opened) -> None:
    (label, _, consequence), collection, is_ready = DOCUMENT_CHANGES[change], None, True
    more = ". These are the first" if opened.number > len(opened.first) else ""
    notices.show_text(f"{label}: {count_text(opened.number, 'document')}{more}.")
    list_documents(opened.first, "Path", lambda document: document.document_external_id)
    notices.show_text(f"{consequence} {tell_trash('them')}" if change == "DELETE" else consequence)
    if change == "DELETE":
        typed = st.text_input(f"To continue, type the number of documents: {opened.number}", key=f"{FORM}.count")
        is_ready = typed.strip() == str(opened.number)
    elif change == ACCESS:
        is_ready = bool(pick_principals(f"{FORM}.who", label="Person or group", most=1))
        panel.choose_role("Role", f"{FORM}.role", {Role.OWNER: ROLES[Role.OWNER], "": "No direct access"})
    elif change != "REINDEX":
        collection = contents.choose_collection("Collection", f"{FORM}.collection", none="Choose")
        is_ready = collection is not None
        if collection is not None and change != "REMOVE_FROM_COLLECTION":
            values = contents.ask_for_values(collection, FORM)
            is_ready = values is not None and bool(values or change != "SET_VALUES")
    offer_submit(FORM, label, action=partial(_start, change, opened, collection), disabled=not is_ready)


def _start(change: str, opened: Opened, collection: DocumentCollection | None) -> None:
    """Start the change with the fields as they are now: a press also sends the text of the last field."""
    catalog = api.client().catalog
    start = catalog.start_document_change if change != ACCESS else catalog.start_access_change
    more: dict[str, Any] = {**opened.filters, "expected_count": opened.number}
    if change == ACCESS:
        reader, role = get_principals(f"{FORM}.who")[0].reference, st.session_state[f"{FORM}.role"]
        more |= {"principal": reader, "role": role or None}
    else:
        more |= {"change": change, "target_collection_id": collection and collection.document_collection_id}
    if collection and change != "REMOVE_FROM_COLLECTION":
        more["custom_metadata"] = contents.read_values(collection, FORM)
    started = start(**more, headers={"Idempotency-Key": opened.key})
    _unselect()
    drop_choice(f"{FORM}.who")
    st.query_params[CHANGE] = str(started.document_change_id)


def show_change() -> None:
    """Show the change in the page's address: its progress, and by name the documents that could not be changed."""
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
    notices.offer_action("Close", notices.drop_parameters, CHANGE, key="all.close", kind="tertiary")


@st.fragment(run_every=REFRESH_SECONDS)
def _watch(change_id: UUID) -> None:
    change = show_errors(lambda: api.client().catalog.get_document_change(change_id))
    if change.status is not DocumentChangeStatus.RUNNING:
        api.collections.clear()  # their numbers of documents have changed
        _unselect()
        st.rerun()
    tried, of = change.done_count + change.failed_count, count_text(change.document_count, "document")
    st.progress(min(tried / max(change.document_count, 1), 1.0), text=f"{tried:,} of {of}. You can leave this page.")
