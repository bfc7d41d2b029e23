"""Dotted paths into source documents, as MongoDB reads them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

_MISSING: Final = object()


def value_at(fields: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, None when there is none; for a list, the values of all its items.

    A path that names a position in a list gives that item's value.
    """
    found = _resolve(fields, tuple(path.split(".")))
    return None if found is _MISSING else found


def _resolve(value: Any, segments: tuple[str, ...]) -> Any:
    if not segments:
        return value
    first, rest = segments[0], segments[1:]
    if isinstance(value, Mapping):
        return _resolve(cast("Mapping[str, Any]", value).get(first, _MISSING), rest)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if first.isascii() and first.isdecimal():
            return _resolve(items[int(first)], rest) if int(first) < len(items) else _MISSING
        found = [one for one in _resolve_each(items, segments) if one is not _MISSING]
        return found or _MISSING
    return _MISSING


def _resolve_each(items: list[Any], segments: tuple[str, ...]) -> Iterator[Any]:
    for item in items:
        found = _resolve(item, segments)
        yield from cast("list[Any]", found) if isinstance(found, list) else (found,)
