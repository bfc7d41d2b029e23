"""Read the signs of a query: "a phrase", -word, NOT word, OR, field:value and word*. Other text is searched for."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from itertools import count

from carrel.wire.search import AppliedSyntax, QuerySign, SignKind
from service.index.forms import find_forms
from service.index.tokenization import IN_WORD, WORD, Word, has_unspaced

MOST_SIGNS = 12  # a pasted text with more signs is searched for as written
WITH_ASTERISK = re.compile(rf"(?<![{IN_WORD}*])[{IN_WORD}*]*\*[{IN_WORD}*]*")  # a word with any other letters: resid*


class FieldName(StrEnum):
    """A field allowed before a colon in a query."""

    TITLE = "title"
    TYPE = "type"
    OWNER = "owner"
    IN = "in"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Clause:
    """At least one text must occur or, with `excludes`, none: a phrase as written in any case, a word in any form."""

    texts: tuple[str, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class FieldClause:
    """A field and value (`excludes`: left out); `day` is the first day of an `after:` or `before:` value, in UTC.
    `is_either`: a document may fit the field before instead."""

    name: FieldName
    value: str
    excludes: bool = False
    day: date | None = None
    is_either: bool = False


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query without signs (`text`; without words, the fields' values), and the signs' conditions on documents."""

    text: str
    clauses: tuple[Clause, ...] = ()
    fields: tuple[FieldClause, ...] = ()
    signs: tuple[QuerySign, ...] = ()
    not_understood: tuple[str, ...] = ()
    has_words: bool = True

    @property
    def phrases(self) -> list[str]:
        return [text for clause in self.clauses if not clause.excludes for text in clause.texts]

    def say_applied(self, notes: Mapping[int, str], unmet: Collection[int]) -> AppliedSyntax | None:
        """Return the signs with notes on clauses and fields without matches, by number; None without signs."""
        if not self.signs and not self.not_understood:
            return None
        clauses, fields = count(), count()
        signs = list[QuerySign]()
        for sign in self.signs:
            is_unmet = sign.kind is SignKind.FIELD and next(fields) in unmet
            note = notes.get(next(clauses)) if sign.kind is not SignKind.FIELD else _UNMET if is_unmet else None
            signs.append(sign.model_copy(update={"note": note}))
        return AppliedSyntax(signs=signs, not_understood=list(self.not_understood))


_UNMET = "No document that you can read has this."
NO_SIGNS = ParsedQuery("")


def is_phrase(text: str) -> bool:
    """Return whether a clause's text was written in quotation marks. A word never begins with a quotation mark."""
    return text.startswith('"')


def is_part(text: str, word: Word) -> bool:
    """Return whether a word of a text is only a part of the word sought, because of an asterisk before or after it."""
    return "*" in text[max(0, word.start - 1) : word.start] + text[word.end : word.end + 1]


_QUOTES = {'"': '"', "“": "”“", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}
_SINGLE = re.compile(r"['\u2018](\w[^'\u2018\u2019]*)['\u2019](?=[\s).,;:!?]|\Z)")
_FIELD = re.compile(rf"({'|'.join(FieldName)}):(?: (?=[\"“„«»「『])|(?=[^\s:/\\]))", re.IGNORECASE)
_TIMES = {FieldName.AFTER, FieldName.BEFORE}
_FIELDS = [f"{name}:" for name in FieldName]
_END = re.compile(r"\){0,8}(?:\s|\Z)")
_MINUS = "-\u2013\u2212"  # some programs replace a hyphen; two dashes set off words
_OTHER_FIELD = re.compile(r"[a-z]{2,16}:(?=[^\W\d])", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"-(\d{4,}|\d+(?:\.\d+){2,})")  # a year, a document's number or a version; -5 is an amount
_IS_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ONLY_EXCLUDES = re.compile(r"\s*(?:-(\d\S*)|NOT\s+(\w+))\s*")


@dataclass(slots=True)
class _Token:
    """A part of a query between blanks: `text` is a word, or a phrase after a straight quotation mark."""

    start: int
    end: int
    text: str
    excludes: bool = False
    field: FieldName | None = None
    is_either: bool = False

    @property
    def words(self) -> str:
        return self.text.removeprefix('"')


