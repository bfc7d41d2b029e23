"""The characters of symbol fonts: ticked and empty boxes, arrows, Greek letters."""

import json
from pathlib import Path

BOXES = ("\u2610", "\u2612")  # an empty and a ticked box
_PRIVATE, _LAST = range(0xF000, 0xF100), 0xFF
# By font name: the characters by their hexadecimal numbers.
_FONTS = {
    font: {int(number, 16): character for number, character in characters.items()}
    for font, characters in json.loads(Path(__file__).with_name("symbols.json").read_text("utf-8")).items()
}


def is_known(font: str) -> bool:
    return font.lower() in _FONTS


def show(number: int, font: str) -> str:
    """Return the character shown by a font, empty for an unknown symbol."""
    characters = _FONTS.get(font.lower())
    if number in _PRIVATE:
        return (characters or _FONTS["wingdings"]).get(number - _PRIVATE.start, "")
    return chr(number) if characters is None or number > _LAST else characters.get(number, "")
