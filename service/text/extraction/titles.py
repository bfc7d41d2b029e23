"""Choose a title: the main heading, the file's own title, another heading, or the file name."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from service.text.extraction.blocks import Block
from service.text.extraction.building import one_line

_CHARACTERS = 300
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_NOTHING, _THING, _BOOK, _UNKNOWN, _SUFFIX, _NAMED, _NUMBERED = ("|".join(words) for words in _WORDS.values())
_DEFAULT = (
    rf"\(?(?:{_NOTHING})\)?[ \d-]*|\((?:{_UNKNOWN})\)|(?:{_BOOK})\d+"
    rf"|(?:(?:{_NOTHING}|new|neue[sr]?|scanned|blank|word|excel|powerpoint)[ -])?(?:{_THING})[ \d()_-]*"
)
# Titles that programs write by themselves, short numbers, and names of files.
_PLACEHOLDER = re.compile(
    r"microsoft (?:office )?(?:word|excel|powerpoint|publisher|visio|outlook)"
    rf"(?:[ \d-]*(?:worksheet|{_DEFAULT})?| - .*\.(?:{_SUFFIX}))"
    rf"|{_DEFAULT}|(?!.*%)(?:[\W_]|(?<!\d)\d{{1,2}}(?!\d))*|\S*[^\s.]\.(?:{_SUFFIX})|[a-z]:\\.*",
    re.IGNORECASE | re.DOTALL,
)
_PART = re.compile(rf"{_NAMED}|(?:{_NUMBERED})\s*[\divx]+\b.*|[\divx]+[.)]?[\d.]*\s.*", re.IGNORECASE)


def choose_title(named: str | None, blocks: Sequence[Block]) -> str | None:
    """Return the title of a file that names one itself or not; None: it is called by its file's name."""
    headings = [each for each in blocks if each.kind == "heading" and not is_placeholder(each.text)]
    top = min((each.level for each in headings), default=0)
    first = next((each.text for each in headings if each.level == top), "")
    own = one_line(named or "")
    own = "" if is_placeholder(own) else own
    return (own if own and _PART.fullmatch(first) else first or own)[:_CHARACTERS] or None


def is_placeholder(title: str) -> bool:
    """Return whether a title says nothing of what it names: a default, a short number, or a file's name."""
    return _PLACEHOLDER.fullmatch(title.strip()) is not None