def parse_query(query: str) -> ParsedQuery:
    """Read a query's signs. A query with only exclusions, or with too many signs, is searched for as written."""
    reader = _Reader(query)
    reader.read()
    if sum(len(each.values) for each in reader.signs) > MOST_SIGNS:
        return ParsedQuery(query, not_understood=(f"The query has more than {MOST_SIGNS} signs; they are plain text.",))
    if not reader.signs:
        if alone := _ONLY_EXCLUDES.fullmatch(query):
            left_out = alone[1] or alone[2]
            told = f"{alone[0].strip()} is searched for as text. To leave {left_out} out, add a word before NOT."
            reader.not_understood.append(told)
        return ParsedQuery(query, not_understood=tuple(reader.not_understood[:MOST_SIGNS]))
    if not reader.words and not any(not clause.excludes for clause in (*reader.clauses, *reader.fields)):
        refused = [f"{each.written}: a query can't only exclude. Add a word to search for." for each in reader.signs]
        return ParsedQuery(query, not_understood=(*reader.not_understood, *refused))
    text = " ".join(reader.words) or " ".join(each.value for each in reader.fields if not each.excludes)
    return ParsedQuery(
        text,
        tuple(reader.clauses),
        tuple(reader.fields),
        tuple(reader.signs),
        tuple(reader.not_understood[:MOST_SIGNS]),
        has_words=bool(reader.words),
    )


@dataclass(slots=True)
class _Reader:
    query: str
    words: list[str] = field(default_factory=list[str])
    clauses: list[Clause] = field(default_factory=list[Clause])
    fields: list[FieldClause] = field(default_factory=list[FieldClause])
    signs: list[QuerySign] = field(default_factory=list[QuerySign])
    not_understood: list[str] = field(default_factory=list[str])

    def read(self) -> None:
        # In a text in capitals, NOT and OR are ordinary words.
        others = [word for word in self.query.split() if word not in {"NOT", "OR"} and word.isalpha()]
        tokens, at, joins = list(self._split()), 0, not "".join(others).isupper()
        while at < len(tokens):
            token, chosen = tokens[at], tokens[at : at + 1]
            if joins and token.text == "NOT" and at and at + 1 < len(tokens) and _is_operand(tokens[at + 1]):
                at += 1
                self._exclude(tokens[at], start=token.start)
            elif joins and token.text == "OR" and any(each.field for each in tokens[max(0, at - 1) : at + 2]):
                self._join_fields(tokens[:at][-1:], tokens[at + 1 : at + 2], start=token.start)
            elif _is_operand(token):
                while joins and at + 2 < len(tokens) and tokens[at + 1].text == "OR" and _is_operand(tokens[at + 2]):
                    at += 2
                    chosen.append(tokens[at])
                self._require(chosen)
            else:
                self._follow(token)
            at += 1

    def _join_fields(self, before: Sequence[_Token], after: Sequence[_Token], *, start: int) -> None:
        """Let the field after an OR fit instead of the field before it; say so if the OR joins anything else."""
        if _are_values(after):
            after[0].is_either, after[0].start = _are_values(before), start
        if before and after and not (_are_values(before) and _are_values(after)):
            told = "OR joins two words, or two of title:, type:, owner: and in:. Another OR is left out."
            self.not_understood += [told] if told not in self.not_understood else []

    def _split(self) -> Iterator[_Token]:
        at, query = 0, self.query
        while (at := _skip_blanks(query, at)) < len(query):
            token = _Token(at, at, "")
            begin = at
            if query[at] in _MINUS and _may_exclude(query, at + 1):
                token.excludes, begin = True, at + 1
            if named := _FIELD.match(query, begin):
                token.field, begin = FieldName(named[1].lower()), named.end()
            token.text, token.end = self._take(begin)
            yield token
            at = token.end

    def _take(self, begin: int) -> tuple[str, int]:
        """Return a phrase or the characters up to the next blank, and the position after it."""
        single = _SINGLE.match(self.query, begin)
        if single and len(single[1].split()) > 1:  # single quotation marks around a word may be apostrophes
            return f'"{single[1].strip()}', single.end()
        closing = _QUOTES.get(self.query[begin])
        if closing:
            end = min((at for each in closing if (at := self.query.find(each, begin + 1)) > 0), default=0)
            if end:
                phrase = self.query[begin + 1 : end].strip()
                return (f'"{phrase}' if phrase else ""), end + 1
            self.not_understood.append(f"{self.query[begin]} has no closing quotation mark, so it is plain text.")
        end = next((found.start() for found in _END.finditer(self.query, begin)), len(self.query))
        return self.query[begin:end].lstrip('"'), end

    def _follow(self, token: _Token) -> None:
        if token.field is not None:
            self._narrow(token)
        elif token.excludes and token.text:
            self._exclude(token, start=token.start)
        elif token.text:
            self.words.append(token.words)

    def _require(self, tokens: Sequence[_Token]) -> None:
        """Take words and phrases joined by OR. A word alone is searched for, but not required of documents."""
        self.words += [each.words for each in tokens]
        texts = tuple(each.text for each in tokens)
        if len(texts) == 1 and not is_phrase(texts[0]):
            if other := _OTHER_FIELD.match(texts[0]):
                told = f"{other[0]} is no field, so it is plain text. Fields: {', '.join(_FIELDS)}."
                self.not_understood.append(told)
            elif texts[0].lower() in _FIELDS:
                self.not_understood.append(f"{texts[0]} is plain text. Its value follows without a blank.")
            elif tokens[0].start and (number := _LONG_NUMBER.fullmatch(texts[0])):
                told = f"{texts[0]} is searched for as text. To leave {number[1]} out, write NOT {number[1]}."
                self.not_understood.append(told)
            return
        self.clauses.append(Clause(tuple(map(_text_of, tokens))))
        self._say(SignKind.PHRASE if len(texts) == 1 else SignKind.ALTERNATIVES, tokens, start=tokens[0].start)

    def _exclude(self, token: _Token, *, start: int) -> None:
        self.clauses.append(Clause((_text_of(token),), excludes=True))
        self._say(SignKind.EXCLUDED, [token], start=start)

    def _narrow(self, token: _Token) -> None:
        day = None
        if token.field in _TIMES:
            day = _read_day(token.words)
            if day is None:
                self.not_understood.append(f"{token.field}:{token.words} has no date. Write it as 2025-03-31 or 2025.")
        if not token.words or token.field is None or (token.field in _TIMES and not day):
            self.words += filter(None, [token.words])
            return
        self.fields.append(FieldClause(token.field, token.words, token.excludes, day, token.is_either))
        self._say(SignKind.FIELD, [token], start=token.start)

    def _say(self, kind: SignKind, tokens: Sequence[_Token], *, start: int) -> None:
        written = self.query[start : tokens[-1].end]
        name = tokens[0].field
        self.signs.append(QuerySign(kind=kind, written=written, values=[each.words for each in tokens], field=name))


