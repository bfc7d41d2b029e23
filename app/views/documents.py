"""The page of documents readable by the person: state, contents, and uploads of a few."""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import api
from app.documents import all_matches, listing, sections
from app.documents.chosen import offer_actions
from app.documents.facts import kind_of, name_of_place, state_of
from app.documents.original import has_original, show_original
from app.documents.preview import preview_document
from app.documents.trash import show_trash
from app.documents.uploading import offer_upload
from app.formatting import ago, one_line
from app.loading.runs import documents_from, documents_of, source_in_words
from app.lookup import find_by_id, is_id
from app.ui import notices, tables
from app.ui.dialogs import confirm, dialog, offer_submit, open_dialog, text_in
from app.ui.errors import require_found, show_errors
from app.ui.filters import part_of
from app.ui.preview import show_preview
from app.ui.saving import keep_opened, send_changes
from carrel.wire.catalog import Document, GetDocumentResponse
from flows.operations.formatting import count_text

TITLE, PURPOSE = "Documents", "Documents that you can read, and how far they are indexed."
OPEN = "open"
ROWS = {OPEN: "Open", "choose": "Select several"}
RENAME, _DELETED = "rename_document", "documents.deleted"
ONE = ("document", "part", "place", "page", "at", "chunk", "chunk_in", "version", "quoted", "search", "chat")
"""Address parameters of a document, in addition to the list's."""
LOADED = ("run", "source")
"""Address parameters of the list of what a run, or all runs of a source, loaded."""
ORIGINAL = "original"
PARTS = {"about": "About", ORIGINAL: "Original", "versions": "Versions", "text": "Text as indexed", "readers": "Access"}


def _row(document: Document) -> dict[str, object]:
    files = f", {count_text(document.file_count, 'file')} inside" if document.file_count else ""
    return {
        "Name": document.document_name,
        "Path": document.document_external_id,
        "State": state_of(document),
        "Type": f"{kind_of(document.media_type)}{files}",
        "Changed": tables.time_cell(document.updated_at),
        "Owner": document.owner.name,
        tables.DOCUMENT: document.document_id,
    }


def _show_no_documents(wanted: listing.Wanted) -> None:
    mine = wanted.owner == api.me().email
    if wanted.narrows or (wanted.owner and not mine):
        notices.show_empty("No documents match.", "Clear some of the filters above.")
    elif mine:
        notices.show_empty("You own no documents yet.", "Add documents above, or open documents that other people own.")
        notices.show_link("All documents you can read", "documents", of=listing.ALL)
    else:
        notices.show_empty("No documents yet.", "Add documents above. Documents that you can read appear here.")


def _show_list() -> None:
    count = notices.show_title(TITLE, PURPOSE, action=partial(offer_upload, listing.LIST))
    show_errors(api.me)
    if deleted := st.session_state.pop(_DELETED, ""):
        notices.show_note(deleted)
    if any(name in st.query_params for name in LOADED):
        _show_loaded(count)
        return
    wanted = listing.ask_wanted()
    listing.show_folders(wanted)
    listed = tables.pages_of(lambda at: api.client().catalog.list_documents(**wanted.arguments(), **at), about=wanted)
    parts = partial(dict[str, Any], row=_row, empty=partial(_show_no_documents, wanted), count_at=count)
    opens = part_of("rows", ROWS, default=OPEN) == OPEN
    # On a wide screen, the list and the preview stand side by side; elsewhere there is no preview.
    left, beside = st.columns([3, 2], gap="medium")
    with left:
        if opens:
            tables.show_pages(
                listing.LIST, listed, **parts(), go=lambda chosen: notices.look_at("document", chosen.document_id)
            )
        else:
            all_matches.show_change()
            chosen = tables.choose_rows(listing.CHOSEN, listed, **parts())
            if not all_matches.offers_all(chosen, wanted):
                offer_actions(chosen)
        with st.container(horizontal=True, vertical_alignment="center"):
            listing.offer_python(wanted.arguments())
            listing.offer_list_export(wanted.arguments())
        notices.show_link("Trash", "documents", trash="open")
    with beside, st.container(key="preview"):
        shown = tables.shown_items(listing.LIST if opens else listing.CHOSEN)
        show_preview("preview-documents", preview_document, first=shown[0].document_id if shown else None)


