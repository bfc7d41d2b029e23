"""Drawing conditions from a question by rules, in English, if the words clearly refer to documents."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from carrel.wire.collections import FieldType
from carrel.wire.field_values import fits
from carrel.wire.search import DrawnFilter, FilterOperator
from service.domains.search.understanding.amounts import COMPARED, UNIT, read_bounds, unit_of
from service.domains.search.understanding.folding import PATTERNS, WORDS, Words, fold, words_of
from service.domains.search.understanding.moments import MONTH_OR_DAY, PERIOD, POINT, Period, read_period
from service.domains.search.understanding.query_texts import DOCUMENTS, LONGEST_QUESTION, Field, QueryText, any_of, stem

LONGEST_VALUE = 6  # words of a value to look up
MOST_KEYS = 100  # texts to look up among the values
_REACH = 200  # characters between a value and the linking words or the field's name before it

_SEVERAL = PATTERNS["several"]  # a name before a single document is mostly part of a title: "the safety manual"
_EXCEPT = r"(?:except(?: for)?|excluding|other than|apart from|outside(?: of)?)"
NOT = rf"(?:{_EXCEPT}|but not|not|without|anything but|everything but)"
MADE = r"(?:written|made|issued|published|created|sent|signed|prepared)"
_OWN_TIMES = tuple(WORDS["others"]["own_times"].split())
AFTER = PATTERNS["after"]  # the end of a name

_NO_NAME = (
    rf"(?:{POINT}|{MONTH_OR_DAY}|the|our|as|at|by|during|of|over|than|was|were|within"
    r"|\w+ed|born|built|held|kept|lost|made|sent|sold) "
)
"""Pattern of text that is no name after "the letters from": a time, or words with a separate time."""
_NAME = rf"(?!{_NO_NAME})(?!{AFTER[1:]})[a-z][\w']*"
_BEFORE_PERIOD = (
    rf" (?P<documents>{DOCUMENTS} )(?:(?:that|which) (?:were|was|are|is|have been) )?(?P<not>not )?"
    r"(?:(?P<made>(?:written|\w+ed|sent)) )?"
    r"(?P<whose>(?:(?:from|to|by) (?:(?:the|our) )?|(?P<of>of (?:the|our) ))(?:{}) )?"
)
"""Pattern of documents before a period, with owner and verb: "reports issued by the board"."""
_BEFORE_UNUSED = _BEFORE_PERIOD.format(f"{_NAME}(?: {_NAME})?")
_STATED = re.compile(rf" (?:{PERIOD}|{COMPARED}(?P<unit> (?:{UNIT}|pages?|words?|slides?|rows?))?)(?= )")
_OF_SUBJECTS = frozenset({None, "in", "of", "on", "during", "within", "for"})
"""Words linking a period to the words before, possibly a text's subject: "the budget for 2026"."""

_JOINING = r"(?:or|and|as well as|plus|versus|vs)"
# The text after a value: "or …", another number or time ("2024-2026"), or the next item of a list.
_JOINED_AFTER = re.compile(
    rf"(?: {DOCUMENTS})?(?: ,)? {_JOINING} |(?<=\d)(?: ,| to| through| till)? (?:\d|{POINT} )"
    r"| , (?:[^\s,.?!;:]+ ){1,3}?(?:,|and|or) "
)
_JOINED_BEFORE = re.compile(rf" {_JOINING} (?:the |all |any )?$")
_OTHER_DOCUMENTS = re.compile(rf" {_JOINING} (?:the |all |any )?(?:\w+ )?{DOCUMENTS}(?= )")
_NEAR = 30  # characters before a condition that may contain joining words

Values = Mapping[str, Collection[tuple[str, str]]]
"""Values of documents readable by the caller, as (field, value), by folded text."""

Bounds = Sequence[tuple[FilterOperator, str]]


class Match(NamedTuple):
    """A field's bounds, and their position in the line."""

    field: str
    bounds: Bounds
    start: int
    end: int


def draw_conditions(asked: QueryText, *, today: date, values: Values) -> list[DrawnFilter]:
    """Return the conditions stated in a question, without doubtful fields; `values` are known values of `keys_of`."""
    return keep_agreeing(asked.words, find_stated(asked, today=today, values=values))


def find_stated(asked: QueryText, *, today: date, values: Values) -> list[Match]:
    """Return the position of each condition stated in a question; see `draw_conditions`."""
    kinds = {field.name: field.kind for field in asked.fields}
    matches = [
        *_draw_periods(asked, today, values),
        *_draw_amounts(asked),
        *_draw_flags(asked),
        *_draw_values(asked, values),
    ]
    return [match for match in matches if all(fits(kinds[match.field], value) for _, value in match.bounds)]


