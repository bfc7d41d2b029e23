"""The values of a collection's documents: filters and order of the list, editing in the rows, and the CSV file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

from app import api
from app.document_collections.contents import INSIDE, shown_value
from app.ui import notices
from app.ui.errors import show_errors
from app.ui.filters import LONGEST, choice_filter, filter_line
from app.ui.progress import offer_export
from app.ui.tables import Edits, edit_rows, forget, shown_items
from carrel.wire import collections as wire
from flows.operations.formatting import count_text

MOST_COLUMNS = 12
MOST_COUNTED = 10_000
SORT, FIELD = "sort", "field."
HEADS = ("Document id", "External id", "Name")
MOST_AT_ONCE = 1000
_EDITING = "values.editing"


@dataclass
class Editing:
    """Documents as they were when a person began to edit; `now` has the changes that others saved since."""

    collection_id: UUID
    documents: Sequence[wire.DocumentInCollection]
    now: dict[UUID, wire.ValueChangeResult] = field(default_factory=dict[UUID, wire.ValueChangeResult])
    edits: Edits = field(default_factory=dict[int, Mapping[str, str]])  # outlive the rows, which their page removes
    collection: wire.DocumentCollection | None = None  # as at first, so that values of deleted fields are refused


def values_shown(collection: wire.DocumentCollection, held: wire.MetadataInCollection) -> dict[str, str]:
    fields = collection.custom_metadata_schema.fields
    return {item.name: shown_value(item.type, held.custom_metadata.get(item.name, "")) for item in fields}


def parameters() -> list[str]:
    """Return the names of the address parameters of filters and order, for any collection."""
    return [SORT, *(param for param in st.query_params if param.startswith(FIELD))]


def ask_narrowing(collection: wire.DocumentCollection) -> dict[str, Any]:
    """Show filters and an order by field, and return them as arguments of the list operation."""
    fields = collection.custom_metadata_schema.fields[:MOST_COLUMNS]
    if not fields:
        return {}
    counted = show_errors(lambda: _count_values(collection.document_collection_id))
    filters: list[dict[str, str]] = []
    with filter_line(*parameters()):
        for item in fields:
            parameter = f"{FIELD}{item.name}"
            found = {
                each.value: f"{shown_value(item.type, each.value)} ({each.count:,})"
                for each in counted
                if each.field == item.name and len(each.value) <= LONGEST
            }
            if (said := st.query_params.get(parameter)) and len(said) <= LONGEST:
                found.setdefault(said, shown_value(item.type, said))
            if value := choice_filter(item.name, parameter, {"": "Any", **found}):
                filters.append({"field": item.name, "operator": "==", "value": value})
        orders = {"": "As added"}
        for item in fields:
            orders |= {f"up.{item.name}": f"{item.name}, ascending", f"down.{item.name}": f"{item.name}, descending"}
        turn, _, name = choice_filter("Sort", SORT, orders).partition(".")
    if collection.document_count > MOST_COUNTED:
        notices.show_note(f"The counts cover {count_text(MOST_COUNTED, 'document')}.")
    narrowing: dict[str, Any] = {"metadata_filters": filters} if filters else {}
    return narrowing | ({"order_by": name, "descending": turn == "down"} if name else {})


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _count_values(collection_id: UUID) -> list[wire.ValueCount]:
    return api.client().document_collections.count_values(collection_id).values


def offer_values_export(collection: wire.DocumentCollection, narrowing: Mapping[str, Any]) -> None:
    where, names = collection.document_collection_id, [item.name for item in collection.custom_metadata_schema.fields]
    listed = api.client().document_collections.list_documents_in_collection(where, page_size=1000, **narrowing)
    rows = (map(partial(_export_row, names), page.documents) for page in listed.pages())
    offer_export("collection.csv", (*HEADS, *names), rows, about=(where, repr(narrowing)))


def _export_row(names: Sequence[str], document: wire.DocumentInCollection) -> list[str]:
    values = [document.custom_metadata.get(name, "") for name in names]
    return [str(document.document_id), document.document_external_id, document.document_name, *values]


def offer_value_editor(collection: wire.DocumentCollection) -> None:
    own = [item for item in shown_items(INSIDE) if item.parent_document_id is None]
    editing = Editing(collection.document_collection_id, own, collection=collection)
    begin = partial(st.session_state.update, {_EDITING: editing})
    notices.offer_action("Edit values", begin, key="values.edit", icon="edit", disabled=not editing.documents)


def show_editor(collection: wire.DocumentCollection) -> bool:
    """Show the rows that are being edited, if any, with fields for the values; return whether there are any."""
    editing: Editing | None = st.session_state.get(_EDITING)
    if editing is None or editing.collection_id != collection.document_collection_id:
        return False
    collection = editing.collection or collection
    if any(item.parent_document_id is not None for item in shown_items(INSIDE)):
        notices.show_text("Files in an archive or email have its values. Change them there.")
    fields = {field.name: field for field in collection.custom_metadata_schema.fields}
    rows = [[document.document_name, *values_shown(collection, document).values()] for document in editing.documents]
    options = {name: ("", "yes", "no") for name, field in fields.items() if field.type is wire.FieldType.BOOLEAN}
    single = (field for field in fields.values() if field.type is not wire.FieldType.LIST)
    options |= {field.name: ("", *field.choices) for field in single if field.choices}
    editing.edits = edit_rows(f"values.{hash(repr(rows))}", ["Name", *fields], rows, options, editing.edits)
    if offer_saving("values", collection, editing, editing.edits):
        del st.session_state[_EDITING]
        st.rerun()
    return True


def offer_saving(key: str, collection: wire.DocumentCollection, editing: Editing, edits: Edits) -> bool:
    """Show problems of the edits, values that other people saved since, and buttons; return whether editing ends."""
    fields = {field.name: field for field in collection.custom_metadata_schema.fields}
    changed = [(editing.documents[row], name, text) for row, cells in edits.items() for name, text in cells.items()]
    problems = [
        (document.document_name, name, fields[name].explain(text))
        for document, name, text in changed
        if text and fields[name].read(text) is None
    ]
    late = [
        (document.document_name, name, text or "Empty", values_shown(collection, now).get(name) or "Empty")
        for document, name, text in changed
        if (now := editing.now.get(document.document_id)) is not None
    ]
    if problems:
        notices.show_problem("Nothing is saved. These values are not valid for their fields.")
        notices.show_table(problems, heads=("Document", "Field", "Expected"))
    if late:
        told = "Your values for them are not saved yet."
        notices.show_warning(f"Someone else changed these documents while you edited. {told}")
        notices.show_table(late, heads=("Document", "Field", "Yours", "Theirs"))
    with st.container(horizontal=True):
        save, is_ready = "Save mine" if late else "Save", bool(changed) and not problems
        saves = st.button(save, type="primary", key=f"{key}.save", disabled=not is_ready)
        leaves = st.button("Keep theirs" if late else "Cancel", key=f"{key}.leave")
    if saves:
        show_errors(lambda: _save_edits(editing, edits))
    if saves or leaves:
        forget(INSIDE, unchoose=True)
        _count_values.clear()
        if saves and editing.now:
            st.rerun()
    return saves or leaves


def _save_edits(editing: Editing, edits: Edits) -> None:
    """Save edits, but not over values that another person saved: `now` gets these. A toast counts deleted documents."""
    changes = [
        {"document_id": document.document_id, "custom_metadata": values, "version": version}
        for document, values in ((editing.documents[row], values) for row, values in edits.items())
        for version in [editing.now.get(document.document_id, document).version]
    ]
    save = partial(api.client().document_collections.change_values, editing.collection_id)
    batches = (changes[start : start + MOST_AT_ONCE] for start in range(0, len(changes), MOST_AT_ONCE))
    results = [result for batch in batches for result in save(batch).results]
    editing.now = {one.document_id: one for one in results if one.status is wire.ValueChangeStatus.CHANGED_MEANWHILE}
    if gone := sum(item.status in {"NOT_FOUND", "IN_CONTAINER"} for item in results):
        st.toast(f"{count_text(gone, 'document')} can no longer be changed here.")
