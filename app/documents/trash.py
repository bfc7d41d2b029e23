"""The trash: deleted documents, to be restored or deleted for good."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.listing import change_each
from app.formatting import one_line
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.filters import text_filter
from app.ui.tables import choose_rows, forget, pages_of, time_cell
from carrel import Carrel
from carrel.wire.trash import TrashedDocument
from flows.operations.formatting import count_text, list_text

TRASH, LEFT_OUT, DONE = "documents.trash", "documents.left_out", "documents.trash_done"


def show_trash() -> None:
    """Show the person's deleted documents (for admins, all), with actions to restore or delete them."""
    for text in st.session_state.pop(LEFT_OUT, ()):
        notices.show_warning(text)
    _show_done(st.session_state.pop(DONE, ()))
    name = text_filter("Name or path", "deleted")
    catalog = api.client().catalog
    listed = pages_of(lambda at: catalog.list_trashed_documents(document_name=name or None, **at), about=name)
    hint = "Select rows to restore the documents, or to delete them for good."
    chosen = choose_rows(TRASH, listed, row=_row, empty=partial(_show_nothing, name), hint=hint)
    if not chosen:
        return
    names, many = [document.document_name for document in chosen], count_text(len(chosen), "document")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{many} selected")
        if st.button("Restore …", key="trash.restore", icon=":material/restore_from_trash:"):
            back = "Documents return to their collections with the access that admins gave, unless these were deleted. "
            back += "Owners must share their documents again."
            act = partial(change_each, TRASH, chosen, _restore)
            confirm(f"Restore {many}?", back, action=act, names=names)
        if st.button("Delete for good …", key="trash.delete", icon=":material/delete_forever:"):
            act = partial(_delete, chosen)
            confirm(f"Delete {many} for good?", "This can't be undone.", action=act, names=names)


def _show_done(done: Sequence[tuple[str, UUID | None]]) -> None:
    for doing, is_back in (("Restored", True), ("Deleted for good", False)):
        if names := [one_line(name) for name, document in done if (document is not None) is is_back]:
            notices.show_note(f"{doing}: {list_text(names)}.")
    for name, document in done[:5]:
        if document is not None:
            notices.show_link(f"Open {one_line(name)}", "documents", document=str(document))


def _row(document: TrashedDocument) -> dict[str, object]:
    return {
        "Name": document.document_name,
        "Path": document.document_external_id,
        "Deleted": time_cell(document.deleted_at),
        "Deleted by": document.deleted_by.name,
        "Days left": max(ceil((document.kept_until - datetime.now(UTC)) / timedelta(days=1)), 0),
    }


def _show_nothing(name: str) -> None:
    if name:
        notices.show_empty("No deleted documents match.", "Search for part of the name or path.")
    elif days := api.me().trash_days:
        kept = f"You can restore deleted documents here for {count_text(days, 'day')}."
        notices.show_empty("The trash is empty.", kept)
    else:
        notices.show_empty("The trash is turned off.", "You cannot restore documents after you delete them.")


_REASONS = "They were deleted or changed, you cannot change them, or a program sent the document's chunks to them."


def _restore(client: Carrel, document: TrashedDocument) -> None:
    back = client.catalog.restore_document(document.trashed_document_id)
    st.session_state.setdefault(DONE, []).append((document.document_name, back.document_id))
    lost = [*(back.readers_left_out or ()), *(back.collections_left_out or ()), *(back.values_left_out or ())]
    if lost:
        told = st.session_state.setdefault(LEFT_OUT, [])
        told.append(f"{document.document_name} was restored without {list_text(lost)}. {_REASONS}")


def _delete(chosen: Sequence[TrashedDocument]) -> None:
    forget(TRASH, unchoose=True)
    with suppress(carrel.NotFoundError):  # an earlier attempt, or another person, has deleted or restored all
        erased = api.client().catalog.delete_trashed_documents([document.trashed_document_id for document in chosen])
        gone = set(erased.trashed_document_ids)
        st.session_state[DONE] = [(item.document_name, None) for item in chosen if item.trashed_document_id in gone]
