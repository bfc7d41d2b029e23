"""Check a language model's conditions: words must clearly refer to documents, and values are read from the words."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated

from pydantic import BaseModel, Field

from carrel.wire.collections import FieldType
from carrel.wire.field_values import fits
from carrel.wire.search import DrawnFilter, FilterOperator
from service.domains.search.understanding import drawing
from service.domains.search.understanding.amounts import COMPARED, UNIT
from service.domains.search.understanding.drawing import AFTER, MADE, NOT
from service.domains.search.understanding.extraction import LONGEST_QUESTION, extract_questions
from service.domains.search.understanding.folding import PATTERNS, Words, fold, words_of
from service.domains.search.understanding.moments import PERIOD, read_period
from service.domains.search.understanding.query_texts import DOCUMENTS, any_of, read_field, read_query, stem
from service.domains.search.understanding.query_texts import Field as OwnField
from service.text.sentences import cut_sentences

_LOWER = (FilterOperator.GREATER, FilterOperator.GREATER_OR_EQUAL)
_UPPER = (FilterOperator.LESS, FilterOperator.LESS_OR_EQUAL)

_DENIES = re.compile(rf" (?:{NOT}|{PATTERNS['denies']})(?= )")
_ASKED = PATTERNS["asked"]  # pattern of a request for documents; after other words, documents are the subject of a text
_PEOPLE = r"(?:people|team|staff|department|colleagues)"
_MAKERS = frozenset(map(stem, ("team", "department", "author", "group", "unit", "division", "office", "owner")))
"""Words in the name of a field for a document's author."""
_WROTE = r"(?:(?:(?:has|have|had) )?(?:written|published)|wrote)(?! (?:off|down) )"
_REPORTS = PATTERNS["reports"]  # words for documents, in languages where a single word states the author
_MARKED = r"(?:marked|classified|flagged|labelled|labeled|tagged)"
_ENDS = "(?:[.?!]|uber|over|om) "
_ANY_COMPARED = re.sub(r"\(\?P<\w+>", "(?:", COMPARED)

_OWN_SHARE = 2 / 3  # of a question's words required from the query; a question word or a verb may differ
_READ_SHARE = 1 / 2  # of the words of each question, as read by rules, required in the model's questions
_SHORT = 3
_STEM = 5  # words with an equal beginning count as equal; words of up to _SHORT characters fit any question


class StatedCondition(BaseModel):
    field: str
    operator: FilterOperator
    value: Annotated[str, Field(max_length=200)]
    words: Annotated[str, Field(max_length=LONGEST_QUESTION)]


def check_conditions(
    stated: Sequence[StatedCondition], query: str, *, fields: Mapping[str, str], values: drawing.Values, today: date
) -> list[DrawnFilter]:
    """Return the rules' conditions, and the model's on other fields, but none of the model's alternatives."""
    words = words_of(query)
    asked = read_query(query, fields)
    known = {key: values[key] for key in (drawing.keys_of(asked) if asked else ()) if key in values}
    drawn = drawing.find_stated(asked, today=today, values=known) if asked else []
    taken = {match.field for match in drawn}
    by_field: dict[str, list[drawing.Match]] = {}
    for each in stated:
        if each.field in fields and each.field not in taken and each.operator is not FilterOperator.NOT_EQUAL:
            field = read_field(each.field, FieldType(fields[each.field]))
            by_field.setdefault(field.name, []).extend(_find(words, each, field, values=values, today=today))
    further = [match for found in by_field.values() for match in _join_bounds(words, found)]
    return drawing.keep_agreeing(words, [*drawn, *further]) or drawing.keep_agreeing(words, drawn)


def check_questions(read: Sequence[str], query: str) -> list[str]:
    """Return the model's questions, or the rules' if the model invents or omits any, or for a single sentence."""
    by_rules = extract_questions(query)
    questions = [each for each in map(str.strip, read) if each]
    if not questions or (by_rules == [query] and len(list(cut_sentences(query))) < 2):
        return by_rules
    made_up = any(_share(question, [query]) < _OWN_SHARE for question in questions)
    left_out = any(_share(question, questions) < _READ_SHARE for question in by_rules if by_rules != [query])
    return by_rules if made_up or left_out else questions


def _share(question: str, texts: Sequence[str]) -> float:
    known = {word[:_STEM] for text in texts for word in words_of(text).folded}
    own = [word[:_STEM] in known for word in words_of(question).folded if word[_SHORT:]]
    return sum(own) / len(own) if own else 1.0


def keys_to_find(query: str, fields: Mapping[str, str]) -> list[str]:
    """Return the folded texts of a query to look up as values of these fields (types by name)."""
    asked = read_query(query, fields)
    return list(dict.fromkeys([*(drawing.keys_of(asked) if asked else ()), *drawing.any_keys(query)])) if fields else []


