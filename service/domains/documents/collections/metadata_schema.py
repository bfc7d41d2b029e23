"""What a collection's custom metadata may hold: typed fields whose values always travel as strings (wire.md)."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from service.platform.errors import BadRequest, FieldError

_INT = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)
_LARGEST_INT = 2**63


def _is_datetime(value: str) -> bool:
    if _DATETIME.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value.upper())
    except ValueError:
        return False
    return True


# Every value that passes also casts in PostgreSQL (bigint, double precision, timestamptz, boolean), for filters.
_CHECKS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "STRING": (lambda value: "\0" not in value, "text without NUL characters"),
    "INT": (
        lambda value: _INT.fullmatch(value) is not None and -_LARGEST_INT <= int(value) < _LARGEST_INT,
        "a whole number such as 42, within 64 bits",
    ),
    "DOUBLE": (
        lambda value: _DOUBLE.fullmatch(value) is not None and math.isfinite(float(value)),
        "a decimal number such as 3.14",
    ),
    "DATETIME": (_is_datetime, "an RFC 3339 time such as 2026-01-31T09:00:00Z, or a date"),
    "BOOLEAN": (lambda value: value in {"true", "false"}, 'either "true" or "false"'),
}


def fits(kind: str, value: str) -> bool:
    """Return whether a text is a value of a type of metadata field."""
    return _CHECKS[kind][0](value)


def expectation(kind: str) -> str:
    """Return a sentence for an error message that says which texts a type of metadata field accepts."""
    return f"The field is {kind}: send {_CHECKS[kind][1]}."


def check_metadata(metadata: Mapping[str, str], fields: Mapping[str, str], *, field: str = "customMetadata") -> None:
    """Refuse (400 `invalid_metadata`) unknown keys and values of other types than `fields` has, naming each."""
    errors = list(_metadata_errors(metadata, fields, field))
    if errors:
        message = f"{errors[0].field}: {errors[0].message}"
        raise BadRequest(message, code="invalid_metadata", details=errors)


def _metadata_errors(metadata: Mapping[str, str], fields: Mapping[str, str], field: str) -> Iterable[FieldError]:
    for key, value in metadata.items():
        if key not in fields:
            known = ", ".join(fields) or "none, its schema is empty"
            yield FieldError(f"{field}.{key}", f"The collection's schema has no such field; it has: {known}.")
            continue
        if not fits(fields[key], value):
            yield FieldError(f"{field}.{key}", expectation(fields[key]))
