"""Plain text: blank lines separate paragraphs, whose line breaks are kept."""

import re

from service.text.extraction.building import BlockBuilder, clean
from service.text.extraction.decoding import decode
from service.text.extraction.failures import too_complex

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
# No encoding needs more bytes for a character.
_MOST_BYTES = 4


def read_text(data: bytes, builder: BlockBuilder) -> str:
    """Return the decoded text of a text file, which is refused by its size before it is decoded."""
    refuse_size(data, builder)
    return decode(data)


def refuse_size(data: bytes, builder: BlockBuilder) -> None:
    """Raise Unreadable when a text file is larger than its limit of characters can be in any encoding."""
    if len(data) > builder.limits.characters * _MOST_BYTES:
        raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")


def parse_plain(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the paragraphs of a plain text, and return None: it has no title."""
    add_paragraphs(read_text(data, builder), builder)
    return None


def add_paragraphs(text: str, builder: BlockBuilder) -> None:
    for paragraph in _BLANK_LINES.split(clean(text)):
        builder.lines(paragraph)
