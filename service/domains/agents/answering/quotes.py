# ruff: noqa: RUF001 - the quotation marks of many languages
"""Finding quoted words in a passage: white space and quotation marks may differ, every other character counts."""

from collections.abc import Sequence
from functools import lru_cache

_DOUBLE = dict.fromkeys(map(ord, "“”„‟«»″"), '"')
_SINGLE = dict.fromkeys(map(ord, "‘’‚‛′`´"), "'")
_TYPOGRAPHY = _DOUBLE | _SINGLE

OPEN, CLOSE = "\ue000", "\ue001"
"""What stands around a verified citation while a text is checked, so that a model can't write it; never compared."""


def find_quote(quote: str, passage: str) -> str | None:
    """Return the words as the passage spells them; None when they don't stand there, or aren't words at all."""
    wanted, _ = _normal(quote.strip())
    if not any(character.isalnum() for character in wanted):
        return None
    normal, places = _normal(passage)
    start = normal.find(wanted)
    if start < 0:
        return None
    return passage[places[start] : places[start + len(wanted) - 1] + 1]


@lru_cache(maxsize=256)
def _normal(text: str) -> tuple[str, Sequence[int]]:
    """Return the text with single spaces and plain quotation marks, and where each character of it stood."""
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text.translate(_TYPOGRAPHY)):
        if character in {OPEN, CLOSE}:
            continue
        if not character.isspace():
            characters.append(character)
        elif characters and characters[-1] != " ":
            characters.append(" ")
        else:
            continue
        places.append(place)
    return "".join(characters), places
