"""The fields of a collection's documents: their types as people call them, and a schema that somebody writes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carrel.wire.collections import FieldType, SchemaField

TYPES: Mapping[str, FieldType] = {
    "Text": FieldType.STRING,
    "Whole number": FieldType.INT,
    "Number": FieldType.DOUBLE,
    "Date and time": FieldType.DATETIME,
    "Yes or no": FieldType.BOOLEAN,
}
"""How people call a field's type. Values are written as text: 12, 1.5, 2026-01-31T09:30:00Z, true."""


def type_in_words(kind: FieldType) -> str:
    """Return how people call a field's type."""
    return next(words for words, known in TYPES.items() if known is kind)


def schema_of(rows: Iterable[Mapping[str, Any]]) -> list[SchemaField]:
    """Return the fields that somebody wrote into rows of Field and Type; rows without a name are none.

    Raises ValueError with what is wrong, in words.
    """
    fields = [
        SchemaField(name=name, type=TYPES.get(str(row.get("Type") or ""), FieldType.STRING))
        for row in rows
        if (name := str(row.get("Field") or "").strip())
    ]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"Two fields have the same name: {', '.join(twice)}."
        raise ValueError(msg)
    return fields


def edited(rows: Sequence[Mapping[str, Any]], edits: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of a table after what was changed in it, as the session has the changes of `st.data_editor`."""
    kept = [row | edits["edited_rows"].get(number, {}) for number, row in enumerate(map(dict, rows))]
    return [row for number, row in enumerate(kept) if number not in edits["deleted_rows"]] + list(edits["added_rows"])
