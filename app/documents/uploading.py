"""Uploading a few files by a person, below a button above the list of documents."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any
from uuid import UUID

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

import carrel
from app import api
from app.document_collections import contents
from app.documents.facts import pages_being_read
from app.formatting import count_of, one_line
from app.labels import EVERYONE
from app.loading import staging
from app.ui.errors import line_of, show_errors
from app.ui.notices import offer_action, show_note, show_problem, show_table, show_text
from app.ui.progress import show_progress
from app.ui.tables import forget
from carrel.wire.catalog import IndexingStatus
from carrel.wire.collections import DocumentCollection
from carrel.wire.file_names import is_leftover
from carrel.wire.formats import in_words
from flows.operations.formatting import capitalize, count_text

MOST_FILES = 20
"""Most files in a manual upload; more need a run."""


@dataclass(frozen=True)
class Outcome:
    """The result of loading a file: the document or the reason for failure. `rest`: work that continues afterwards."""

    name: str
    document_id: UUID | None = None
    problem: str = ""
    waits: bool = False
    rest: str = ""

    @property
    def said(self) -> str:
        if self.document_id is None:
            return f"Failed. {self.problem}"
        if self.problem:
            return f"Loaded, but not added to the collection. {self.problem}"
        if self.rest:
            return f"Loaded. {self.rest}."
        return "Loaded. Searchable in a moment." if self.waits else "Loaded and searchable."


def load(
    files: Iterable[UploadedFile],
    *,
    access: Mapping[str, Any],
    collection_id: UUID | None,
    values: Mapping[str, str] | None = None,
    read_pictures: bool | None = None,
) -> Iterator[tuple[str, Outcome]]:
    """Upload files in turn as the person and yield each outcome. A failure stops no other file."""
    for file in files:
        outcome = _load_file(file, access=access, read_pictures=read_pictures)
        if outcome.document_id is not None and collection_id is not None:
            try:
                _add_to(collection_id, outcome.document_id, values or {})
            except carrel.CarrelError as error:
                outcome = replace(outcome, problem=line_of(error))
        yield file.file_id, outcome


def _add_to(collection_id: UUID, document_id: UUID, values: Mapping[str, str]) -> None:
    """Add a document to a collection; a document in the collection gets the values."""
    if contents.find_inside(collection_id, [document_id]):
        contents.set_values(collection_id, [document_id], values)
    else:
        put = api.client().document_collections.add_document_to_collection
        put(document_id=document_id, document_collection_id=collection_id, custom_metadata=values)


def _load_file(file: UploadedFile, *, access: Mapping[str, Any], read_pictures: bool | None) -> Outcome:
    name = file.name[:1000]
    try:
        loaded = api.client().catalog.upload_file(
            BytesIO(file.getvalue()),
            # A file of the same name becomes the next version.
            document_external_id=f"{api.me().email}/{staging.plain_name(name)}"[:1024],
            document_name=name,
            file_name=name,
            read_pictures=read_pictures,
            **access,
        )
    except carrel.CarrelError as error:
        return Outcome(name, problem=line_of(error))
    except ValueError as error:
        return Outcome(name, problem=str(error))
    rest = pages_being_read(loaded.text_recognition)
    if loaded.file_count:
        rest = f"{count_text(loaded.file_count, 'file is', 'files are')} being extracted"
    waits = loaded.indexing is not IndexingStatus.DONE
    return Outcome(name, loaded.document_id, waits=waits, rest=capitalize(rest))


ONLY_ME, GROUPS = "Only me", "My groups"
_BATCH, _OUTCOMES = "load.batch", "load.outcomes"


def offer_upload(list_key: str) -> None:
    """Show the upload button; `list_key` names the list for showing the files."""
    with st.popover("Add documents", icon=":material/upload_file:", key="load", type="primary"):
        with st.expander("File formats"):
            show_text(f"{in_words()}.")
        show_note("A file with the name of an earlier upload becomes its next version.")
        files = _choose_files()
        access = _choose_readers()
        # None keeps a document's earlier setting.
        pictures = st.toggle("Read text in images inside files", key="load.pictures") or None
        collection = _choose_collection()
        values = None if collection is None else contents.ask_for_values(collection, "load.value")
        outcomes = _kept_outcomes()
        # Files that are not loaded yet, or not in the wanted collection.
        left = [file for file in files if (done := outcomes.get(file.file_id)) is None or done.problem]
        with st.container(horizontal=True):
            pressed = st.button("Add", type="primary", key="load.go", disabled=not left)
            if outcomes:
                offer_action("Done", _start_over, key="load.done")
        if pressed and (collection is None or values is not None):
            collection_id = None if collection is None else collection.document_collection_id
            loading = load(left, access=access, collection_id=collection_id, values=values, read_pictures=pictures)
            # Each outcome is stored at once in case the person leaves the page.
            for file_id, outcome in show_progress(loading, of=len(left), doing="Loading"):
                outcomes[file_id] = outcome
            forget(list_key)
            st.rerun()
        _show_outcomes()


def _choose_files() -> list[UploadedFile]:
    key = f"load.files.{st.session_state.get(_BATCH, 0)}"
    files = st.file_uploader("Files", accept_multiple_files=True, label_visibility="collapsed", key=key)
    if leftovers := [file.name for file in files if is_leftover(file.name)]:
        show_note(f"Skipped temporary and system files: {', '.join(leftovers)}.")
        files = [file for file in files if file.name not in leftovers]
    if len(files) > MOST_FILES:
        show_problem(
            f"You selected {len(files)} files. You can add at most {MOST_FILES} at once.",
            "Remove some files, or ask an admin to load all of them.",
        )
        return []
    if repeated := staging.find_repeated_names(file.name for file in files):
        show_problem(
            f"Several files are called {', '.join(repeated)}.",
            "The file name identifies a document. Rename the files, or remove all but one of them.",
        )
        return []
    return files


def _choose_readers() -> dict[str, Any]:
    groups = {group.id: group.name for group in show_errors(api.me).groups}
    readers = [ONLY_ME, *([GROUPS] if groups else []), EVERYONE]
    chosen = st.radio("Who can read the documents", readers, key="load.readers", horizontal=True)
    access: dict[str, Any] = {"internal_public": chosen == EVERYONE}
    if chosen == GROUPS:
        access["allowed_group_ids"] = st.multiselect(
            "Groups", list(groups), list(groups)[:1], key="load.groups", format_func=lambda item: one_line(groups[item])
        )
    return access


def _choose_collection() -> DocumentCollection | None:
    with suppress(carrel.CarrelError):  # the list below shows the problem
        if api.editable_collections():
            return contents.choose_collection("Add to collection", "load.collection", none="No")
    return None


def _show_outcomes() -> None:
    if not (outcomes := _kept_outcomes()):
        return
    failed = [outcome for outcome in outcomes.values() if outcome.problem]
    if failed:
        others = "The others were added. " if len(failed) < len(outcomes) else ""
        show_problem(
            f"{count_of(len(failed), len(outcomes), 'file')} could not be added.",
            f"{others}Correct the file and upload it again, or select Add to retry.",
        )
    show_table([(outcome.name, outcome.said) for outcome in outcomes.values()], heads=("File", "Result"))


def _kept_outcomes() -> dict[str, Outcome]:
    return st.session_state.setdefault(_OUTCOMES, {})


def _start_over() -> None:
    st.session_state[_BATCH] = st.session_state.get(_BATCH, 0) + 1
    st.session_state[_OUTCOMES] = {}
