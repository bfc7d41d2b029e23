"""Actions on chosen rows of the list: delete, re-index, add to a collection, remove from it, export."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.document_collections import contents
from app.documents.listing import CHOSEN, LIST, tell_undoing
from app.formatting import one_line
from app.ui import notices
from app.ui.dialogs import NotYetError, confirm, dialog, is_open, offer_submit, open_dialog
from app.ui.errors import ENDED, problem_of, show_errors
from app.ui.progress import in_batches
from app.ui.saving import keep_opened
from app.ui.tables import forget
from carrel.wire.catalog import Document
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import NamedDocument
from flows.operations.formatting import count_text

ADD, REMOVE, DONE = "chosen.add", "chosen.remove", "chosen.done"
Named = TypeVar("Named", bound=NamedDocument)


def offer_actions(chosen: Sequence[Document]) -> None:
    for form, show in ((ADD, _show_adding), (REMOVE, _show_removing)):
        if is_open(form):
            show(keep_opened(form, chosen))  # a change clears the choice, and its problem is still to be shown
    if not chosen:
        if done := st.session_state.get(DONE):
            notices.show_note(done)
        notices.show_text("Choose rows of this page, and what to do with them.")
        return
    st.session_state.pop(DONE, None)
    many, names = count_text(len(chosen), "document"), [one.document_name for one in chosen]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{many} chosen")
        if st.button("Delete …", key="chosen.delete", icon=":material/delete:"):
            gone = f"Nobody finds them any more, nor the files in them. {tell_undoing('them')}"
            act = partial(
                change_each, CHOSEN, chosen, lambda client, one: client.catalog.delete_document(one.document_id)
            )
            confirm(f"Delete {many}?", gone, doing="Delete", action=act, names=names)
        if st.button("Re-index …", key="chosen.reindex", icon=":material/refresh:"):
            act = partial(
                change_each, CHOSEN, chosen, lambda client, one: client.catalog.reindex_document(one.document_id)
            )
            again = "Their text is indexed in the catalog again, in the background."
            confirm(f"Re-index {many}?", again, doing="Re-index", action=act, names=names)
        notices.offer_action("Add to a collection …", open_dialog, ADD, key="chosen.add", icon="library_add")
        notices.offer_action("Remove from a collection …", open_dialog, REMOVE, key="chosen.remove", icon="remove")
        rows = [[one.document_name, one.document_external_id, str(one.document_id), one.owner.name] for one in chosen]
        table = in_batches(("Name", "Path", "Id", "Owner"), [rows], count=lambda _: None, most=len(rows))
        notices.offer_download("Export as CSV", table, "documents.csv")


@dialog("Add to a collection", ADD, width="large")
def _show_adding(chosen: Sequence[Document]) -> None:
    if (collection := _choose_collection(ADD)) is None:
        return
    inside = _inside(collection, chosen)
    _list_documents(chosen, lambda one: "Already in it" if one.document_id in inside else "Is added")
    is_right = contents.ask_for_values(collection, ADD) is not None
    if inside and collection.custom_metadata_schema.fields:
        notices.show_text("Documents that are already in it keep their values where you leave a field empty.")
    notices.show_text("The files in an archive or a mail are added with it.")
    offer_submit(ADD, "Add", action=partial(_add, chosen, collection), disabled=not is_right)


@dialog("Remove from a collection", REMOVE, width="large")
def _show_removing(chosen: Sequence[Document]) -> None:
    if (collection := _choose_collection(REMOVE)) is None:
        return
    inside = _inside(collection, chosen)
    there = [one for one in chosen if one.document_id in inside]
    _list_documents(chosen, lambda one: "Is removed" if one.document_id in inside else "Not in it")
    notices.show_text(
        "The documents stay in the catalog. Nobody finds them in this collection any more, nor the files in them."
        if there
        else "None of these documents is in this collection, so there is nothing to remove."
    )
    offer_submit(REMOVE, "Remove", action=partial(_remove, there, collection), disabled=not there)


def _choose_collection(form: str) -> DocumentCollection | None:
    """Ask for a collection that the person may edit, at first the collection that the list shows, if any."""
    known = {str(one.document_collection_id): one for one in show_errors(api.editable_collections)}
    if not known:
        notices.show_empty("You can't edit any collection.", "Create a collection, or ask the owner of a collection.")
        notices.show_link("Collections", "collections")
        return None
    listed = st.query_params.get("collection") if form == REMOVE else None
    picked = st.selectbox(
        "Collection",
        list(known),
        index=list(known).index(listed) if listed in known else None,
        key=f"{form}.collection",
        format_func=lambda one: known[one].collection_name if one in known else one,
        placeholder="Choose a collection that you may edit",
    )
    return known.get(picked or "")


def _inside(collection: DocumentCollection, chosen: Sequence[Document]) -> Collection[UUID]:
    ids = [one.document_id for one in chosen]
    return show_errors(lambda: contents.fields_inside(collection.document_collection_id, ids))


def _list_documents(chosen: Sequence[Document], tell: Callable[[Document], str]) -> None:
    with st.container(height=240):
        notices.show_table([(one.document_name, tell(one)) for one in chosen], heads=("Document", "In the collection"))


def _add(chosen: Sequence[Document], collection: DocumentCollection) -> None:
    where, values = collection.document_collection_id, contents.read_values(collection, ADD)
    values = {name: value for name, value in values.items() if value}
    present = contents.fields_inside(where, [one.document_id for one in chosen])

    def add(client: carrel.Carrel, one: Document) -> None:
        kept = present.get(one.document_id)
        if kept is None or values:
            client.document_collections.add_document_to_collection(
                document_id=one.document_id, document_collection_id=where, custom_metadata={**(kept or {}), **values}
            )

    _change_contents(chosen, add, collection, "now in")


def _remove(chosen: Sequence[Document], collection: DocumentCollection) -> None:
    def remove(client: carrel.Carrel, one: Document) -> None:
        try:
            client.document_collections.remove_document_from_collection(
                document_id=one.document_id, document_collection_id=collection.document_collection_id
            )
        except carrel.NotFoundError as error:
            if error.code != "document_not_in_collection":  # which an attempt before has removed, or another person
                raise

    _change_contents(chosen, remove, collection, "no longer in")


def _change_contents(
    chosen: Sequence[Document],
    change: Callable[[carrel.Carrel, Document], object],
    collection: DocumentCollection,
    done: str,
) -> None:
    try:
        change_each(CHOSEN, chosen, change, skips_gone=False)
    finally:
        api.collections.clear()
        forget(contents.INSIDE)
    many = count_text(len(chosen), "document is", "documents are")
    st.session_state[DONE] = f"{many} {done} {one_line(collection.collection_name)}."


def change_each(
    key: str, chosen: Sequence[Named], change: Callable[[carrel.Carrel, Named], object], *, skips_gone: bool = True
) -> None:
    """Change each document; raise NotYetError with the names of documents that could not be changed."""
    client, failed = api.client(), list[str]()
    for listed in (key, LIST):
        forget(listed, unchoose=True)
    for one in chosen:
        try:
            change(client, one)
        except (carrel.APIConnectionError, *ENDED):
            raise  # so would all others fail
        except carrel.CarrelError as error:
            if skips_gone and isinstance(error, carrel.NotFoundError):
                continue  # it was deleted, or restored, by an attempt before or elsewhere
            problem = problem_of(error)
            if problem.confirm_at is not None:
                raise
            failed.append(f"{one.document_name}: {problem.message}")
    if failed:
        named = [*failed[:20], *([f"And {len(failed) - 20:,} more."] if failed[20:] else [])]
        msg = f"Of {count_text(len(chosen), 'document')}, {len(failed):,} could not be changed. {' '.join(named)}"
        raise NotYetError(msg)
