"""Conditions on metadata. Values travel as strings and are compared by the field's type."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from carrel.wire.collections import FieldType
from carrel.wire.field_values import expectation, fits, read_value
from carrel.wire.search import FilterOperator, MetadataFilter
from service.platform.errors import BadRequest, FieldError

ORDERINGS = frozenset(
    {FilterOperator.LESS, FilterOperator.GREATER, FilterOperator.LESS_OR_EQUAL, FilterOperator.GREATER_OR_EQUAL}
)


Value = str | int | float | datetime | bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a filter with a value; `contains` compares text for every kind."""

    field: str
    operator: FilterOperator
    kind: FieldType


@dataclass(frozen=True, slots=True)
class Condition(Comparison):
    value: Value


def conditions_by_schema(
    filters: Sequence[MetadataFilter], fields: Mapping[str, str], *, member: str
) -> tuple[Condition, ...]:
    """Read filters by a schema (name to type); BadRequest `invalid_filter` names each error under `member`."""
    read: list[Condition] = []
    errors: list[FieldError] = []
    for number, each in enumerate(filters):
        kind = FieldType(fields[each.field]) if each.field in fields else None
        if kind is None:
            known = ", ".join(fields) or "none, its schema is empty"
            errors.append(FieldError(f"{member}.{number}.field", f"The collection has these fields: {known}."))
            continue
        if each.operator is FilterOperator.CONTAINS:
            kind = FieldType.STRING
        text = read_value(kind, each.value)
        value = None if text is None else parse_as(kind, text)
        if value is None:
            errors.append(FieldError(f"{member}.{number}.value", expectation(kind, each.value)))
            continue
        read.append(Condition(each.field, each.operator, kind, value))
    if errors:
        raise BadRequest(f"{errors[0].field}: {errors[0].message}", code="invalid_filter", details=errors)
    return tuple(read)


def conditions_without_schema(filters: Sequence[MetadataFilter]) -> tuple[Condition, ...]:
    """Read the catalog's filters, ignoring case; the filter's value decides on order by number, time or text."""
    return tuple(Condition(each.field, each.operator, *_parse_ordering(each)) for each in filters)


def _parse_ordering(each: MetadataFilter) -> tuple[FieldType, Value]:
    for kind in (FieldType.DOUBLE, FieldType.DATETIME) if each.operator in ORDERINGS else ():
        value = parse_as(kind, each.value)
        if value is not None:
            return kind, value
    return FieldType.STRING, each.value


def parse_as(kind: FieldType, text: str) -> Value | None:
    """Read a value of a kind; None if impossible in a document's metadata. A time without an offset is in UTC."""
    if not fits(kind, text):
        return None
    try:
        return _PARSERS[kind](text)
    except OverflowError:  # with its offset, the time is outside the calendar
        return None


def _parse_datetime(text: str) -> datetime:
    moment = datetime.fromisoformat(text.upper())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_PARSERS: Mapping[FieldType, Callable[[str], Value]] = {
    FieldType.STRING: str,
    FieldType.INT: int,
    FieldType.DOUBLE: float,
    FieldType.DATETIME: _parse_datetime,
    FieldType.BOOLEAN: "true".__eq__,
    FieldType.LIST: str,
}
