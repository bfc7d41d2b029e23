"""The page of collections, for people who may change a collection: documents, fields, index, and access."""

from functools import partial

import streamlit as st

from app import api
from app.document_collections import contents
from app.document_collections.fields import offer_changes, show_fields
from app.document_collections.sections import show_documents, show_index
from app.document_collections.values import parameters
from app.formatting import ago, moment
from app.labels import ROLES
from app.lookup import Resource
from app.permissions.panel import show_access
from app.ui import notices
from app.ui.dialogs import NotYetError, confirm, dialog, offer_dialog, offer_submit, open_dialog, text_in
from app.ui.errors import require_editor, require_found, show_errors
from app.ui.filters import filter_line, part_of, text_filter
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import ResourceType, Role
from flows.operations.formatting import count_text

TITLE, PURPOSE = "Collections", "Documents that people search together, and that agents answer from."
NEW, FIELDS, RENAME = "new_collection", "new.fields", "rename_collection"
ONE = ("collection", "part")
"""Address parameters of a collection, in addition to the list's, and to its filters."""
READERS_PARTS = {"documents": "Documents", "about": "About"}
_EDITORS_PARTS = {"add": "Add documents", "fields": "Fields", "index": "Index", "access": "Access"}
PARTS = {"documents": "Documents", **_EDITORS_PARTS, "about": "About"}
NONE_CALLED = ("No collections match.", "Try another part of the name.")
NONE_YET = ("No collections yet.", "People search collections, and agents answer from them. Select New collection.")


def _show_list() -> None:
    count = notices.show_title(TITLE, PURPOSE, action=partial(offer_dialog, "New collection", NEW, key="new"))
    _ask_for_collection()
    with filter_line():
        name = text_filter("Name", "name", placeholder="Part of a name")
    show_pages(
        "collections",
        pages_of(
            lambda at: api.client().document_collections.list_document_collections(collection_name=name or None, **at),
            about=name,
        ),
        row=lambda collection: {
            "Name": collection.collection_name,
            "Documents": collection.document_count,
            "Your role": ROLES[collection.role],
            "Embedding model": collection.embeddings_model,
            "Created": time_cell(collection.created_at),
        },
        empty=lambda: notices.show_empty(*(NONE_CALLED if name else NONE_YET)),
        go=lambda chosen: notices.look_at("collection", chosen.document_collection_id),
        count_at=count,
    )


@dialog("New collection", NEW, width="medium")
def _ask_for_collection() -> None:
    st.text_input("Name", key="new.name", max_chars=200)
    contents.ask_for_fields(FIELDS)
    st.selectbox(
        "Embedding model",
        show_errors(contents.embedding_models),
        key="new.model",
        index=None,
        accept_new_options=True,
        placeholder="Default, or another model's name",
    )
    offer_submit(NEW, "Create", action=_make)


def _make() -> None:
    name = text_in("new.name", missing="Enter a name for the collection.")
    try:
        fields = contents.read_fields(FIELDS)
    except ValueError as error:
        raise NotYetError(str(error)) from error
    create, model = api.client().document_collections.create_document_collection, st.session_state["new.model"]
    made = create(name, embeddings_model=model, custom_metadata_schema={"fields": fields})
    api.collections.clear()
    forget("collections")
    st.query_params["collection"] = str(made.document_collection_id)


def _show_about(collection: DocumentCollection) -> None:
    notices.show_table(
        [
            ("Documents you can read", f"{collection.document_count:,}"),
            ("Your role", ROLES[collection.role]),
            ("Created", f"{ago(collection.created_at)} ({moment(collection.created_at)})"),
            ("Embedding model", collection.embeddings_model),
        ],
        named=True,
    )
    show_fields(collection)
    where = str(collection.document_collection_id)
    if collection.role is not Role.OWNER and not api.me().is_admin:
        return
    with st.container(horizontal=True):
        notices.offer_action("Rename", open_dialog, RENAME, where, key="rename", icon="edit")
        if st.button("Delete …", key="delete", icon=":material/delete:"):
            confirm(
                "Delete this collection?",
                "This deletes the collection's index and field values, and agents can no longer search it. "
                f"Its documents, {collection.document_count:,} of which you can read, stay in the catalog.",
                action=partial(_delete, collection),
                name=collection.collection_name,
            )
    _show_rename(collection)


@dialog("Rename", RENAME, of="document_collection_id")
def _show_rename(collection: DocumentCollection) -> None:
    collection = keep_opened(RENAME, collection)
    st.text_input("Name", value=collection.collection_name, key="collection.name", max_chars=200)
    notices.show_text("Schedules, links and searches with the old name still find the collection.")
    offer_submit(RENAME, "Save", action=partial(_rename, collection))


def _rename(collection: DocumentCollection) -> None:
    written = {"collection_name": text_in("collection.name", missing="Enter a name for the collection.")}
    rename = api.client().document_collections.rename_document_collection
    send_changes(RENAME, collection, written, partial(rename, collection.document_collection_id))
    api.collections.clear()
    forget("collections")


def _delete(collection: DocumentCollection) -> None:
    api.client().document_collections.delete_document_collection(collection.document_collection_id)
    api.collections.clear()
    forget("collections")
    notices.drop_parameters(*ONE, *parameters())


def page() -> None:
    require_editor()
    if (address := st.query_params.get("collection")) is None:
        _show_list()
        return
    notices.show_title(TITLE, PURPOSE)
    notices.offer_way_back("All collections", *ONE, *parameters())
    hint = "It was deleted, you cannot search it, or the URL is wrong."
    collection = require_found(lambda: contents.find_collection(address), "This collection is not available.", hint)
    edits = api.may_edit(collection)
    count = f"{count_text(collection.document_count, 'document')} you can read"
    notices.show_heading(collection.collection_name, count, f"your role: {ROLES[collection.role].lower()}")
    is_admin, owns = api.me().is_admin, collection.role is Role.OWNER
    parts = PARTS if edits or is_admin else READERS_PARTS
    parts = {name: label for name, label in parts.items() if name not in {"access", "fields"} or is_admin or owns}
    part = part_of("part", parts, default="documents")
    if part == "documents":
        show_documents(collection, edits=edits)
    elif part == "add":
        contents.offer_adding(collection)
    elif part == "fields":
        show_fields(collection)
        offer_changes(collection)
    elif part == "index":
        show_index(collection)
    elif part == "access":
        where = collection.document_collection_id
        resource = Resource(ResourceType.DOCUMENT_COLLECTION, str(where), collection.collection_name, where)
        show_access(resource, owns=owns)
    else:
        _show_about(collection)


page()
