"""The conditions of a search on documents' metadata, in SQL."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, ColumnElement, DateTime, Double, Text, case, cast, func, or_

from carrel.wire.search import FilterOperator
from service.domains.search.filters import Condition, Kind


def fits(metadata: ColumnElement[Any], condition: Condition) -> ColumnElement[bool]:
    """Build the condition that a metadata value meets; an absent value, or one of another type, is "not equal" only."""
    held: ColumnElement[str] = metadata.op("->>", return_type=Text())(condition.field)
    if condition.operator is FilterOperator.CONTAINS:
        return func.strpos(held, condition.value) > 0
    value = _cast_value(held, condition.kind)
    meets: ColumnElement[bool] = _COMPARISONS[condition.operator](value, condition.value)
    return or_(value.is_(None), meets) if condition.operator is FilterOperator.NOT_EQUAL else meets


_COMPARISONS: Mapping[FilterOperator, Callable[[Any, Any], Any]] = {
    FilterOperator.EQUAL: operator.eq,
    FilterOperator.NOT_EQUAL: operator.ne,
    FilterOperator.LESS: operator.lt,
    FilterOperator.GREATER: operator.gt,
    FilterOperator.LESS_OR_EQUAL: operator.le,
    FilterOperator.GREATER_OR_EQUAL: operator.ge,
}


def _cast_value(held: ColumnElement[str], kind: Kind) -> ColumnElement[Any]:
    """Read a stored string as a kind; NULL when it can't be, never an error."""
    if kind is Kind.STRING:
        return held.collate("C")
    if kind is Kind.DATETIME:
        # A time without an offset is in UTC, whatever the session's zone.
        has_offset = held.regexp_match(r"[Tt ].*([Zz]|[+-][0-9]{2}:?[0-9]{2})$")
        aware = case((func.pg_input_is_valid(held, "timestamptz"), cast(held, DateTime(timezone=True))))
        naive = case((func.pg_input_is_valid(held, "timestamp"), func.timezone("UTC", cast(held, DateTime()))))
        return case((has_offset, aware), else_=naive)
    name, to_type = _SQL_TYPES[kind]
    return case((func.pg_input_is_valid(held, name), cast(held, to_type)))


_SQL_TYPES: Mapping[Kind, tuple[str, Any]] = {
    Kind.INT: ("bigint", BigInteger()),
    Kind.DOUBLE: ("double precision", Double[float]()),
    Kind.BOOLEAN: ("boolean", Boolean()),
}
