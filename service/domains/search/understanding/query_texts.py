"""The text of a query, and the fields of a collection it may name."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from carrel.wire.collections import FieldType
from service.domains.search.understanding.amounts import MeasuredUnit, unit_of
from service.domains.search.understanding.folding import PATTERNS, WORDS, Words, fold, words_of
from service.index.stemming import ENGLISH, stemmer_for

LONGEST_QUESTION = 500  # characters to draw conditions from; a longer text is no question, and takes too much time
DOCUMENTS = PATTERNS["documents"]  # a word for documents
_BEFORE = frozenset(WORDS["others"]["before_documents"].split())

_ABOUT = re.compile(
    rf" {DOCUMENTS} (?:(?:about|concerning|on|regarding) (?:(?:all|any|our|the) )?"
    r"|(?:[^\s,.?!;]+ )*(?:how|whether|why) (?:[^\s,.?!;]+ )*)$"
)
"""Pattern of documents, and the beginning of their subject."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field, the words of its name with their stems, and the unit at the name's end, if any."""

    name: str
    kind: FieldType
    names: tuple[str, ...]
    stems: frozenset[str]
    unit: MeasuredUnit | None


@dataclass(frozen=True)
class QueryText:
    """The words of a question, and the fields of the searched collection."""

    words: Words
    fields: Sequence[Field]

    @property
    def line(self) -> str:
        return self.words.line

    @property
    def may_state(self) -> bool:
        """Whether a condition is possible: an English question has a word for documents, or a colon or equals sign."""
        return not self.words.is_foreign and re.search(f" {DOCUMENTS} | [:=] ", self.line) is not None

    def find_named(self, *kinds: FieldType) -> dict[str, Field]:
        """Return the fields of these kinds whose name is in the question, by name; skip names that fields share."""
        by_name: dict[str, list[Field]] = {}
        for field in self.fields:
            if field.kind in kinds:
                for name in field.names:
                    if f" {name} " in self.line:
                        by_name.setdefault(name, []).append(field)
        return {name: found[0] for name, found in by_name.items() if len(found) == 1}

    @cached_property
    def texts(self) -> dict[str, Field]:
        return self.find_named(FieldType.STRING)

    @cached_property
    def field_behind(self) -> re.Pattern[str]:
        return re.compile(rf" (?P<name>{any_of(self.texts)})(?= )")

    @cached_property
    def field_before(self) -> re.Pattern[str]:
        return re.compile(rf" (?P<name>{any_of(self.texts)})(?P<mark> called| named| :| =| is(?: not)?)? $")

    @cached_property
    def _begins(self) -> frozenset[str]:
        return _BEFORE | {name.split()[-1] for name in self.find_named(FieldType.BOOLEAN)}

    def begins_at(self, start: int) -> bool:
        """Return whether a name of documents begins at this word; not in "documents on how secret mail is kept"."""
        before = self.line[:start].split()
        return not before or (before[-1] in self._begins and not _ABOUT.search(self.line[:start]))


def read_query(question: str, fields: Mapping[str, str]) -> QueryText | None:
    """Read a question about fields (types by name); None if too long, or without a possible condition."""
    if len(question) > LONGEST_QUESTION:
        return None
    asked = QueryText(words_of(question), [read_field(name, FieldType(kind)) for name, kind in fields.items()])
    return asked if asked.may_state else None


@lru_cache(10_000)
def read_field(name: str, kind: FieldType) -> Field:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    parts = [part for part in fold(words).split() if part]
    unit = unit_of(parts[-1]) if parts and kind in {FieldType.INT, FieldType.DOUBLE} else None
    named = parts[:-1] if unit and parts[1:] else parts
    if kind is FieldType.BOOLEAN and parts[1:] and parts[0] in {"is", "has"}:
        named = parts[1:]
    names = [" ".join(named)] if named else []
    if kind is not FieldType.BOOLEAN:
        names = [each for name in names for each in (name.removesuffix("s"), f"{name.removesuffix('s')}s")]
    if unit and unit.measure == "time" and parts[1:]:
        names += [f"{name} time" for name in names]
    return Field(name, kind, tuple(names), frozenset(map(stem, named)), unit)


def stem(word: str) -> str:
    stemmer = stemmer_for(ENGLISH)
    return stemmer.stemWord(word) if stemmer else word


def any_of(texts: Collection[str]) -> str:
    """Return the pattern of any of these texts, preferring the longer of two with an equal beginning."""
    return "|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text))) or "(?!)"
