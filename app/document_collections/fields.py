"""The fields of a collection, and a form for changing a field, with a plan for the documents."""

from typing import Any
from uuid import UUID

import streamlit as st

from app import api
from app.document_collections.contents import INSIDE, TYPES, read_choices, shown_value, type_in_words
from app.labels import VALUE_EFFECTS
from app.ui import notices
from app.ui.dialogs import text_in
from app.ui.errors import Problem, keep_problem, show_errors, show_kept_problem
from app.ui.tables import forget
from carrel.errors import EditConflictError
from carrel.wire.collections import CollectionFields, DocumentCollection, FieldType, SchemaFieldInfo, ValueEffect
from carrel.wire.field_values import BETWEEN
from flows.operations.formatting import count_text

_CHOSEN, _PLANNED, _PROBLEM, _DRAWN = "fields.chosen", "fields.planned", "fields.problem", "fields.drawn"
_TEXTS = dict.fromkeys((_CHOSEN, "fields..name", "fields..choices", "fields..value"), "")
_EMPTY = {**_TEXTS, _PLANNED: None, "fields..type": next(iter(TYPES)), "fields..required": False}


def show_fields(collection: DocumentCollection) -> None:
    st.subheader("Fields", anchor=False)
    if fields := collection.custom_metadata_schema.fields:
        rows = [
            (field.name, type_in_words(field.type), "Yes" if field.required else "No", ", ".join(field.choices or ()))
            for field in fields
        ]
        notices.show_table(rows, heads=("Field", "Type", "Required", "Choices"))
    else:
        notices.show_text("This collection has no fields.")


def offer_changes(collection: DocumentCollection) -> None:
    """Show a form for a change with its plan. The form stays when the change is refused."""
    collection_id, fields = collection.document_collection_id, collection.custom_metadata_schema.fields
    known: dict[str, SchemaFieldInfo | None] = {"": None, text_in(_CHOSEN): None} | {item.name: item for item in fields}
    chosen = st.selectbox("Change", list(known), key=_CHOSEN, format_func=lambda name: name or "New field")
    change = _ask_for_change(known[chosen], chosen)
    show_kept_problem(_PROBLEM)
    # A plan reads all documents of the collection, so it waits for the person to finish the form.
    if st.button("Preview changes", key="fields.preview", disabled=not change):
        st.session_state[_PLANNED] = dict(change)
    is_planned = bool(change) and st.session_state.get(_PLANNED) == change
    plan = show_errors(lambda: _read_plan(collection_id, change)) if is_planned else None
    if plan is not None:
        is_ready = _show_plan(plan, change)
        notices.offer_action(
            "Save", _save_change, collection_id, change, plan, key="fields.save", kind="primary", disabled=not is_ready
        )


def _ask_for_change(now: SchemaFieldInfo | None, chosen: str) -> dict[str, Any]:
    """Show the form, and return the change in the API's form; empty without a name or a difference."""
    key, kinds = f"fields.{chosen}", list(TYPES)
    name_at, kind_at = st.columns([3, 2])
    name = name_at.text_input("Name", chosen, key=f"{key}.name", max_chars=200).strip()
    held = kinds.index(type_in_words(now.type)) if now else 0
    kind = kind_at.selectbox("Type", kinds, held, key=f"{key}.type")
    held_choices = (now and now.choices) or []
    hint = "Separate them with semicolons. Leave empty to allow every value."
    written = st.text_input("Choices", BETWEEN.join(held_choices), key=f"{key}.choices", help=hint, max_chars=10_000)
    choices = held_choices if written == BETWEEN.join(held_choices) else read_choices(written)
    value = st.text_input("Value for documents without a value", key=f"{key}.value", max_chars=10_000).strip()
    required = st.checkbox("Required", bool(now and now.required), key=f"{key}.required")
    st.session_state[_DRAWN] = _read_form(chosen)
    if chosen and st.checkbox("Remove the field and its values", key=f"{key}.remove"):
        return {"field": chosen, "remove": True}
    was: dict[str, Any] = {"name": chosen, "type": now and now.type, "value": "", "choices": held_choices}
    was["required"] = bool(now and now.required)
    given = {"name": name, "type": TYPES[kind], "value": value, "required": required, "choices": choices}
    changed = {member: item for member, item in given.items() if item != was[member]}
    return {"field": chosen or None, **changed} if name and changed else {}


def _read_form(chosen: str) -> list[str]:
    return [text_in(f"fields.{chosen}.{part}") for part in ("name", "choices", "value")]


@st.cache_data(ttl=600, show_spinner="Reading the documents …", scope="session")
def _read_plan(collection_id: UUID, change: dict[str, Any]) -> CollectionFields:
    return api.client().document_collections.plan_field_changes(collection_id, [change])


def _show_plan(plan: CollectionFields, change: dict[str, Any]) -> bool:
    """Show a plan, and return whether the change can be saved; sets the change's `empty_unfit` if values don't fit."""
    if change.get("required"):
        notices.show_warning("New documents then need a value. Syncs, and uploads without a value, are refused.")
    was = next((field.type for field in plan.fields if field.name == change["field"]), FieldType.STRING)
    new = change.get("type", was)
    if not plan.effects:
        notices.show_text("The values of documents that you can read stay the same.")
    for effect in plan.effects:
        names = ", ".join(each.document_name for each in effect.examples)
        such = f"{names}, …" if effect.count > len(effect.examples) else names
        notices.show_text(f"{count_text(effect.count, 'document')}: {VALUE_EFFECTS[effect.effect]} ({such}).")
        if effect.effect is not ValueEffect.KEPT:
            rows = [
                (item.document_name, shown_value(was, item.before) or "Empty", shown_value(new, item.after) or "Empty")
                for item in effect.examples
            ]
            notices.show_table(rows, heads=("Document", "Now", "New"))
    if plan.hidden_unfit:
        notices.show_warning("Documents that you cannot read also have values that do not fit.")
    if not plan.hidden_unfit and all(item.effect is not ValueEffect.UNFIT for item in plan.effects):
        return True
    change["empty_unfit"] = st.checkbox("Leave the field empty where no value fits", key="fields.empty")
    return change["empty_unfit"]


def _save_change(collection_id: UUID, change: dict[str, Any], plan: CollectionFields) -> None:
    if "remove" not in change and _read_form(change["field"] or "") != st.session_state.get(_DRAWN):
        st.session_state[_PROBLEM] = Problem("The form has changed. Preview the changes again, and save.")
        return
    with keep_problem(_PROBLEM):
        try:
            api.client().document_collections.change_fields(collection_id, [change], version=plan.version)
        except EditConflictError as error:
            current = error.meanwhile.current if error.meanwhile else {}
            now = ", ".join(f"{item['name']} ({type_in_words(item['type'])})" for item in current.get("fields", ()))
            message = "Another person changed fields or values first. Nothing is saved. Check the new preview."
            st.session_state[_PROBLEM] = Problem(message, (f"The fields are now: {now or 'none'}.",))
        else:
            st.session_state.update(_EMPTY)  # the browser would keep what is only deleted
            forget(INSIDE)
        _read_plan.clear()
        api.collections.clear()
