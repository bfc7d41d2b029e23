"""Conditions on metadata in SQL: a stored string, read as a filter's type of value, is compared with the filter."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, ColumnElement, DateTime, Double, Text, bindparam, case, cast, func, or_

from carrel.wire.collections import FieldType
from carrel.wire.field_values import BETWEEN
from carrel.wire.search import FilterOperator
from service.domains.documents.collections.filters import ORDERINGS, Comparison

TEXTS = frozenset({FieldType.STRING, FieldType.LIST})
LONGEST_KEY = 200  # page tokens contain it


def name_of_value(number: int) -> str:
    return f"value_{number}"


def fits(metadata: ColumnElement[Any], comparison: Comparison, *, number: int) -> ColumnElement[bool]:
    """Build a metadata value's condition. An absent value, or a value of another type, matches only "not equal"."""
    held: ColumnElement[str] = metadata.op("->>", return_type=Text())(comparison.field)
    other: Any = bindparam(name_of_value(number), type_=_SQL_TYPES[comparison.kind])
    if comparison.kind in TEXTS and comparison.operator not in ORDERINGS:  # case doesn't matter for equal texts
        held, other = func.lower(held), func.lower(other)
    if comparison.operator is FilterOperator.CONTAINS:
        return func.strpos(held, other) > 0
    value = _cast_value(held, comparison.kind)
    if comparison.kind is FieldType.LIST and comparison.operator not in ORDERINGS:
        has = func.string_to_array(held, BETWEEN).op("@>", is_comparison=True)(func.string_to_array(other, BETWEEN))
        meets = ~has if comparison.operator is FilterOperator.NOT_EQUAL else has
    else:
        meets: ColumnElement[bool] = _COMPARISONS[comparison.operator](value, other)
    return or_(value.is_(None), meets) if comparison.operator is FilterOperator.NOT_EQUAL else meets


def as_key(held: ColumnElement[str], kind: FieldType) -> ColumnElement[Any]:
    """Build a value's key in an order, NULL for no value of the type; for text, its beginning in any case."""
    if kind in TEXTS:
        return func.left(func.lower(func.nullif(held, "")), LONGEST_KEY).collate("C")
    return _cast_value(held, kind)


_COMPARISONS: Mapping[FilterOperator, Callable[[Any, Any], Any]] = {
    FilterOperator.EQUAL: operator.eq,
    FilterOperator.NOT_EQUAL: operator.ne,
    FilterOperator.LESS: operator.lt,
    FilterOperator.GREATER: operator.gt,
    FilterOperator.LESS_OR_EQUAL: operator.le,
    FilterOperator.GREATER_OR_EQUAL: operator.ge,
}


def _cast_value(held: ColumnElement[str], kind: FieldType) -> ColumnElement[Any]:
    """Read a stored string as a kind; NULL when impossible, never an error."""
    if kind in TEXTS:
        return held.collate("C")
    if kind is FieldType.DATETIME:
        # A time without an offset is in UTC, even if the session has another zone.
        has_offset = held.regexp_match(r"[Tt ].*([Zz]|[+-][0-9]{2}:?[0-9]{2})$")
        aware = case((func.pg_input_is_valid(held, "timestamptz"), cast(held, DateTime(timezone=True))))
        naive = case((func.pg_input_is_valid(held, "timestamp"), func.timezone("UTC", cast(held, DateTime()))))
        return case((has_offset, aware), else_=naive)
    return case((func.pg_input_is_valid(held, _TYPE_NAMES[kind]), cast(held, _SQL_TYPES[kind])))


_SQL_TYPES: Mapping[FieldType, Any] = {
    FieldType.STRING: Text(),
    FieldType.INT: BigInteger(),
    FieldType.DOUBLE: Double[float](),
    FieldType.DATETIME: DateTime(timezone=True),
    FieldType.BOOLEAN: Boolean(),
    FieldType.LIST: Text(),
}
_TYPE_NAMES: Mapping[FieldType, str] = {
    FieldType.INT: "bigint",
    FieldType.DOUBLE: "double precision",
    FieldType.BOOLEAN: "boolean",
}