def _show_loaded(count: DeltaGenerator) -> None:
    """Show the documents that a run, or all runs of a source, created or updated."""
    notices.offer_way_back("All documents", *LOADED)
    run, source = (st.query_params.get(name, "") for name in LOADED)
    of = f"runs of {one_line(source_in_words(source))}" if source else "this run"
    notices.show_text(f"Documents that {of} created or updated and that you can read.")
    known = source or is_id(run)
    names = show_errors(lambda: documents_from(source) if source else documents_of(UUID(run))) if known else []
    listed = api.client().catalog.list_documents

    def fetch(token: str | None) -> tables.ItemsPage[Document]:
        start, found = int(token or 0), list[Document]()
        while not found and start < len(names):  # skip a page of documents that the person may not read
            wanted, start = names[start : start + tables.PAGE_ROWS], start + tables.PAGE_ROWS
            found = list(listed(document_external_ids=wanted, page_size=tables.PAGE_ROWS))
        return tables.ItemsPage(found, str(start) if start < len(names) else None)

    tables.show_pages(
        listing.LIST,
        tables.Source(fetch, about=(run, source)),
        row=_row,
        empty=lambda: notices.show_empty(
            "No documents to show.", f"The documents of {of} were deleted, or you cannot read them."
        ),
        go=lambda chosen: notices.look_at("document", chosen.document_id),
        count_at=count,
    )


def _show_document(document: GetDocumentResponse) -> None:
    facts = (document.document_external_id, kind_of(document.media_type), f"changed {ago(document.updated_at)}")
    notices.show_heading(document.document_name, *facts)
    if not has_original(document) and st.query_params.get("part") == ORIGINAL:
        st.query_params["part"] = "text"  # the document had pages when the address was made
    parts = PARTS if has_original(document) else {name: label for name, label in PARTS.items() if name != ORIGINAL}
    part = part_of("part", parts, default="about")
    if part == "about":
        sections.show_about(document)
        sections.show_not_read(document)
        sections.show_container(document)
        st.subheader("Where it is searchable", anchor=False)
        sections.show_places(document)
        if sections.may_update(document):
            with st.container(horizontal=True):
                about = str(document.document_id)
                notices.offer_action("Rename", open_dialog, RENAME, about, key="rename", icon="edit")
                _offer_deletion(document)
            _show_rename(document)
    elif part == ORIGINAL:
        show_original(document)
    elif part == "versions":
        sections.show_versions(document)
    elif part == "text":
        sections.show_chunks(document)
    else:
        sections.show_readers(document)


@dialog("Rename", RENAME, of="document_id")
def _show_rename(document: GetDocumentResponse) -> None:
    document = keep_opened(RENAME, document)
    st.text_input("Name", value=document.document_name, key="document.name", max_chars=1000)
    notices.show_text("Later uploads of the file keep this name.")
    offer_submit(RENAME, "Save", action=partial(_rename, document))


def _rename(document: GetDocumentResponse) -> None:
    written = {"document_name": text_in("document.name", missing="Enter a name for the document.")}
    send_changes(RENAME, document, written, partial(api.client().catalog.rename_document, document.document_id))
    tables.forget(listing.LIST)


def _offer_deletion(document: GetDocumentResponse) -> None:
    if not st.button("Delete …", key="delete", icon=":material/delete:"):
        return
    places = [name_of_place(place) for place in document.indexed_in if place.document_collection_id is not None]
    leaves = f" It is removed from {count_text(len(places), 'collection')}: {', '.join(places[:10])}." if places else ""
    files = f" and {count_text(document.file_count, 'file')} in it" if document.file_count else ""
    undoing = listing.tell_undoing([document])

    def tell() -> None:
        tables.forget(listing.LIST)
        st.session_state[_DELETED] = f"{one_line(document.document_name)} is deleted. {undoing}"

    confirm(
        "Delete this document?",
        f"“{document.document_name}” has {count_text(len(document.versions), 'version')}{files}.{leaves} "
        f"Nobody can find it afterwards. {undoing}",
        action=lambda: api.client().catalog.delete_document(document.document_id),
        then=tell,
        leaving=ONE,
    )


def page() -> None:
    if "trash" in st.query_params:
        notices.show_title("Trash", "Deleted items that you can restore.")
        notices.offer_way_back("All documents", "trash", "deleted", "of", also=partial(tables.forget, listing.LIST))
        show_trash()
        return
    if (address := st.query_params.get("document")) is None:
        _show_list()
        return
    notices.show_title(TITLE, PURPOSE)
    with st.container(horizontal=True, vertical_alignment="center"):
        notices.offer_way_back("All documents", *ONE)
        for name, words in (("search", "Back to the search"), ("chat", "Back to the conversation")):
            if there := parse_qsl(st.query_params.get(name, "")):
                link = notices.LinkedText(words, f"{name}?{urlencode(there)}").body
                st.html(f'<p class="carrel-text">{link}</p>', width="content")
    get, hint = api.client().catalog.get_document, "It was deleted, you cannot read it, or the URL is wrong."
    _show_document(require_found(partial(find_by_id, get, address), "This document is not available.", hint))


page()
