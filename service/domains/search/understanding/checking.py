"""Checking conditions that a language model says a query states: each must be stated by the words that it names.

The model finds the words and the field. What they compare with is read from the words themselves where they are
English, and a value must stand in them, for a model may make it up. Words tie a condition to documents, or else they
are on what the documents' text is about.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from carrel.wire.search import FilterOperator
from service.domains.search.filters import Kind
from service.domains.search.understanding.alternatives import DOCUMENTS
from service.domains.search.understanding.amounts import COMPARED, read_bounds, unit_of
from service.domains.search.understanding.drawing import (
    DrawnCondition,
    Match,
    Values,
    any_keys,
    find_stated,
    is_made_then,
    keep_agreeing,
    keys_of,
)
from service.domains.search.understanding.extraction import LONGEST_QUESTION, extract_questions
from service.domains.search.understanding.folding import Words, fold, words_of
from service.domains.search.understanding.moments import PERIOD, Period, read_period
from service.domains.search.understanding.query_texts import Field as OwnField
from service.domains.search.understanding.query_texts import any_of, read_field, read_query
from service.text.sentences import cut_sentences

_LOWER = (FilterOperator.GREATER, FilterOperator.GREATER_OR_EQUAL)
_UPPER = (FilterOperator.LESS, FilterOperator.LESS_OR_EQUAL)
_REACH = 60
"""Characters beside a condition's words in which what ties them to documents, or denies them, must stand."""

_DENIES = re.compile(
    r" (?:not|non|no|without|except|excluding|exclude|outside|other than|apart from|(?:any|every)thing but|neither|nor"
    r"|never|none|\w+n't|nicht|kein\w*|ohne|aus?ser|pas|aucune?|sans|sauf|hors|sin|excepto|salvo|senza|tranne|niet|geen"
    r"|zonder|behalve|nao|sem|exceto|ikke|ingen|uten|uden|inte|utan)(?= )"
)
_MADE = r"(?:wr[io]te|written|wrote|made|issued|published|created|sent|signed|prepared|authored)"
_LINKS = (
    rf"(?:that|which|who|are|is|were|was|have|has|been|only|not|those|from|by|of|in|the|our|team|{_MADE}|\w+ed|or|and"
    r"|aren't|isn't|weren't|von|vom|der|des|de|du|del|van|av|af)"
)
"""Words between documents and what ties a condition to them; any other may be what their text is about."""
_KINDS_OF_DOCUMENTS = (
    rf"(?:{DOCUMENTS}|dokumente?n?|berichte?n?|unterlagen|dateien|rapports?|fichiers|documentos|informes|archivos"
    r"|documenti|rapporti|documenten|rapporten|dokument(?:er)?|rapporter)"
)
_ABOUT = r"(?:about|on|concerning|regarding|mention\w*|describ\w*|explain\w*|uber|sur|sobre|over|om)"

_OWN_SHARE = 2 / 3
"""Of a question's words, so many must be the query's; a question word or a verb may be another one."""
_SHORT = 3
_STEM = 5
"""Words are the same when they begin alike; those of up to _SHORT characters are in any question."""


class StatedCondition(BaseModel):
    """A condition that the model says the query states."""

    field: str
    operator: FilterOperator
    value: Annotated[str, Field(max_length=200)]
    words: Annotated[str, Field(max_length=LONGEST_QUESTION)]


