"""Text files: plain text by paragraphs; CSV and TSV by rows; JSON and JSON Lines by flat objects and other values."""

import csv
import json
import re
from typing import Any, cast

from service.text.extraction.building import BlockBuilder, clean
from service.text.extraction.decoding import decode
from service.text.extraction.failures import corrupt_file, too_complex
from service.text.extraction.tabular import TableWriter

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
# No encoding needs more bytes for a character.
_MOST_BYTES = 4


def read_text(data: bytes, builder: BlockBuilder) -> str:
    refuse_size(data, builder)
    return decode(data)


def refuse_size(data: bytes, builder: BlockBuilder) -> None:
    """Raise Unreadable if a text file has more bytes than its limit of characters needs in any encoding."""
    if len(data) > builder.limits.characters * _MOST_BYTES:
        raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")


def parse_plain(data: bytes, builder: BlockBuilder) -> None:
    add_paragraphs(read_text(data, builder), builder)


def add_paragraphs(text: str, builder: BlockBuilder) -> None:
    for paragraph in _BLANK_LINES.split(clean(text)):
        builder.lines(paragraph)


_DELIMITERS = ",;\t|"
# The first line by which some programs name the delimiter, and which Excel doesn't show.
_SAID = re.compile(r'"?sep=(.)"?[ ;,\t]*(?:\r\n|\r|\n|$)', re.IGNORECASE)
_SAMPLE_LINES = 50
_SAMPLE_CHARACTERS = 65_536


def parse_csv(data: bytes, builder: BlockBuilder) -> None:
    """Add the rows of a file of separated values; the delimiter is detected from the first lines."""
    text = read_text(data, builder)
    said = _SAID.match(text)
    _parse(text[said.end() :] if said else text, said[1] if said else _delimiter(text), builder)


def parse_tsv(data: bytes, builder: BlockBuilder) -> None:
    _parse(read_text(data, builder), "\t", builder)


def _parse(text: str, delimiter: str, builder: BlockBuilder) -> None:
    csv.field_size_limit(builder.limits.characters)
    table = TableWriter(builder, numbered=True)
    try:
        for row in csv.reader(text.replace("\x00", "").splitlines(keepends=True), delimiter=delimiter):
            table.row(row)
    except csv.Error as error:
        raise corrupt_file("CSV") from error
    table.close()


def _delimiter(text: str) -> str:
    """Return the delimiter with equal counts in most of the first lines (`csv.Sniffer` may take minutes)."""
    lines = [line for line in text[:_SAMPLE_CHARACTERS].splitlines()[:_SAMPLE_LINES] if line.strip()]
    return max(_DELIMITERS, key=lambda delimiter: _agreement(lines, delimiter))


def _agreement(lines: list[str], delimiter: str) -> tuple[int, int]:
    counts = [line.count(delimiter) for line in lines]
    usual = max(set(counts), key=counts.count, default=0)
    return (counts.count(usual) if usual else 0, usual)


_TITLES = ("title", "name", "subject", "headline")
_ROW_CHARACTERS = 4_000


def parse_json(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the values of a JSON document; return the outermost title, name, subject or headline."""
    value = _load(read_text(data, builder))
    _add(value, builder)
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    found = (members.get(name) for name in _TITLES)
    return next((title for title in found if isinstance(title, str) and title.strip()), None)


def parse_json_lines(data: bytes, builder: BlockBuilder) -> None:
    for line in read_text(data, builder).split("\n"):
        if line.strip():
            _add(_load(line), builder)


def _load(text: str) -> Any:
    """Parse JSON, with numbers as written. Raises Unreadable."""
    try:
        # Numbers stay as written: 1.10 is not 1.1, and an integer of a million digits costs nothing.
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise corrupt_file("JSON") from error


def _add(root: Any, builder: BlockBuilder) -> None:
    """Add the values of a JSON document, with a stack instead of recursion because of possible deep nesting."""
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
    """Return a flat object as a row; None if it contains objects or lists, or is too long."""
    if any(isinstance(member, dict | list) for member in members.values()):
        return None
    row = " | ".join(f"{key}: {text}" for key, member in members.items() if (text := _text(member)))
    return row if len(row) <= _ROW_CHARACTERS else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
