"""Conditions on metadata as people and addresses say them: team is deck, pages at most 20."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias
from urllib.parse import quote, unquote

from carrel.wire.collections import DocumentCollection, FieldType
from carrel.wire.search import AppliedFilter, FilterOperator

MOST = 50
"""How many conditions the service takes with one search."""

_IN_ADDRESS = {
    FilterOperator.EQUAL: "is",
    FilterOperator.NOT_EQUAL: "not",
    FilterOperator.CONTAINS: "contains",
    FilterOperator.LESS: "under",
    FilterOperator.LESS_OR_EQUAL: "upto",
    FilterOperator.GREATER_OR_EQUAL: "from",
    FilterOperator.GREATER: "over",
}
_FROM_ADDRESS = {word: operator for operator, word in _IN_ADDRESS.items()}

IN_WORDS = {
    FilterOperator.EQUAL: "is",
    FilterOperator.NOT_EQUAL: "is not",
    FilterOperator.CONTAINS: "contains",
    FilterOperator.LESS: "less than",
    FilterOperator.LESS_OR_EQUAL: "at most",
    FilterOperator.GREATER_OR_EQUAL: "at least",
    FilterOperator.GREATER: "more than",
}
OF_TIMES = IN_WORDS | {
    FilterOperator.LESS: "before",
    FilterOperator.LESS_OR_EQUAL: "until",
    FilterOperator.GREATER_OR_EQUAL: "on or after",
    FilterOperator.GREATER: "after",
}

_NUMBERS = tuple(operator for operator in FilterOperator if operator is not FilterOperator.CONTAINS)
OFFERED: dict[FieldType, Sequence[FilterOperator]] = {
    FieldType.STRING: (FilterOperator.EQUAL, FilterOperator.NOT_EQUAL, FilterOperator.CONTAINS),
    FieldType.INT: _NUMBERS,
    FieldType.DOUBLE: _NUMBERS,
    # A day is the moment it begins in UTC, so that "until" it would leave the day itself out.
    FieldType.DATETIME: (FilterOperator.GREATER_OR_EQUAL, FilterOperator.LESS, FilterOperator.EQUAL),
    FieldType.BOOLEAN: (FilterOperator.EQUAL,),
}
"""What makes sense to ask of a field of each type, the most usual first."""


Kinds: TypeAlias = Mapping[str, FieldType]
"""The types of a collection's fields, by name; empty for the catalog, which has no schema."""


@dataclass(frozen=True)
class Condition:
    """A condition on a metadata field; the value is text, as in requests."""

    field: str
    operator: FilterOperator
    value: str

    def in_address(self) -> str:
        """Return the condition as text for an address: team:is:deck."""
        return f"{quote(self.field, safe='')}:{_IN_ADDRESS[self.operator]}:{self.value}"

    def in_words(self, kinds: Kinds) -> str:
        """Return the condition as text for people; the field's type decides the words for an order."""
        kind = kinds.get(self.field)
        words = OF_TIMES if kind is FieldType.DATETIME else IN_WORDS
        value = {"true": "yes", "false": "no"}.get(self.value, self.value) if kind is FieldType.BOOLEAN else self.value
        return f"{self.field} {words[self.operator]} {value}"

    def as_filters(self, kinds: Kinds) -> list[dict[str, str]]:
        """Return the condition as filters of the API; a time on a day becomes two filters."""
        if kinds.get(self.field) is FieldType.DATETIME and self.operator is FilterOperator.EQUAL:
            try:
                day = date.fromisoformat(self.value)
                bounds = {FilterOperator.GREATER_OR_EQUAL: day, FilterOperator.LESS: day + timedelta(days=1)}
            except (ValueError, OverflowError):
                pass  # a moment, or what the service says is none
            else:
                return [self._filter_of(operator, at.isoformat()) for operator, at in bounds.items()]
        return [self._filter_of(self.operator, self.value)]

    def _filter_of(self, operator: FilterOperator, value: str) -> dict[str, str]:
        return {"field": self.field, "operator": operator.value, "value": value}


def kinds_of(collection: DocumentCollection | None) -> Kinds:
    """Return the types of a collection's fields; of the catalog's, which are text, there are none."""
    return {} if collection is None else {one.name: one.type for one in collection.custom_metadata_schema.fields}


def condition_of(found: AppliedFilter) -> Condition:
    """Convert a condition that the service applied."""
    return Condition(found.field, found.operator, found.value)


def from_address(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Return the valid conditions in an address, each once."""
    read = (_read(text) for text in texts)
    return tuple(dict.fromkeys(condition for condition in read if condition is not None))[:MOST]


def _read(text: str) -> Condition | None:
    field, _, rest = text.partition(":")
    word, colon, value = rest.partition(":")
    operator = _FROM_ADDRESS.get(word)
    return Condition(unquote(field), operator, value) if field and operator is not None and colon else None