class _Span(NamedTuple):
    """Where the words that state a condition stand in the line of a query."""

    line: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The words, with a space before and after."""
        return self.line[self.start : self.end]

    @property
    def before(self) -> str:
        """What stands before them in their sentence, with a space behind."""
        return re.split(" [.?!;] ", self.line[max(0, self.start - _REACH) : self.start + 1])[-1]

    @property
    def behind(self) -> str:
        """What stands behind them in their sentence, with a space before."""
        return re.split(" [.?!;] ", self.line[self.end - 1 : self.end + _REACH])[0]

    def narrow(self, text: str) -> "_Span":
        """Return where a text, which is a part of the words, stands."""
        start = self.start + self.text.index(f" {text} ")
        return _Span(self.line, start, start + len(text) + 2)

    @property
    def is_denied(self) -> bool | None:
        """Whether the words are denied once; None where they are more often, which nobody is sure of."""
        near = " ".join(["", *self.before.split()[-5:]]) + self.text
        behind = " ".join(["", *self.behind.split()[:3], ""])
        count = len(_DENIES.findall(near)) + len(re.findall(r" (?:not|never|\w+n't)(?= )", behind))
        return None if count > 1 else count == 1

    def is_of_documents(self, values: Values) -> bool:
        """Return whether nothing but links, and values, stands between documents and these words."""
        known = any_of({word for text in values for word in text.split()})
        between = rf"(?: (?:{_LINKS}|{known}))*? $"
        if re.search(rf" {_KINDS_OF_DOCUMENTS}{between}", self.before):
            return True
        behind = rf"(?: (?:people|team|staff))? (?:(?:has|have|had) )?{_MADE} | (?:{known} )*{_KINDS_OF_DOCUMENTS} "
        return re.match(behind, f"{self.behind} ") is not None


def check_conditions(
    stated: Sequence[StatedCondition], query: str, *, fields: Mapping[str, str], values: Values, today: date
) -> list[DrawnCondition]:
    """Return the conditions of a query: those that rules draw, and of the model's those of other fields that it states.

    `fields` are types by name; `values` those of `keys_to_find` that occur. Where rules and the model together name
    alternatives, or a field in two ways, the rules' alone.
    """
    words = words_of(query)
    asked = read_query(query, fields)
    known = {key: values[key] for key in (keys_of(asked) if asked else ()) if key in values}
    drawn = find_stated(asked, today=today, values=known) if asked else []
    taken = {match.field for match in drawn}
    by_field: dict[str, list[Match]] = {}
    for each in stated:
        place = _locate(words, each.words)
        if place is None or each.field not in fields or each.field in taken:
            continue
        field = read_field(each.field, Kind(fields[each.field]))
        bounds = _CHECKS[field.kind](each, place, field, values=values, today=today)
        if bounds:
            by_field.setdefault(field.name, []).append(Match(field.name, bounds, place.start, place.end))
    further = [match for found in by_field.values() for match in _join_bounds(words, found)]
    return keep_agreeing(words, [*drawn, *further]) or keep_agreeing(words, drawn)


def check_questions(read: Sequence[str], query: str) -> list[str]:
    """Return the questions that a model read in a query; those of the rules when the model made one up.

    A query that rules leave whole, and that is one sentence, stays: other words than the searcher's find other things.
    """
    by_rules = extract_questions(query)
    questions = [each for each in map(str.strip, read) if each]
    if by_rules == [query] and len(list(cut_sentences(query))) < 2:
        return by_rules
    known = {word[:_STEM] for word in words_of(query).folded}
    for question in questions:
        own = [word[:_STEM] in known for word in words_of(question).folded if word[_SHORT:]]
        if sum(own) < _OWN_SHARE * max(len(own), 1):
            return by_rules
    return questions or by_rules


def keys_to_find(query: str, fields: Mapping[str, str]) -> list[str]:
    """Return the folded texts of a query that may be values of these fields (types by name)."""
    asked = read_query(query, fields)
    return list(dict.fromkeys([*(keys_of(asked) if asked else ()), *any_keys(query)])) if fields else []


def _locate(words: Words, stated: str) -> _Span | None:
    folded = " ".join(words_of(stated).folded)
    start = words.line.find(f" {folded} ") if folded else -1
    return None if start < 0 else _Span(words.line, start, start + len(folded) + 2)


_Bounds = Sequence[tuple[FilterOperator, str]]


def _read_value(
    stated: StatedCondition, place: _Span, field: OwnField, *, values: Values, today: date
) -> _Bounds | None:
    """Read a value of a text field, which occurs; its words are the query's, or the field is named beside it."""
    del today
    key = fold(stated.value)
    known = [value for name, value in values.get(key, ()) if name == field.name]
    if not known or f" {key} " not in place.text:
        return None
    at = place.narrow(key)
    names = any_of(field.names)
    is_named = re.search(rf" (?:{names})(?: called| named| :| =| is| is not| of| the)* $", at.before) or re.match(
        rf" (?:{names}) ", f"{at.behind} "
    )
    operator = _equality(stated, place)
    is_only = len(set(values[key])) == 1
    if operator is None or not (is_named or (is_only and at.is_of_documents(values))):
        return None
    return [(operator, stated.value if stated.value in known else known[0])]


def _equality(stated: StatedCondition, place: _Span) -> FilterOperator | None:
    """Return the operator that the words state, which deny or don't; None where the model says the contrary."""
    says_not = stated.operator is FilterOperator.NOT_EQUAL
    if place.is_denied is not says_not:
        return None
    return FilterOperator.NOT_EQUAL if says_not else FilterOperator.EQUAL


