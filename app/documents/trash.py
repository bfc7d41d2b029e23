"""The trash: deleted documents and groups, to be restored or deleted for good."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.listing import change_each
from app.formatting import one_line
from app.people import directory
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.filters import filter_line, part_of, text_filter
from app.ui.tables import choose_rows, forget, pages_of, show_pages, time_cell
from carrel import Carrel
from carrel.wire.people import TrashedGroup
from carrel.wire.trash import TrashedDocument
from flows.operations.formatting import count_text, list_text

TRASH, LEFT_OUT, DONE = "documents.trash", "documents.left_out", "documents.trash_done"
BACK = "groups.trash_done"
_PARTS = {"documents": "Documents", "groups": "Groups"}


def show_trash() -> None:
    """Show the person's deleted documents (for admins, all documents and groups), to be restored or deleted."""
    if api.me().is_admin and part_of("of", _PARTS, default="documents") == "groups":
        _show_groups()
        return
    for text in st.session_state.pop(LEFT_OUT, ()):
        notices.show_warning(text)
    _show_done(st.session_state.pop(DONE, ()))
    with filter_line():
        name = text_filter("Name or path", "deleted")
    catalog = api.client().catalog
    listed = pages_of(lambda at: catalog.list_trashed_documents(document_name=name or None, **at), about=name)
    days = " An operator sets the days with CARREL_TRASH_DAYS." if api.me().is_admin else ""
    hint = f"Select rows to restore the documents, or to delete them for good.{days}"
    chosen = choose_rows(TRASH, listed, row=_row, empty=partial(_show_nothing, name), hint=hint)
    if not chosen:
        return
    back = "Documents return to their collections with the access that admins gave, unless these were deleted. "
    back += "Owners must share their documents again."
    many, names = count_text(len(chosen), "document"), [document.document_name for document in chosen]
    restore = partial(change_each, TRASH, chosen, _restore_document)
    _offer(many, back, restore, partial(_delete_for_good, chosen), names=names)


def _offer(what: str, back: str, restore: Callable[[], object], delete: Callable[[], object], **more: Any) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{what} selected")
        if st.button("Restore …", key="trash.restore", icon=":material/restore_from_trash:"):
            confirm(f"Restore {what}?", back, action=restore, **more)
        if st.button("Delete for good …", key="trash.delete", icon=":material/delete_forever:"):
            confirm(f"Delete {what} for good?", "This can't be undone.", action=delete, **more)


def _show_done(done: Sequence[tuple[str, UUID | None]]) -> None:
    for doing, is_back in (("Restored", True), ("Deleted for good", False)):
        if names := [one_line(name) for name, document in done if (document is not None) is is_back]:
            notices.show_note(f"{doing}: {list_text(names)}.")
    for name, document in done[:5]:
        if document is not None:
            notices.show_link(f"Open {one_line(name)}", "documents", document=str(document))


def _show_groups() -> None:
    if told := st.session_state.pop(BACK, ""):
        notices.show_note(told)
    groups = api.client().admin.groups
    chosen = show_pages(
        directory.TRASHED,
        pages_of(lambda at: groups.list_trashed(**at)),
        row=lambda group: {"Name": one_line(group.name), "Members": group.member_count, **_when_deleted(group)},
        empty=partial(_show_nothing, "", "groups"),
        hint="Select a group to restore it, or to delete it for good.",
    )
    if chosen is not None:
        back = "The group gets its members, parent groups and access back, without people who left and without "
        back += "documents that were deleted or whose access changed since."
        delete = partial(groups.delete, chosen.group_id, for_good=True)
        act = partial(_restore_group, chosen)
        _offer("1 group", back, act, delete, names=[chosen.name], then=directory.clear_caches)


def _restore_group(group: TrashedGroup) -> None:
    back = api.client().admin.groups.restore(group.group_id)
    members, resources = count_text(group.member_count, "member"), count_text(group.resource_count, "resource")
    told = f"{back.member_count:,} of {members} and {back.resource_count:,} of {resources}"
    st.session_state[BACK] = f"{one_line(group.name)} is restored, with {told}."


def _row(document: TrashedDocument) -> dict[str, object]:
    return {"Name": document.document_name, "Path": document.document_external_id, **_when_deleted(document)}


def _when_deleted(entry: TrashedDocument | TrashedGroup) -> dict[str, object]:
    return {
        "Deleted": time_cell(entry.deleted_at),
        "Deleted by": entry.deleted_by.name if entry.deleted_by else "Identity provider",
        "Days left": max(ceil((entry.kept_until - datetime.now(UTC)) / timedelta(days=1)), 0),
    }


def _show_nothing(name: str, kind: str = "documents") -> None:
    if name:
        notices.show_empty("No deleted documents match.", "Search for part of the name or path.")
    elif days := api.me().trash_days:
        kept = f"You can restore deleted {kind} here for {count_text(days, 'day')}."
        notices.show_empty("The trash is empty.", kept)
    else:
        notices.show_empty("The trash is turned off.", f"You cannot restore {kind} after you delete them.")


_REASONS = "They were deleted or changed, you cannot change them, or a program sent the document's chunks to them."


def _restore_document(client: Carrel, document: TrashedDocument) -> None:
    back = client.catalog.restore_document(document.trashed_document_id)
    st.session_state.setdefault(DONE, []).append((document.document_name, back.document_id))
    lost = [*(back.readers_left_out or ()), *(back.collections_left_out or ()), *(back.values_left_out or ())]
    if lost:
        told = st.session_state.setdefault(LEFT_OUT, [])
        told.append(f"{document.document_name} was restored without {list_text(lost)}. {_REASONS}")


def _delete_for_good(chosen: Sequence[TrashedDocument]) -> None:
    forget(TRASH, unchoose=True)
    with suppress(carrel.NotFoundError):  # an earlier attempt, or another person, has deleted or restored all
        erased = api.client().catalog.delete_trashed_documents([document.trashed_document_id for document in chosen])
        gone = set(erased.trashed_document_ids)
        st.session_state[DONE] = [(item.document_name, None) for item in chosen if item.trashed_document_id in gone]