def _text_of(token: _Token) -> str:
    """Return a word indexed whole, or a phrase: "C++" is compared as written."""
    word = token.text.rstrip(".,;:!?")
    return word if WORD.fullmatch(word) and not has_unspaced(word) else '"' + token.words


def _is_operand(token: _Token) -> bool:
    has_text = is_phrase(token.text) or any(map(str.isalnum, token.text))
    return has_text and not token.excludes and token.field is None


def _are_values(tokens: Sequence[_Token]) -> bool:
    """Return whether there are tokens, and all are values of a field that OR may join."""
    kept = (each.field and each.field not in _TIMES and each.words and not each.excludes for each in tokens)
    return bool(tokens) and all(kept)


def _skip_blanks(query: str, at: int) -> int:
    while at < len(query) and (query[at].isspace() or query[at] in "()"):
        at += 1
    return at


def _may_exclude(query: str, at: int) -> bool:
    """Return whether a hyphen before this character excludes: before a letter or a phrase, but not before a number."""
    is_dash = query[at - 1] == "-" or query.count(query[at - 1]) == 1
    return is_dash and (query[at : at + 1].isalpha() or query[at : at + 1] in {*_QUOTES})


def _read_day(text: str) -> date | None:
    """Return the day of a date in any spelling, or the first day of a year or month."""
    for written in (text, f"1 {text}", f"{text}-1", f"{text}-1-1"):
        for form in find_forms(written):
            if (form.start, form.end) == (0, len(written)) and _IS_DAY.fullmatch(form.text):
                return date.fromisoformat(form.text)
    return None
