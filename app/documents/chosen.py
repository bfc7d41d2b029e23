"""Actions on chosen rows of the list: delete, re-index, add to a collection, remove from it, change access, export."""

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.document_collections import contents
from app.documents import chosen_access
from app.documents.listing import CHOSEN, EXPORTED, change_each, export_row, list_documents, tell_undoing
from app.ui import notices
from app.ui.dialogs import confirm, dialog, is_open, offer_submit, open_dialog, text_in
from app.ui.errors import error_boundary
from app.ui.progress import csv_of_pages
from app.ui.saving import keep_opened
from app.ui.tables import shown_items
from carrel.wire.catalog import Document
from carrel.wire.collections import DocumentCollection
from flows.operations.formatting import count_text

ADD, REMOVE, DONE, INTO = "chosen.add", "chosen.remove", "chosen.done", "into"


def offer_actions(chosen: Sequence[Document]) -> None:
    for form, show in ((ADD, _show_adding), (REMOVE, _show_removing)):
        if is_open(form):
            show(keep_opened(form, chosen))  # a change clears the choice, but its problem must still be shown
    chosen_access.show(chosen)
    done = st.session_state.pop(DONE, None)
    if not chosen:
        if done:
            notices.show_note(done)
        if shown_items(CHOSEN):
            notices.show_text("Select rows to see the actions for them.")
        return
    change = partial(change_each, CHOSEN, chosen)
    it, its = ("it", "its") if len(chosen) == 1 else ("them", "their")
    many, names = count_text(len(chosen), "document"), [document.document_name for document in chosen]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{many} selected")
        if st.button("Delete …", key="chosen.delete", icon=":material/delete:"):
            gone = f"Nobody can find {it}, or the files in {it}, afterwards. {tell_undoing(chosen)}"
            act = partial(change, lambda client, document: client.catalog.delete_document(document.document_id))
            confirm(f"Delete {many}?", gone, action=act, names=names)
        if st.button("Re-index …", key="chosen.reindex", icon=":material/refresh:"):
            act = partial(change, lambda client, document: client.catalog.reindex_document(document.document_id))
            again = f"Carrel indexes {its} text again in the background."
            confirm(f"Re-index {many}?", again, action=act, names=names)
        notices.offer_action("Add to a collection …", open_dialog, ADD, key="chosen.add", icon="library_add")
        notices.offer_action("Remove from a collection …", open_dialog, REMOVE, key="chosen.remove", icon="remove")
        if api.me().is_admin:
            open_access = partial(open_dialog, chosen_access.ACCESS, choice=chosen_access.WHO)
            notices.offer_action("Access …", open_access, key="chosen.access", icon="group")
        table = csv_of_pages(EXPORTED, [map(export_row, chosen)], count=lambda _: None, most=len(chosen))
        notices.offer_download("Export as CSV", table, "documents.csv")


@dialog("Add to a collection", ADD, width="large")
def _show_adding(chosen: Sequence[Document]) -> None:
    if (picked := _choose_collection(ADD, chosen)) is None:
        if st.session_state.get(f"{ADD}.collection") == contents.NEW:
            st.text_input("Name", key=f"{ADD}.name", max_chars=200)
            offer_submit(ADD, "Create and add", action=partial(_create_and_add, chosen))
        return
    collection, inside = picked
    list_documents(chosen, "Collection", lambda one: "Already added" if one.document_id in inside else "Will be added")
    is_right = contents.ask_for_values(collection, ADD, adds=len(inside) < len(chosen)) is not None
    if inside and collection.custom_metadata_schema.fields:
        notices.show_text("If you leave a field empty, documents already in the collection keep their value.")
    notices.show_text("Files in an archive or email are added with it.")
    offer_submit(ADD, "Add", action=partial(_add_to_collection, chosen, collection), disabled=not is_right)


@dialog("Remove from a collection", REMOVE, width="large")
def _show_removing(chosen: Sequence[Document]) -> None:
    if (picked := _choose_collection(REMOVE, chosen)) is None:
        return
    collection, inside = picked
    there = [document for document in chosen if document.document_id in inside]
    list_documents(chosen, "Collection", lambda item: "Will be removed" if item.document_id in inside else "Not in it")
    notices.show_text("Searches of this collection no longer find them or the files in them. They stay in the catalog.")
    offer_submit(REMOVE, "Remove", action=partial(_remove_from_collection, there, collection), disabled=not there)


def _choose_collection(form: str, chosen: Sequence[Document]) -> tuple[DocumentCollection, Collection[UUID]] | None:
    """Ask for a collection, at first the address's. Return it with the ids of documents in it; None until chosen."""
    with error_boundary():
        if form == REMOVE and not api.editable_collections():
            notices.show_empty("You cannot edit any collection.", "Create a collection, or ask an owner for access.")
            return None
        listed = st.query_params.get("collection" if form == REMOVE else INTO, "")
        field = f"{form}.collection"
        picked = contents.choose_collection("Collection", field, none="Choose", at=listed, may_create=form == ADD)
        ids = [document.document_id for document in chosen]
        return picked and (picked, contents.find_inside(picked.document_collection_id, ids))


def _add_to_collection(chosen: Sequence[Document], collection: DocumentCollection) -> None:
    """Add documents with the values in the fields, and change the values of documents already in the collection."""
    where, values = collection.document_collection_id, contents.read_values(collection, ADD)
    present = contents.find_inside(where, [document.document_id for document in chosen])
    changed = contents.set_values(where, present, values)
    before = set(present) - {key for key, status in changed.items() if status == "NOT_FOUND"}

    def add(client: carrel.Carrel, document: Document) -> None:
        if document.document_id not in before:
            client.document_collections.add_document_to_collection(
                document_id=document.document_id, document_collection_id=where, custom_metadata=values
            )

    change_each(CHOSEN, chosen, add, skips_gone=False)
    told = f"{count_text(len(chosen) - len(before), 'document')} added to {collection.collection_name}."
    count = list(changed.values()).count("CHANGED")
    st.session_state[DONE] = f"{told} {len(before):,} already in it, {count:,} changed." if before else told


def _create_and_add(chosen: Sequence[Document]) -> None:
    name = text_in(f"{ADD}.name", missing="Enter a name for the collection.")
    made = api.client().document_collections.create_document_collection(name).document_collection_id
    api.collections.clear()
    st.session_state[f"{ADD}.collection"] = str(made)  # if a later step fails, the next attempt finds the collection
    _add_to_collection(chosen, next(item for item in api.editable_collections() if item.document_collection_id == made))


def _remove_from_collection(chosen: Sequence[Document], collection: DocumentCollection) -> None:
    def remove(client: carrel.Carrel, document: Document) -> None:
        client.document_collections.remove_document_from_collection(
            document_id=document.document_id, document_collection_id=collection.document_collection_id
        )

    change_each(CHOSEN, chosen, remove, skips_gone=False)
    st.session_state[DONE] = f"{count_text(len(chosen), 'document')} removed from {collection.collection_name}."
