"""Pieces of SQL that several domains' queries use."""

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ARRAY, ColumnElement, Row, any_, literal

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns its query's docstring names."""

Value = TypeVar("Value")


def among(column: ColumnElement[Value], values: Iterable[Value]) -> ColumnElement[bool]:
    """Whether the column is one of `values`, however many: one array parameter, so one statement to plan and cache."""
    array: Any = literal(list(values), ARRAY(column.type))
    return column == any_(array)
