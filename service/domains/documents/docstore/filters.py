"""Filter expressions: MongoDB queries in Extended JSON, without operators that run code in the database."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import bson
from bson.errors import BSONError

from service.domains.documents.docstore.values import from_extended
from service.platform.errors import BadRequest, FieldError

FIELD = "config.filterExpression"
# JavaScript in queries and aggregation expressions; `$code` is JavaScript in Extended JSON.
REFUSED: Final = frozenset({"$where", "$function", "$accumulator", "$code", "$scope"})
_MOST_BYTES = 64 * 1024
_DEEPEST = 50


def filter_query(expression: Mapping[str, Any]) -> dict[str, Any]:
    """Return the MongoDB query of a filter; raises `invalid_filter_expression` for code, errors and excessive size."""
    for name, depth in _names(expression):
        if name in REFUSED:
            raise _invalid(f"{name} runs code in the database, and is not allowed. Use other operators.")
        if depth > _DEEPEST:
            raise _invalid(f"It is nested deeper than {_DEEPEST} levels.")
    try:
        query = cast("dict[str, Any]", from_extended(expression))
        size = len(bson.encode(query))
    except (BSONError, ValueError, TypeError, OverflowError, RecursionError, KeyError, AttributeError):
        raise _invalid("It is not a MongoDB query in Extended JSON.") from None
    if size > _MOST_BYTES:
        raise _invalid(f"It is larger than {_MOST_BYTES // 1024} KiB.")
    return query


def _names(value: object) -> Iterator[tuple[str, int]]:
    """Yield every name in a JSON value with its depth, "" for a list. No recursion, as nesting may be very deep."""
    pile = [(value, 1)]
    while pile:
        item, at = pile.pop()
        if isinstance(item, Mapping):
            members = cast("Mapping[str, object]", item)
            yield from ((name, at) for name in members)
            pile += [(each, at + 1) for each in members.values()]
        elif isinstance(item, list):
            yield "", at
            pile += [(each, at + 1) for each in cast("list[object]", item)]


def _invalid(reason: str) -> BadRequest:
    message = f"The filterExpression is not accepted. {reason}"
    return BadRequest(message, code="invalid_filter_expression", details=[FieldError(FIELD, message)])
