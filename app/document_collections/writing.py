"""Fields of collections and their values, typed one per line, in inputs that keep what is typed.

An editable table is shorter, but loses letters that are typed while the page is drawn.
"""

import html
from uuid import UUID

import streamlit as st

from app.document_collections.fields import EXAMPLES, TYPES, schema_of, type_in_words
from app.ui.notices import show_text
from carrel.wire.collections import DocumentCollection, SchemaField, SchemaFieldInfo

MOST_FIELDS = 200
_LONGEST_NAME, _LONGEST_VALUE = 200, 10_000


def ask_for_fields(key: str) -> None:
    """Show inputs for fields and their types; there is always one empty line more."""
    show_text("Fields that its documents may have; searches can be narrowed by them. They can't be changed later.")
    written = [number for number in range(MOST_FIELDS) if _name(key, number)]
    for number in range(min(max(written, default=-1) + 2, MOST_FIELDS)):
        visibility = "visible" if number == 0 else "collapsed"
        name, kind = st.columns([3, 2])
        name.text_input("Field", key=f"{key}.{number}.name", max_chars=_LONGEST_NAME, label_visibility=visibility)
        kind.selectbox("Type", list(TYPES), key=f"{key}.{number}.type", label_visibility=visibility)


def read_fields(key: str) -> list[SchemaField]:
    """Return the fields that were typed; raises ValueError with a sentence about what is wrong."""
    names = ((number, _name(key, number)) for number in range(MOST_FIELDS))
    return schema_of([(name, str(st.session_state[f"{key}.{number}.type"])) for number, name in names if name])


def ask_for_values(collection: DocumentCollection) -> dict[str, str]:
    """Show inputs for values of the collection's fields, for all documents added at once; return the values."""
    fields = collection.custom_metadata_schema.fields
    if not fields:
        return {}
    show_text("What the collection's fields say of them; leave empty what isn't known.")
    written = {
        field.name: _ask_for_value(field, number, collection.document_collection_id)
        for number, field in enumerate(fields)
    }
    return {name: value for name, value in written.items() if value}


def empty_values(collection: DocumentCollection) -> None:
    """Clear the inputs of `ask_for_values`, before they are drawn."""
    for number in range(len(collection.custom_metadata_schema.fields)):
        st.session_state[_value_key(collection.document_collection_id, number)] = ""


def _ask_for_value(field: SchemaFieldInfo, number: int, collection_id: UUID) -> str:
    name, value = st.columns([2, 3], vertical_alignment="center")
    kind = f"<small>{type_in_words(field.type).lower()}</small>"
    name.html(f'<p class="carrel-text">{html.escape(field.name)}<br>{kind}</p>')
    return value.text_input(
        field.name,
        key=_value_key(collection_id, number),
        max_chars=_LONGEST_VALUE,
        placeholder=EXAMPLES[field.type],
        label_visibility="collapsed",
    ).strip()


def _value_key(collection_id: UUID, number: int) -> str:
    return f"add.value.{collection_id}.{number}"


def _name(key: str, number: int) -> str:
    return str(st.session_state.get(f"{key}.{number}.name") or "").strip()