def keys_of(asked: QueryText) -> list[str]:
    """Return the folded texts of a question that would be conditions if known as values; empty without text fields."""
    if not any(field.kind is FieldType.STRING for field in asked.fields):
        return []
    folded = asked.words.folded
    cue = re.compile(rf"(?:{DOCUMENTS}|{any_of(asked.texts)}|from|by|of|for|:|=|is|{_EXCEPT}|but|the|and|or|,)$")
    keys: dict[str, None] = {}
    for start, length in ((at, size) for at in range(len(folded)) for size in range(1, LONGEST_VALUE + 1)):
        part = folded[start : start + length]
        before, after = folded[max(0, start - 1) : start], folded[start + length : start + length + 1]
        if len(part) == length and (cue.match(" ".join(before)) or cue.match(" ".join(after))):
            keys.setdefault(fold(" ".join(part)))
    return [key for key in keys if key][:MOST_KEYS]


def any_keys(question: str) -> list[str]:
    """Return all folded texts of a question that may be values, regardless of context."""
    folded = words_of(question).folded
    texts = (
        fold(" ".join(folded[start : start + size]))
        for size in range(1, LONGEST_VALUE + 1)
        for start in range(len(folded) - size + 1)
    )
    return [key for key in dict.fromkeys(texts) if key][:MOST_KEYS]


def find_unused(question: str, drawn: Collection[DrawnFilter], fields: Mapping[str, str] | None = None) -> list[str]:
    """Return a question's times and amounts without a condition: about documents, or about any suitable field."""
    asked = QueryText(words_of(question), ())
    if len(question) > LONGEST_QUESTION or asked.words.is_foreign:
        return []
    kinds = set((fields or {}).values())
    found: list[str] = []
    for match in _STATED.finditer(asked.line):
        is_amount = bool(match["operator"] or match["low"])
        if not asked.may_state and not kinds & (
            {FieldType.INT, FieldType.DOUBLE} if is_amount else {FieldType.DATETIME}
        ):
            continue
        if match["point"] and match["relation"] in _OF_SUBJECTS:
            is_bare_date = match["relation"] is None and match["point"][-1].isdigit()
            if is_bare_date or not re.search(f"{_BEFORE_UNUSED}$", asked.line[: match.start() + 1]):
                continue
        if is_amount and not (match["unit"] or match["sign"] or re.match(AFTER, asked.line[match.end() :])):
            continue
        words = asked.words.original(*match.span())
        if not any(words in each.words for each in drawn):
            found.append(words)
    return found


def _draw_periods(asked: QueryText, today: date, values: Values) -> Iterator[Match]:
    """Read "reports since March 2024" and "issued last year"; a number field `year` takes "of the year 2024"."""
    times = [field for field in asked.fields if field.kind is FieldType.DATETIME]
    years = [field for field in asked.fields if field.kind is FieldType.INT and "year" in field.names]
    for match in re.finditer(r" (?:of|from|in|for) the year (?P<year>(?:19|20)\d\d)(?= )", asked.line):
        if len(years) == 1:
            yield Match(years[0].name, [(FilterOperator.EQUAL, match["year"])], *match.span())
    before = _BEFORE_PERIOD.format(f"{any_of(values)}|{_NAME}")
    for match in re.finditer(rf"{before}{PERIOD}(?= )", asked.line):
        period = read_period(match, today=today)
        if period is None or (match["whose"] and (match["not"] or not _is_theirs(match))):
            continue
        if match["not"]:
            is_since = match["relation"] == "since" or (period.start and not period.end)
            period = Period(None, period.start) if is_since else None
        fitting = [field for field in times if is_made_then(field, match["made"])]
        start = match.end("whose" if match["whose"] else "documents") - 1
        if period and len(fitting) == 1 and (len(times) == 1 or match["made"]):
            bounds = [(operator, day.isoformat()) for operator, day in period.bounds()]
            yield Match(fitting[0].name, bounds, start, match.end())


def _is_theirs(match: re.Match[str]) -> bool:
    """Return whether a period belongs to words like "letters from the bank", and not to "records of the storm"."""
    return match["relation"] not in (_OF_SUBJECTS if match["of"] else {"of", "for"})


def is_made_then(field: Field, made: str | None) -> bool:
    """Return whether a field may hold a participle's time; None means any time of the document itself."""
    if made is None or made == "dated":
        return not field.stems - {stem(word) for word in _OWN_TIMES}
    is_plain = not field.stems - {stem(word) for word in _OWN_TIMES[:7]}
    return is_plain or stem(made) in field.stems


