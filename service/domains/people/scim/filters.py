"""From filters of RFC 7644, section 3.4.2.2, to conditions of SQL, over a fixed list of attributes.

The library parses a filter and checks it against the resource; here values become bound parameters, never text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from scim2_models import InvalidFilterException
from scim2_models.path import (
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)
from sqlalchemy import Boolean, ColumnElement, DateTime, Text, Uuid, and_, cast, false, func, not_, or_

Match: TypeAlias = Callable[[ColumnElement[Any]], ColumnElement[bool]]
# Deeper ones would cost the parser and the database much, and no provider sends them.
MOST_TERMS = 50
CASE_EXACT = frozenset({"id", "externalid"})


@dataclass(frozen=True)
class Attributes:
    """The attributes of a resource that filters may name, in lower case: columns, and conditions of several values."""

    columns: Mapping[str, ColumnElement[Any]]
    many: Mapping[str, Callable[[Match], ColumnElement[bool]]] = field(default_factory=dict[str, Any])

    def column(self, name: str) -> ColumnElement[Any]:
        """Return the column of an attribute. InvalidFilterException for one that can't be asked for."""
        if name.lower() not in self.columns:
            known = "id, userName, displayName, externalId, active, members.value and meta.created"
            raise InvalidFilterException(detail=f"{name[:100]!r} can't be filtered or sorted by. What can: {known}.")
        return self.columns[name.lower()]


_COMPARISONS: Mapping[CompareOperator, Callable[[ColumnElement[Any], Any], ColumnElement[bool]]] = {
    CompareOperator.eq: lambda column, value: column == value,
    CompareOperator.ne: lambda column, value: column.is_distinct_from(value),
    CompareOperator.co: lambda column, value: column.contains(value, autoescape=True),
    CompareOperator.sw: lambda column, value: column.startswith(value, autoescape=True),
    CompareOperator.ew: lambda column, value: column.endswith(value, autoescape=True),
    CompareOperator.gt: lambda column, value: column > value,
    CompareOperator.ge: lambda column, value: column >= value,
    CompareOperator.lt: lambda column, value: column < value,
    CompareOperator.le: lambda column, value: column <= value,
}
Condition: TypeAlias = Callable[[Attributes], ColumnElement[bool]]


def to_condition(node: FilterNode) -> Condition:
    """Convert a parsed filter to a condition over attributes. Raises InvalidFilterException for what can't be asked."""
    if _count_terms(node) > MOST_TERMS:
        raise InvalidFilterException(detail=f"The filter has more than {MOST_TERMS} terms. Ask in smaller ones.")
    return lambda attributes: _Conditions(attributes).visit(node)


def _count_terms(node: FilterNode) -> int:
    if isinstance(node, LogicalExpr):
        return sum(map(_count_terms, node.terms))
    if isinstance(node, Not):
        return 1 + _count_terms(node.expr)
    return 1 + _count_terms(node.val_filter) if isinstance(node, ValuePath) else 1


class _Conditions(FilterVisitor[ColumnElement[bool]]):
    """Builds the condition of each node."""

    def __init__(self, attributes: Attributes, *, within: str = "") -> None:
        self._attributes = attributes
        self._within = within

    def visit_comparison(self, node: Comparison) -> ColumnElement[bool]:
        name = self._name(node.attr_path)
        return self._of(name, lambda column: _compare(column, node.op, node.value, exact=name in CASE_EXACT))

    def visit_present(self, node: Present) -> ColumnElement[bool]:
        return self._of(self._name(node.attr_path), lambda column: column.is_not(None))

    def visit_not(self, node: Not) -> ColumnElement[bool]:
        return not_(func.coalesce(self.visit(node.expr), false()))

    def visit_logical_expr(self, node: LogicalExpr) -> ColumnElement[bool]:
        terms = [self.visit(term) for term in node.terms]
        return and_(*terms) if node.op is LogicalOperator.and_ else or_(*terms)

    def visit_value_path(self, node: ValuePath) -> ColumnElement[bool]:
        # One value fulfils all of it; of members there is the id alone to ask for, so one comparison is all.
        if not isinstance(node.val_filter, Comparison | Present):
            raise InvalidFilterException(detail="Within [ ] one comparison can be asked for.")
        return _Conditions(self._attributes, within=self._name(node.attr_path)).visit(node.val_filter)

    def _name(self, path: AttrPath) -> str:
        names = (self._within, path.attr, path.sub_attr or "")
        return ".".join(name for name in names if name).lower()

    def _of(self, name: str, match: Match) -> ColumnElement[bool]:
        many = self._attributes.many.get(name)
        return many(match) if many is not None else match(self._attributes.column(name))


def _compare(column: ColumnElement[Any], op: CompareOperator, value: Any, *, exact: bool) -> ColumnElement[bool]:
    if isinstance(column.type, Uuid):
        return _compare_id(column, op, value)
    value = _value_for(column, value, exact=exact)
    if value is None and op is CompareOperator.eq:
        return column.is_(None)
    return _COMPARISONS[op](column, value)


def _compare_id(column: ColumnElement[Any], op: CompareOperator, value: Any) -> ColumnElement[bool]:
    """Compare an id: by its index where it is to be the same, else as a text."""
    if op is CompareOperator.eq and isinstance(value, str):
        try:
            return column == UUID(value)
        except ValueError:  # nobody's id
            return false()
    return _compare(cast(column, Text), op, value, exact=True)


def _value_for(column: ColumnElement[Any], value: Any, *, exact: bool) -> Any:
    """Return a value as its column has it. Raises InvalidFilterException for one that can't be compared with it."""
    if value is None:
        return None
    if isinstance(column.type, Boolean):
        given = {"true": True, "false": False}.get(str(value).lower())
        if given is None:
            raise InvalidFilterException(detail="This attribute is true or false.")
        return given
    if not isinstance(value, str) or "\x00" in value or not value.isprintable():
        raise InvalidFilterException(detail="This attribute is compared with a string of printable characters.")
    if isinstance(column.type, DateTime):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidFilterException(detail="This attribute is a time, such as 2026-01-31T09:30:00Z.") from None
        return moment if moment.tzinfo else moment.astimezone()
    return value if exact else value.lower()