def _find(
    words: Words, stated: StatedCondition, field: OwnField, *, values: drawing.Values, today: date
) -> Iterator[drawing.Match]:
    """Yield a stated condition, with bounds in the model's words, from a sentence without negation."""
    folded = " ".join(words_of(stated.words).folded)
    start = words.line.find(f" {folded} ") if folded else -1
    if start < 0:
        return
    first = max((match.end() - 1 for match in re.finditer(" [.?!;] ", words.line[: start + 1])), default=0)
    line = re.split("(?<= )[.?!;] ", words.line[first:])[0]
    if _DENIES.search(re.sub(_ANY_COMPARED, "", line)):
        return
    for match, bounds in _READERS[field.kind](line, stated, field, values=values, today=today):
        is_named = start < first + match.start("value") and first + match.end("value") < start + len(folded) + 2
        if is_named and bounds and all(fits(field.kind, value) for _, value in bounds):
            yield drawing.Match(field.name, bounds, first + match.start("all"), first + match.end("all"))


_Found = Iterator[tuple[re.Match[str], drawing.Bounds | None]]
"""The position of a stated condition (group `all`) and its value (group `value`), with the bounds of the comparison."""


def _find_value(line: str, stated: StatedCondition, field: OwnField, *, values: drawing.Values, today: date) -> _Found:
    """Read "whatever the finance people wrote" and "Berichte von Finance", if no second field has the value."""
    del today
    key = fold(stated.value)
    known = set(values.get(key, ()))
    if {name for name, _ in known} != {field.name} or len(known) > 1:
        return
    [(_, occurring)] = known
    value = f"(?P<value>{re.escape(key)})"
    documents = rf"{_ASKED}(?:{DOCUMENTS}|what|whatever|everything|anything)(?: (?:that|which))?(?: (?:the|our))?"
    people = [rf"{value} {_PEOPLE}", rf"(?:\w+ )?{_PEOPLE} (?:of|in|from) (?:the )?{value}"]
    written = [rf"{documents} (?P<all>{who} {_WROTE})(?= )" for who in people if field.stems & _MAKERS]
    for pattern in (*written, rf"{_ASKED}{_REPORTS} (?P<all>(?:von|vom|van|av|af|fra) {value})(?= (?:$|{_ENDS}))"):
        for match in re.finditer(pattern, line):
            yield match, [(FilterOperator.EQUAL, occurring)]


def _find_flag(line: str, stated: StatedCondition, field: OwnField, *, values: drawing.Values, today: date) -> _Found:
    del values, today
    if stated.value.strip().casefold() == "true":
        how = rf"(?: (?:that|which))?(?: (?:are|is|were|was|have been))? (?P<all>{_MARKED}(?: as)?"
        for match in re.finditer(rf"{_ASKED}{DOCUMENTS}{how} (?P<value>{any_of(field.names)}))(?={AFTER})", line):
            yield match, [(FilterOperator.EQUAL, "true")]


def _find_time(line: str, stated: StatedCondition, field: OwnField, *, values: drawing.Values, today: date) -> _Found:
    del stated, values
    who = rf"(?:we|(?:the|our) (?:\w+ )?{_PEOPLE}) (?:(?:has|have|had) )?"
    made = (
        rf"{_ASKED}{DOCUMENTS} (?:(?:that|which) )?{who}(?P<all>(?P<made>{MADE}|wrote) (?P<value>{PERIOD}))(?={AFTER})"
    )
    for match in re.finditer(made, line):
        period = read_period(match, today=today) if match["relation"] not in {"for", "of"} else None
        if period and drawing.is_made_then(field, match["made"]):
            yield match, [(operator, day.isoformat()) for operator, day in period.bounds()]


def _find_number(line: str, stated: StatedCondition, field: OwnField, *, values: drawing.Values, today: date) -> _Found:
    """Read each of "with more than 2 and fewer than 9 pages", and "documents whose budget is over 5000 EUR"."""
    del stated, values, today
    name = any_of(field.names)
    with_ = rf" {DOCUMENTS} (?:.* )?(?:with|of|having|have|has) "
    first = rf"{with_}(?P<all>(?P<value>{COMPARED}))(?= (?:and|but) {_ANY_COMPARED} (?:{name}){AFTER})(?P<unit>)"
    second = rf"{with_}{_ANY_COMPARED} (?:and|but) (?P<all>(?P<value>{COMPARED}) (?:{name}))(?P<unit>)(?={AFTER})"
    whose = rf" {DOCUMENTS} whose (?P<all>(?:{name}) (?:(?:of|is|are) )?(?P<value>{COMPARED})(?: (?P<unit>{UNIT}))?)"
    for pattern in (first, second, rf"{whose}(?={AFTER})"):
        for match in re.finditer(pattern, line):
            yield match, drawing.read_amount(match, field)


_READERS: Mapping[FieldType, Callable[..., _Found]] = {
    FieldType.STRING: _find_value,
    FieldType.LIST: _find_value,
    FieldType.BOOLEAN: _find_flag,
    FieldType.DATETIME: _find_time,
    FieldType.INT: _find_number,
    FieldType.DOUBLE: _find_number,
}


def _join_bounds(words: Words, matches: Sequence[drawing.Match]) -> Sequence[drawing.Match]:
    bounds = list(dict.fromkeys(bound for match in matches for bound in match.bounds))
    if [sum(operator in side for operator, _ in bounds) for side in (_LOWER, _UPPER)] != [1, 1] or bounds[2:]:
        return matches
    start, end = min(match.start for match in matches), max(match.end for match in matches)
    if " or " in words.line[start:end]:
        return matches
    return [drawing.Match(matches[0].field, bounds, start, end)]