def _draw_amounts(asked: QueryText) -> Iterator[Match]:
    """Read "with more than 20 pages", "a budget over 2 million euros" and "files larger than 5 MB"."""
    if not re.search(f" {DOCUMENTS} ", asked.line):
        return
    named = asked.find_named(FieldType.INT, FieldType.DOUBLE)
    name = f"(?P<name>{any_of(named)})"
    counted = rf" (?:with|of|having|have|has) {COMPARED}(?P<unit>) {name}(?= )"
    measured = rf" {name} (?:(?:of|is|are|:) )?{COMPARED}(?: (?P<unit>{UNIT}))?(?= )"
    for match in re.finditer(counted, asked.line):
        yield from _amount(match, named[match["name"]], start=match.start())
    for match in re.finditer(measured, asked.line):
        if asked.begins_at(match.start("name")) or _ends_with_documents(asked.line, match.start("name")):
            yield from _amount(match, named[match["name"]], start=match.start())
    numbers = [field for field in asked.fields if field.kind in {FieldType.INT, FieldType.DOUBLE}]
    measures = [field.unit.measure for field in numbers if field.unit]
    of_documents = rf" {DOCUMENTS}(?: (?:that|which) are)?(?P<what> ){COMPARED} (?P<unit>{UNIT})(?= )"
    for match in re.finditer(of_documents, asked.line):
        unit_read = unit_of(match["unit"])
        if unit_read and measures.count(unit_read.measure) == 1:
            [field] = [number for number in numbers if number.unit and number.unit.measure == unit_read.measure]
            yield from _amount(match, field, start=match.start("what"))


def _amount(match: re.Match[str], field: Field, *, start: int) -> Iterator[Match]:
    if bounds := read_amount(match, field):
        yield Match(field.name, bounds, start, match.end())


def read_amount(match: re.Match[str], field: Field) -> Bounds | None:
    """Read a number in the field's unit; None for a number in another measure, because it is doubtful."""
    asked = unit_of(match["unit"] or match["sign"])
    if asked and (field.unit is None or asked.measure != field.unit.measure):
        return None
    times = asked.factor / field.unit.factor if asked and field.unit else 1.0
    return read_bounds(match, times=times, whole=field.kind is FieldType.INT)


def _draw_flags(asked: QueryText) -> Iterator[Match]:
    """Read "confidential documents", and "that are not confidential", which also fits documents without the field."""
    named = asked.find_named(FieldType.BOOLEAN)
    name = f"(?P<name>{any_of(named)})"
    before = rf" (?P<first>(?P<not>(?:not|non) )?{name})(?=(?: \w+){{0,3}}? {DOCUMENTS} )"
    is_it = rf"(?:that|which) (?:is|are|(?P<not>isn't|aren't|is not|are not)) {name}"
    for pattern in (before, rf" (?P<first>{is_it})(?={AFTER})"):
        for match in re.finditer(pattern, asked.line):
            start, end = match.span("first")
            clause = re.split(" [.?!;] ", asked.line[:start])[-1]
            if asked.begins_at(start) if pattern is before else re.search(f" {DOCUMENTS} ", f" {clause}"):
                operator = FilterOperator.NOT_EQUAL if match["not"] else FilterOperator.EQUAL
                yield Match(named[match["name"]].name, [(operator, "true")], start, end)


def _ends_with_documents(line: str, end: int) -> bool:
    return re.compile(f" {DOCUMENTS} $").search(line, max(0, end - _REACH), end) is not None


def _draw_values(asked: QueryText, values: Values) -> Iterator[Match]:
    """Read "finance documents", "reports by Customer Care", "pages in the section tools", and their negations."""
    if not values:
        return
    texts = {field.name for field in asked.fields if field.kind is FieldType.STRING}
    places = [match.span() for match in re.finditer(rf"(?<= )(?:{any_of(values)})(?= )", asked.line)]
    for at, (start, end) in enumerate(places):
        joined = re.match(
            r" (?:and|or|,|/)(?: the)? $", asked.line[end : places[at + 1][0]] if places[at + 1 :] else ""
        )
        found = _value(asked, start, end)
        if found is None or joined:  # a condition can't have several values of a field
            continue
        named, is_not, start_of_all, end_of_all = found
        fitting = {
            (field, value)
            for field, value in values[asked.line[start:end]]
            if field in texts and named in {None, field}
        }
        if len(fitting) == 1:
            [(field, value)] = fitting
            operator = FilterOperator.NOT_EQUAL if is_not else FilterOperator.EQUAL
            yield Match(field, [(operator, value)], start_of_all, end_of_all)


