"""JSON and JSON Lines: a flat object becomes one row, everything else a paragraph per value with its path."""

import json
from typing import Any, cast

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import corrupt_file
from service.text.extraction.plain import read_text

_TITLES = ("title", "name", "subject", "headline")
_ROW_CHARACTERS = 4_000


def parse_json(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the values of a JSON document; its title is the outermost member called title or name."""
    value = _load(read_text(data, builder))
    _add(value, builder)
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    found = (members.get(name) for name in _TITLES)
    return next((title for title in found if isinstance(title, str) and title.strip()), None)


def parse_json_lines(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the values of a file with one JSON document a line."""
    for line in read_text(data, builder).split("\n"):
        if line.strip():
            _add(_load(line), builder)
    return None


def _load(text: str) -> Any:
    try:
        # Numbers stay as written: 1.10 is not 1.1, and an integer of a million digits costs nothing.
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise corrupt_file("JSON") from error


def _add(root: Any, builder: BlockBuilder) -> None:
    """Add the values of a JSON document, with a stack instead of recursion because it may be nested deeply."""
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            row = _row(members)
            if row is not None:
                builder.table_row(row)
            else:
                stack.extend(
                    reversed([((f"{path}.{key}"[-500:] if path else key), member) for key, member in members.items()])
                )
        elif isinstance(value, list):
            stack.extend((path, item) for item in reversed(cast("list[Any]", value)))
        else:
            text = _text(value)
            if text.strip():
                builder.lines(f"{path}: {text}" if path else text)


def _row(members: dict[str, Any]) -> str | None:
    """Return a flat object as a row; None when it contains other objects or lists, or is too long."""
    if any(isinstance(member, dict | list) for member in members.values()):
        return None
    row = " | ".join(f"{key}: {text}" for key, member in members.items() if (text := _text(member)))
    return row if len(row) <= _ROW_CHARACTERS else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