def _read_flag(
    stated: StatedCondition, place: _Span, field: OwnField, *, values: Values, today: date
) -> _Bounds | None:
    """Read whether a field is true, which words name; "not" is "not true", which documents without it fit, too."""
    del today, values
    name = next((name for name in field.names if f" {name} " in place.text), None)
    value = stated.value.strip().casefold()
    if name is None or value not in {"true", "false"} or stated.operator not in _EQUALITY:
        return None
    at = place.narrow(name)
    is_not = (value == "false") != (stated.operator is FilterOperator.NOT_EQUAL)
    if at.is_denied is not is_not or re.search(rf" {_ABOUT}(?: the| an?)? $", at.before):
        return None
    if not re.search(f" {_KINDS_OF_DOCUMENTS} ", f"{at.before}{at.text}{at.behind} "):
        return None
    return [(FilterOperator.NOT_EQUAL if is_not else FilterOperator.EQUAL, "true")]


_EQUALITY = (FilterOperator.EQUAL, FilterOperator.NOT_EQUAL)


def _read_time(
    stated: StatedCondition, place: _Span, field: OwnField, *, values: Values, today: date
) -> _Bounds | None:
    """Read the period that documents are of; "not since" is before."""
    found = re.search(rf" {PERIOD}(?= )", place.text)
    if found is None or stated.operator is FilterOperator.NOT_EQUAL:
        return None
    at = place.narrow(found.group().strip())
    period = read_period(found, today=today)
    if period is None and found["relation"] is None:  # a bare "2024" is one where documents stand before it
        bare = re.search(rf" {PERIOD}(?= )", f" in {found.group().strip()} ")
        period = read_period(bare, today=today) if bare else None
    if period and at.is_denied:
        period = Period(None, period.start) if period.start and not period.end else None
    made = re.search(rf" (?P<made>{_MADE}|\w+ed)(?= )", f"{at.before}{at.text}")
    is_own = is_made_then(field, made["made"] if made else None)
    if period is None or at.is_denied is None or not is_own or not at.is_of_documents(values):
        return None
    return [(operator, day.isoformat()) for operator, day in period.bounds()]


def _read_number(
    stated: StatedCondition, place: _Span, field: OwnField, *, values: Values, today: date
) -> _Bounds | None:
    """Read a comparison with a number, of a field that is named beside it or has the unit."""
    del today, values
    if stated.operator is FilterOperator.NOT_EQUAL or not re.search(f" {_KINDS_OF_DOCUMENTS} ", place.line):
        return None
    names = any_of(field.names)
    found = re.search(rf" {COMPARED}(?: (?P<unit>\S+))?(?= )", place.text + place.behind.lstrip() + " ")
    if place.is_denied is not False:
        return None
    if found is None:
        return _read_equal(stated, place, field)
    unit = unit_of(found["sign"] or found["unit"])
    is_measured = bool(unit and field.unit and unit.measure == field.unit.measure)
    if unit and not is_measured:
        return None
    behind = rf"(?: (?:and|but) {COMPARED})? (?:{names}) "
    is_named = (
        re.search(rf" (?:{names}) (?:(?:of|is|are|:) )?$", place.line[: place.start + 1 + found.start()])
        or re.search(rf" (?:{names})(?= )", place.text)
        or re.match(behind, f"{place.behind} ")
    )
    times = unit.factor / field.unit.factor if unit and field.unit else 1.0
    return read_bounds(found, times=times, whole=field.kind is Kind.INT) if is_named or is_measured else None


def _read_equal(stated: StatedCondition, place: _Span, field: OwnField) -> _Bounds | None:
    """Read a number that stands beside the field's name: "the year 2024"."""
    number = stated.value.strip()
    names = any_of(field.names)
    beside = rf" (?:(?:{names}) (?:(?:of|is|:|=) )?{re.escape(number)}|{re.escape(number)} (?:{names})) "
    if not number.isdigit() or any(number in found.group() for found in re.finditer(COMPARED, place.line)):
        return None
    is_stated = stated.operator is FilterOperator.EQUAL and re.search(beside, place.text)
    return [(FilterOperator.EQUAL, number)] if is_stated else None


_Check = Callable[..., _Bounds | None]
_CHECKS: Mapping[Kind, _Check] = {
    Kind.STRING: _read_value,
    Kind.BOOLEAN: _read_flag,
    Kind.DATETIME: _read_time,
    Kind.INT: _read_number,
    Kind.DOUBLE: _read_number,
}


def _join_bounds(words: Words, matches: Sequence[Match]) -> Sequence[Match]:
    """Return a lower and an upper bound of a field as one range; everything else as it is."""
    bounds = list(dict.fromkeys(bound for match in matches for bound in match.bounds))
    if [sum(operator in side for operator, _ in bounds) for side in (_LOWER, _UPPER)] != [1, 1] or bounds[2:]:
        return matches
    start, end = min(match.start for match in matches), max(match.end for match in matches)
    if " or " in words.line[start:end]:
        return matches
    return [Match(matches[0].field, bounds, start, end)]
