"""The fields of a collection's documents: labels of their types, and reading a schema that somebody typed."""

from collections.abc import Iterable, Mapping

from carrel.wire.collections import FieldType, SchemaField

TYPES: Mapping[str, FieldType] = {
    "Text": FieldType.STRING,
    "Whole number": FieldType.INT,
    "Number": FieldType.DOUBLE,
    "Date and time": FieldType.DATETIME,
    "Yes or no": FieldType.BOOLEAN,
}
"""How people call a field's type."""

EXAMPLES: Mapping[FieldType, str] = {
    FieldType.STRING: "",
    FieldType.INT: "12",
    FieldType.DOUBLE: "1.5",
    FieldType.DATETIME: "2026-01-31, or 2026-01-31T09:30:00Z",
    FieldType.BOOLEAN: "true or false",
}
"""How a value of each type is written: as text."""


def type_in_words(kind: FieldType) -> str:
    """Return the label of a field's type."""
    return next(words for words, known in TYPES.items() if known is kind)


def schema_of(written: Iterable[tuple[str, str]]) -> list[SchemaField]:
    """Return the fields that somebody typed, each a name and the label of its type.

    Raises ValueError with a sentence about what is wrong.
    """
    fields = [SchemaField(name=name, type=TYPES[kind]) for name, kind in written]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"Two fields have the same name: {', '.join(twice)}."
        raise ValueError(msg)
    return fields
