"""Actions on the selected documents, or on all that match, as jobs of the service; export of the selected rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import streamlit as st

from app import api
from app.document_collections import contents
from app.documents import chosen_access, listing
from app.labels import DOCUMENT_CHANGES, ROLES
from app.permissions import panel
from app.ui import notices
from app.ui.dialogs import dialog, is_open, offer_submit, open_dialog, text_in
from app.ui.errors import show_errors
from app.ui.pickers import pick_principals
from app.ui.progress import csv_of_pages
from app.ui.saving import keep_opened
from app.ui.tables import shown_items
from carrel.wire.catalog import Document
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import Role
from carrel.wire.document_changes import DocumentChange
from flows.operations.formatting import count_text

FORM, WHO, INTO, SHOWN = "chosen.change", "chosen.change.who", "into", 5
DELETE, ADD, REMOVE, ACCESS = "DELETE", "ADD_TO_COLLECTION", "REMOVE_FROM_COLLECTION", "ACCESS"
EFFECTS = {
    ADD: ("Will be added", "Already added"),
    REMOVE: ("Not in it", "Will be removed"),
    "SET_VALUES": ("Not in it", "Will get the values"),
}
"""The effect of a change on a document outside and inside the collection."""
Start = Callable[[], DocumentChange]


@dataclass(frozen=True)
class Opened:
    """The documents of the dialog, fixed when it opens; `key` lets the service start the change once."""

    filters: Mapping[str, Any]
    number: int
    first: Sequence[Document]
    key: str = field(default_factory=lambda: uuid4().hex)
    grants: dict[UUID, panel.Grants] = field(default_factory=dict[UUID, panel.Grants])

    @classmethod
    def of(cls, documents: Sequence[Document]) -> "Opened":
        names = [document.document_external_id for document in documents]
        return cls({"document_external_ids": names}, len(names), documents)

    @property
    def is_whole(self) -> bool:
        return len(self.first) == self.number


def offer_actions(chosen: Sequence[Document], wanted: listing.Wanted) -> None:
    """Offer actions on the selected documents. Once a whole page is selected, offer to select all that match."""
    shown, filters = shown_items(listing.CHOSEN), wanted.filters()
    is_all, matching = st.session_state.get(listing.EVERY) == filters, 0
    if is_all or (chosen and len(chosen) == len(shown)):
        matching = show_errors(lambda: api.client().catalog.start_document_change(DELETE, **filters).document_count)
    opened = Opened(filters, matching, shown[:SHOWN]) if is_all else Opened.of(chosen)
    for change in filter(partial(is_open, FORM), DOCUMENT_CHANGES):
        show = dialog(f"{DOCUMENT_CHANGES[change][0]}: {count_text(opened.number, 'document')}", FORM, width="large")
        show(_show_form)(change, keep_opened(FORM, opened))
    if not (is_all or chosen):
        if shown:
            notices.show_text("Select rows to see the actions for them.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"All {matching:,} that match are selected." if is_all else f"{len(chosen):,} selected.")
        if not is_all and matching > len(shown):
            select = partial(st.session_state.update, {listing.EVERY: filters})
            notices.offer_action(f"Select all {matching:,} that match", select, key="all.select", kind="tertiary")
        for change, (label, icon, _) in DOCUMENT_CHANGES.items():
            if change != ACCESS or api.me().is_admin:
                notices.offer_action(f"{label} …", open_dialog, FORM, change, WHO, key=f"chosen.{change}", icon=icon)
        if is_all:
            notices.offer_action("Clear the selection", listing.unselect, key="all.clear", kind="tertiary")
        else:
            rows = map(listing.export_row, chosen)
            table = csv_of_pages(listing.EXPORTED, [rows], count=lambda _: None, most=len(chosen))
            notices.offer_download("Export as CSV", table, "documents.csv")


def _show_form(change: str, opened: Opened) -> None:
    label, _, consequence = DOCUMENT_CHANGES[change]
    if not opened.is_whole:
        notices.show_text("These are the first documents.")
    if change == ACCESS:
        start = _ask_for_access(opened)
    elif change in EFFECTS:
        start = _ask_for_collection(change, opened)
    else:
        listing.list_documents(opened.first, "Path", lambda item: item.document_external_id)
        start = partial(_start_change, change, opened)
    if change == DELETE:
        told = listing.tell_undoing(opened.first) if opened.is_whole else listing.tell_trash("them")
        consequence = f"{consequence} {told}"
    notices.show_text(consequence)
    if change == DELETE and not opened.is_whole:
        typed = st.text_input(f"To continue, type the number of documents: {opened.number}", key=f"{FORM}.count")
        start = start if typed.strip() == str(opened.number) else None
    offer_submit(FORM, label, action=lambda: _start(start) if start else None, disabled=start is None)


def _ask_for_access(opened: Opened) -> Start | None:
    if opened.is_whole:
        chosen_access.show_holders(opened.first, opened.grants)
    picked = pick_principals(WHO, label="Person or group", most=1)
    panel.choose_role("Role", f"{FORM}.role", {Role.OWNER: ROLES[Role.OWNER], "": "No direct access"})
    role = str(st.session_state[f"{FORM}.role"])
    if opened.is_whole and picked:
        opened = Opened.of(chosen_access.preview(opened.first, opened.grants, picked[0], role))
    else:
        listing.list_documents(opened.first, "Path", lambda item: item.document_external_id)
    if not (picked and opened.number):
        return None
    more: dict[str, Any] = {**opened.filters, "role": role or None, "expected_count": opened.number}
    # The shown change starts, even if the fields have changed since.
    return partial(api.client().catalog.start_access_change, picked[0].reference, **more)


def _ask_for_collection(change: str, opened: Opened) -> Start | None:
    """Ask for a collection, at first the address's, and for values. Return None while nothing would change."""
    if change != ADD and not show_errors(api.editable_collections):
        notices.show_empty("You cannot edit any collection.", "Create a collection, or ask an owner for access.")
        return None
    at, key = st.query_params.get(INTO if change == ADD else "collection", ""), f"{FORM}.collection"
    collection = contents.choose_collection("Collection", key, none="Choose", at=at, may_create=change == ADD)
    if collection is None:
        if st.session_state.get(key) != contents.NEW:
            return None
        st.text_input("Name", key=f"{FORM}.name", max_chars=200)
        return partial(_create_and_add, opened)
    ids = [document.document_id for document in opened.first]
    inside = show_errors(lambda: contents.find_inside(collection.document_collection_id, ids))
    listing.list_documents(opened.first, "Collection", lambda item: EFFECTS[change][item.document_id in inside])
    values = contents.ask_for_values(collection, FORM, adds=change == ADD) if change != REMOVE else {}
    is_ready = not opened.is_whole or (len(inside) < len(ids) if change == ADD else bool(inside))
    is_ready = is_ready and values is not None and bool(values or change != "SET_VALUES")
    return partial(_start_change, change, opened, collection) if is_ready else None


def _create_and_add(opened: Opened) -> DocumentChange:
    name = text_in(f"{FORM}.name", missing="Enter a name for the collection.")
    made = str(api.client().document_collections.create_document_collection(name).document_collection_id)
    api.collections.clear()
    st.session_state[f"{FORM}.collection"] = made  # if a later step fails, the next attempt finds the collection
    return _start_change(ADD, opened, contents.find_collection(made))


def _start_change(change: Any, opened: Opened, collection: DocumentCollection | None = None) -> DocumentChange:
    """Start the change with the values as they are now: a press also sends the text of the last field."""
    more: dict[str, Any] = {**opened.filters, "expected_count": opened.number}
    if collection is not None:
        more["target_collection_id"] = collection.document_collection_id
        more |= {"custom_metadata": contents.read_values(collection, FORM)} if change != REMOVE else {}
    return api.client().catalog.start_document_change(change, **more, headers={"Idempotency-Key": opened.key})


def _start(start: Start) -> None:
    started = start()
    listing.unselect()
    st.query_params[listing.CHANGE] = str(started.document_change_id)
