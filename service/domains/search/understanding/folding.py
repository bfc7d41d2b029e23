"""The words of a question in a common spelling, with their positions."""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

_TOKEN = re.compile(
    r"\d{4}-\d\d-\d\d(?!\d)|\d+(?:[.,]\d+)*|[^\W\d_]+(?:['\u2019](?=[^\W\d_])[^\W\d_]+)?|[,.;:?!=€$£()]"
)
_MARKS = re.compile("[\u0300-\u036f]+")
_BETWEEN = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
_CAPITALS = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

WORDS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
PATTERNS = {name: pattern.replace("\n", "") for name, pattern in WORDS["patterns"].items()}
_FOREIGN = frozenset(WORDS["others"]["foreign"].split())


def fold(text: str) -> str:
    """Return the spelling for comparison: no accents, capitals or punctuation, like `metadata_keys` of the database."""
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return _BETWEEN.sub(" ", bare.translate(_CAPITALS)).strip()


@dataclass(frozen=True)
class Words:
    """A question as a line of folded words (`line`), separated by spaces; punctuation counts as a word."""

    text: str
    folded: Sequence[str]
    spans: Sequence[tuple[int, int]]

    @cached_property
    def line(self) -> str:
        """The folded words, with a space before and after each."""
        return f" {' '.join(self.folded)} "

    @cached_property
    def _starts(self) -> dict[int, int]:
        places = accumulate((len(word) + 1 for word in self.folded), initial=1)
        return {place: number for number, place in enumerate(places)}

    @property
    def is_foreign(self) -> bool:
        return not _FOREIGN.isdisjoint(self.folded)

    def original(self, start: int, end: int) -> str:
        """Return the question's original text for a part of the line from word to word."""
        first, last = self._places(start, end)
        return self.text[self.spans[first][0] : self.spans[last][1]]

    def beside(self, start: int, end: int) -> str:
        """Return the text outside words around a part of the line."""
        first, last = self._places(start, end)
        before = self.spans[first - 1][1] if first else 0
        after = self.spans[last + 1][0] if self.spans[last + 1 :] else len(self.text)
        return self.text[before : self.spans[first][0]] + self.text[self.spans[last][1] : after]

    def _places(self, start: int, end: int) -> tuple[int, int]:
        start += self.line[start] == " "
        end -= self.line[end - 1] == " "
        return self._starts[start], self._starts[end + 1] - 1


def words_of(question: str) -> Words:
    found = list(_TOKEN.finditer(question))
    folded = [
        _MARKS.sub("", unicodedata.normalize("NFKD", item.group()))
        .translate(_CAPITALS)
        .replace("\u2019", "'")
        .replace(" ", "")
        for item in found
    ]
    kept = [(word, match.span()) for word, match in zip(folded, found, strict=True) if word]
    return Words(question, [word for word, _ in kept], [span for _, span in kept])
