"""CSV and TSV: one block a row."""

import csv
import re

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import corrupt_file
from service.text.extraction.plain import read_text
from service.text.extraction.tabular import TableWriter

_DELIMITERS = ",;\t|"
# The first line by which some programs name the delimiter, and which Excel doesn't show.
_SAID = re.compile(r'"?sep=(.)"?[ ;,\t]*(?:\r\n|\r|\n|$)', re.IGNORECASE)
_SAMPLE_LINES = 50
_SAMPLE_CHARACTERS = 65_536


def parse_csv(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the rows of a file of separated values, whose delimiter is found in its first lines."""
    text = read_text(data, builder)
    said = _SAID.match(text)
    return _parse(text[said.end() :], said[1], builder) if said else _parse(text, _delimiter(text), builder)


def parse_tsv(data: bytes, builder: BlockBuilder) -> str | None:
    return _parse(read_text(data, builder), "\t", builder)


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
    """Return the delimiter with equal counts in the most of the first lines (`csv.Sniffer` may take minutes)."""
    lines = [line for line in text[:_SAMPLE_CHARACTERS].splitlines()[:_SAMPLE_LINES] if line.strip()]
    return max(_DELIMITERS, key=lambda delimiter: _agreement(lines, delimiter))


def _agreement(lines: list[str], delimiter: str) -> tuple[int, int]:
    counts = [line.count(delimiter) for line in lines]
    usual = max(set(counts), key=counts.count, default=0)
    return (counts.count(usual) if usual else 0, usual)