class _Stated(NamedTuple):
    """The form of a value: with a field's name (None: without), negated or not, and the position in the line."""

    field: str | None
    is_not: bool
    start: int
    end: int


def _value(asked: QueryText, start: int, end: int) -> _Stated | None:
    line, furthest = asked.line, max(0, start - _REACH)
    if behind := asked.field_behind.match(line, end):
        return _find_link(line, asked.texts[behind["name"]].name, start, behind.end())
    if before := asked.field_before.search(line, furthest, start):
        field, mark = asked.texts[before["name"]].name, (before["mark"] or "").strip()
        start = before.start("name")
        if mark in {"", "called", "named"}:
            return _find_link(line, field, start, end)
        return _Stated(field, mark == "is not", start, end) if re.match(AFTER, line[end:]) else None
    if not re.match(f" {_SEVERAL} ", line[end:]):
        return _find_link(line, None, start, end)
    if denied := _DENIED.search(line, furthest, start):
        return _Stated(None, True, denied.start() + 1, end)
    return _Stated(None, False, start, end) if asked.begins_at(start) else None


_DENIED = re.compile(rf" ({NOT})(?: the| any)? $")
_EXCEPTED = re.compile(rf" {_EXCEPT}(?: the)? $")
_LINK = (
    rf" (?P<not>{NOT} (?:the )?)?{DOCUMENTS}(?P<part> (?:(?:that|which) )?"
    rf"(?:(?:are|were|is|was) |(?P<are_not>(?:are|is|were|was)n't ))?(?P<not_after>{NOT} )?(?:{MADE} )?"
    r"(?:from|by{})"
    r"(?: the)? )$"
)
"""Pattern of the words between documents and a value: "documents that are not from the"."""


def _find_link(line: str, field: str | None, start: int, end: int) -> _Stated | None:
    """Return the form of a value after "documents from" or "except"; None if no documents are linked."""
    if not re.match(AFTER, line[end:]):
        return None
    furthest = max(0, start - _REACH)
    if field and (excepted := _EXCEPTED.search(line, furthest, start)):
        return _Stated(field, True, excepted.start() + 1, end)
    link = re.compile(_LINK.format("|of|in|for" if field else "")).search(line, furthest, start)
    denials = [name for name in ("not", "are_not", "not_after") if link[name]] if link else []
    if link is None or len(denials) > 1:
        return None
    first = link.start("not") if link["not"] else link.start("part") + 1
    return _Stated(field, bool(denials), first, end)


def keep_agreeing(words: Words, matches: Sequence[Match]) -> list[DrawnFilter]:
    """Return the conditions of matches; none for a field stated twice or with alternatives."""
    by_field: dict[str, list[Match]] = {}
    ordered = sorted(matches, key=lambda each: each.start)
    for match in ordered:
        known = by_field.setdefault(match.field, [])
        if not any(list(match.bounds) == list(each.bounds) for each in known):
            known.append(match)
    excludes = FilterOperator.NOT_EQUAL
    is_several = any(
        len(found) > 1 and any(operator is not excludes for match in found for operator, _ in match.bounds)
        for found in by_field.values()
    )
    if is_several or _has_alternatives(words, [(each.start, each.end) for each in ordered]):
        return []
    chosen = sorted((each for found in by_field.values() for each in found), key=lambda each: each.start)
    return [
        DrawnFilter(field=match.field, operator=operator, value=value, words=words.original(match.start, match.end))
        for match in chosen
        for operator, value in match.bounds
    ]


def _has_alternatives(words: Words, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts of the line are alternatives ("2024 or 2025"), because all conditions must be met."""
    line = words.line
    for first, end in spans:
        start = first + (line[first] == " ")
        beside = words.beside(start, end)
        if re.search(r"[/&+|\\]", beside) or (line[end - 1].isdigit() and re.search("[-\u2010-\u2015]", beside)):
            return True
        if _JOINED_AFTER.match(line, end) or _JOINED_BEFORE.search(line, max(0, start - _NEAR), start):
            return True
    others = (match.start() for match in _OTHER_DOCUMENTS.finditer(line))
    if spans and any(not any(start <= at < end for start, end in spans) for at in others):
        return True
    between = (line[first[1] : second[0] + 1] for first, second in pairwise(spans))
    return any(re.search(r" or (?!.* [.?!;] )", part) for part in between)
