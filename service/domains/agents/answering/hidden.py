"""Remove what a model writes and no reader may see: reasoning, scripts, calls of tools as text, and deceptive signs."""

import re
import tomllib
from pathlib import Path

_SET = tomllib.loads(Path(__file__).with_suffix(".toml").read_bytes().decode())
_NAMED = re.compile("|".join(_SET["names"]))
_REMOVED = [
    (re.compile(f"(?is){_NAMED.sub(lambda name: _SET['names'][name[0]], each['pattern'])}"), each.get("warning", ""))
    for each in _SET["removed"]
]
SIGNS_REMOVED, SCRIPT_REMOVED, CALL_REMOVED = dict.fromkeys(warning for _, warning in _REMOVED if warning)


def remove_hidden(text: str, warnings: set[str]) -> str:
    """Return a text without what nobody may see, and add to the warnings what a reader should know of it."""
    # Halves of characters are joined; a half that stays alone is no text.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore").replace("\r\n", "\n")
    for pattern, warning in _REMOVED:
        text, count = pattern.subn("", text)
        if count and warning:
            warnings.add(warning)
    return text
