"""Drawing conditions from a question by rules: only where its words leave no doubt, and in English alone.

A date, a number or a name in a question is mostly what the text is about, and not a condition: "how many passengers did
we carry in 2024". So each is one only where the words tie it to documents ("reports from 2024") or name its field
("budget over 5000 EUR").
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from carrel.wire.search import FilterOperator
from service.domains.collections.metadata_schema import fits
from service.domains.search.filters import Kind
from service.domains.search.understanding.amounts import COMPARED, UNIT, MeasuredUnit, read_bounds, unit_of
from service.domains.search.understanding.folding import Words, fold, words_of
from service.domains.search.understanding.moments import PERIOD, Period, read_period
from service.index.stemming import ENGLISH, stemmer_for

LONGEST_VALUE = 6
"""Words of a value that is looked for."""
MOST_KEYS = 100
"""Texts that are looked for among the values."""

_DOCUMENTS = (
    r"(?:documents?|files?|papers?|pages?|records?|reports?|policy|policies|minutes|letters?|e mails?|e?mails?"
    r"|contracts?|notes?|articles?|guides?|manuals?|handbooks?|presentations?|slides|spreadsheets?|memos?|invoices?"
    r"|entry|entries|posts?|projects?|anything|everything|something|those|these|ones)"
)
_SEVERAL = (
    r"(?:documents|files|papers|pages|records|reports|policies|minutes|letters|e mails|e?mails|contracts|notes|articles"
    r"|guides|manuals|handbooks|presentations|slides|spreadsheets|memos|invoices|entries|posts|projects|ones)"
)
"""A name before one document is mostly a part of its title: "the safety manual"."""
_EXCEPT = r"(?:except(?: for)?|excluding|other than|apart from|outside(?: of)?)"
_NOT = rf"(?:{_EXCEPT}|but not|not|without|anything but|everything but)"
_MADE = r"(?:written|made|issued|published|created|sent|signed|prepared)"
_BEFORE = frozenset({
    "!", "(", ".", ":", ";", "?", "a", "all", "an", "any", "are", "but", "by", "do", "does", "every", "except",
    "excluding", "find", "for", "from", "give", "has", "have", "how", "in", "is", "latest", "list", "me", "new",
    "newest", "not", "of", "old", "on", "only", "our", "outside", "recent", "search", "show", "some", "than",
    "that", "the", "their", "there", "these", "those", "we", "what", "where", "which", "who", "with", "without",
    "your", ",",
})  # fmt: skip
"""Words that begin a name of documents: before others, a value may be a part of a longer name ("fire safety")."""
_AFTER = (
    r" (?:$|[,.;:?!)(]|(?:about|after|and|are|before|but|concerning|contain|containing|cover|describe|except|excluding"
    r"|explain|for|from|have|in|is|issued|mention|mentioning|on|or|published|regarding|say|since|that|until|updated"
    r"|to|when|where|which|with|without|written) )"
)
"""Pattern of what ends a name."""

Values = Mapping[str, Collection[tuple[str, str]]]
"""Values that occur in documents that the caller may read, as (field, value), by their folded text."""


class DrawnCondition(NamedTuple):
    """A condition, with the words of the question that state it."""

    field: str
    operator: FilterOperator
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class _Field:
    """A field, the pattern of its words, their stems, and the unit that its name ends with, if it does."""

    name: str
    kind: Kind
    pattern: str
    stems: frozenset[str]
    unit: MeasuredUnit | None


class _Match(NamedTuple):
    """What was read: a field's bounds, and where in the line they stand."""

    field: str
    bounds: Sequence[tuple[FilterOperator, str]]
    start: int
    end: int


def draw_conditions(question: str, fields: Mapping[str, str], *, today: date, values: Values) -> list[DrawnCondition]:
    """Return the conditions that a question states on fields (types by name); none of a field that is in doubt.

    `values` are those of `keys_of` that occur. What isn't of its field's type is none of them.
    """
    words, known = words_of(question), _fields(fields)
    if not _may_state(words):
        return []
    matches = [
        *_draw_periods(words, known, today),
        *_draw_amounts(words, known),
        *_draw_flags(words, known),
        *_draw_values(words, known, values),
    ]
    return [each for each in _agreeing(words, matches) if fits(Kind(fields[each.field]), each.value)]


def keys_of(question: str, fields: Mapping[str, str]) -> list[str]:
    """Return the folded texts of a question that would be conditions if they were values; none of most questions."""
    words, known = words_of(question), _fields(fields)
    has_texts = any(field.kind is Kind.STRING for field in known)
    return _keys(words, known) if has_texts and _may_state(words) else []


def _fields(fields: Mapping[str, str]) -> list[_Field]:
    return [_field(name, Kind(kind)) for name, kind in fields.items()]


def _may_state(words: Words) -> bool:
    """Return whether a question may state a condition: it names documents, or a field with a mark behind it."""
    return not words.is_foreign and re.search(f" {_DOCUMENTS} | [:=] ", words.line) is not None


def _keys(words: Words, fields: Sequence[_Field]) -> list[str]:
    cue = re.compile(
        rf"(?:{_DOCUMENTS}|{_names(fields, Kind.STRING)}|from|by|of|for|:|=|is|{_EXCEPT}|but|the|and|or|,)$"
    )
    keys: dict[str, None] = {}
    for start, length in ((at, size) for at in range(len(words.folded)) for size in range(1, LONGEST_VALUE + 1)):
        part = words.folded[start : start + length]
        before, after = words.folded[max(0, start - 1) : start], words.folded[start + length : start + length + 1]
        if len(part) == length and (cue.match(" ".join(before)) or cue.match(" ".join(after))):
            keys.setdefault(fold(" ".join(part)))
    return [key for key in keys if key][:MOST_KEYS]


def _field(name: str, kind: Kind) -> _Field:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    parts = [part for part in fold(words).split() if part]
    unit = unit_of(parts[-1]) if parts and kind in {Kind.INT, Kind.DOUBLE} else None
    named = parts[:-1] if unit and parts[1:] else parts
    if kind is Kind.BOOLEAN and parts[1:] and parts[0] in {"is", "has"}:
        named = parts[1:]
    pattern = " ".join(re.escape(part) for part in named) or "(?!)"
    if kind is not Kind.BOOLEAN:
        pattern = f"{pattern.removesuffix('s')}s?"
    if unit and unit.measure == "time" and parts[1:]:
        pattern = f"{pattern}(?: time)?"
    return _Field(name, kind, pattern, frozenset(map(_stem, named)), unit)


def _stem(word: str) -> str:
    stemmer = stemmer_for(ENGLISH)
    return stemmer.stemWord(word) if stemmer else word


def _names(fields: Sequence[_Field], *kinds: Kind) -> str:
    return "|".join(sorted((field.pattern for field in fields if field.kind in kinds), key=len, reverse=True)) or "(?!)"


def _draw_periods(words: Words, fields: Sequence[_Field], today: date) -> Iterator[_Match]:
    """Read "reports since March 2024" and "issued last year"; a number field `year` takes whole years."""
    times = [field for field in fields if field.kind is Kind.DATETIME]
    years = [field for field in fields if field.kind is Kind.INT and field.pattern == "years?"]
    for match in re.finditer(r" (?:of|from|in|for) the year (?P<year>(?:19|20)\d\d)(?= )", words.line):
        if len(years) == 1:
            yield _Match(years[0].name, [(FilterOperator.EQUAL, match["year"])], *match.span())
    made = r"(?P<made>(?:written|\w+ed|sent))"
    before = rf" (?P<documents>{_DOCUMENTS} )(?:(?:that|which) (?:were|was|are|is|have been) )?(?P<not>not )?"
    for match in re.finditer(rf"{before}(?:{made} )?{PERIOD}(?= )", words.line):
        period = read_period(match, today=today)
        if period is None:
            continue
        if match["not"]:
            is_since = match["relation"] == "since" or (period.start and not period.end)
            period = Period(None, period.start) if is_since else None
        fitting = [field for field in times if _is_made_then(field, match["made"])]
        start = match.end("documents") - 1
        if period and len(fitting) == 1 and (len(times) == 1 or match["made"]):
            bounds = [(operator, day.isoformat()) for operator, day in period.bounds()]
            yield _Match(fitting[0].name, bounds, start, match.end())
        elif period and not times and len(years) == 1 and not match["made"] and (bounds := _in_years(period)):
            yield _Match(years[0].name, bounds, start, match.end())


def _is_made_then(field: _Field, made: str | None) -> bool:
    """Return whether a field may be the time that a participle speaks of; None: documents' time, whichever it is."""
    is_plain = not field.stems - {_stem(word) for word in ("date", "day", "time", "datetime", "when", "at", "on")}
    return made is None or made == "dated" or is_plain or _stem(made) in field.stems


def _in_years(period: Period) -> list[tuple[FilterOperator, str]]:
    """Return the bounds of a period in whole years; none for another."""
    if any(day is not None and (day.month, day.day) != (1, 1) for day in period):
        return []
    if period.start and period.end and period.end.year - period.start.year == 1:
        return [(FilterOperator.EQUAL, str(period.start.year))]
    return [(operator, str(day.year)) for operator, day in period.bounds()]


def _draw_amounts(words: Words, fields: Sequence[_Field]) -> Iterator[_Match]:
    """Read "with more than 20 pages", "a budget over 2 million euros" and "files larger than 5 MB"."""
    if not re.search(f" {_DOCUMENTS} ", words.line):
        return
    numbers = [field for field in fields if field.kind in {Kind.INT, Kind.DOUBLE}]
    unit = rf"(?: (?P<unit>{UNIT}))?"
    for field in numbers:
        for pattern in (
            rf" (?:with|of|having|have|has) {COMPARED}(?P<unit>) (?:{field.pattern})(?= )",
            rf" (?:{field.pattern}) (?:(?:of|is|are|:) )?{COMPARED}{unit}(?= )",
        ):
            for match in re.finditer(pattern, words.line):
                yield from _amount(match, field, start=match.start())
    measures = [field.unit.measure for field in numbers if field.unit]
    of_documents = rf" {_DOCUMENTS}(?: (?:that|which) are)?(?P<what> ){COMPARED} (?P<unit>{UNIT})(?= )"
    for match in re.finditer(of_documents, words.line):
        unit_read = unit_of(match["unit"])
        if unit_read and measures.count(unit_read.measure) == 1:
            [field] = [one for one in numbers if one.unit and one.unit.measure == unit_read.measure]
            yield from _amount(match, field, start=match.start("what"))


def _amount(match: re.Match[str], field: _Field, *, start: int) -> Iterator[_Match]:
    """Read a number in the field's unit; one in another measure than the field's is in doubt."""
    asked = unit_of(match["unit"] or match["sign"])
    if asked and (field.unit is None or asked.measure != field.unit.measure):
        return
    times = asked.factor / field.unit.factor if asked and field.unit else 1.0
    bounds = read_bounds(match, times=times, whole=field.kind is Kind.INT)
    if bounds:
        yield _Match(field.name, bounds, start, match.end())


def _draw_flags(words: Words, fields: Sequence[_Field]) -> Iterator[_Match]:
    """Read "confidential documents" and "documents on pay that are not confidential".

    "Not" is "not true", which documents without the field fit, too.
    """
    for field in (field for field in fields if field.kind is Kind.BOOLEAN):
        name = field.pattern
        before = rf" (?P<first>(?P<not>(?:not|non) )?{name})(?: \w+){{0,3}}? {_DOCUMENTS}(?= )"
        is_it = rf"(?:that|which) (?:is|are|(?P<not>isn't|aren't|is not|are not)) {name}"
        after = rf" {_DOCUMENTS} (?:[^.?!;]* )?(?P<first>{is_it})(?={_AFTER})"
        for pattern in (before, after):
            for match in re.finditer(pattern, words.line):
                start, end = match.span("first")
                if pattern is before and not _begins(words, start, fields):
                    continue
                operator = FilterOperator.NOT_EQUAL if match["not"] else FilterOperator.EQUAL
                yield _Match(field.name, [(operator, "true")], start, end)


def _begins(words: Words, start: int, fields: Sequence[_Field]) -> bool:
    """Return whether the word at this place begins a name of documents, be it behind another condition's words."""
    flags = {field.pattern.split()[-1] for field in fields if field.kind is Kind.BOOLEAN}
    before = words.line[:start].split()
    return not before or before[-1] in _BEFORE | flags


def _draw_values(words: Words, fields: Sequence[_Field], values: Values) -> Iterator[_Match]:
    """Read "finance documents", "reports by Customer Care", "pages in the section tools", each with its negations."""
    if not values:
        return
    texts = {field.name for field in fields if field.kind is Kind.STRING}
    keys = "|".join(re.escape(key) for key in sorted(values, key=lambda key: (-len(key), key)))
    places = [match.span(1) for match in re.finditer(rf"(?<= )({keys})(?= )", words.line)]
    for at, (start, end) in enumerate(places):
        joined = re.match(
            r" (?:and|or|,|/)(?: the)? $", words.line[end : places[at + 1][0]] if places[at + 1 :] else ""
        )
        found = _value(words, fields, start, end)
        if found is None or joined:  # several values of a field at once are no condition that a search knows
            continue
        named, is_not, start_of_all, end_of_all = found
        fitting = {
            (field, value)
            for field, value in values[words.line[start:end]]
            if field in texts and named in {None, field}
        }
        if len(fitting) == 1:
            [(field, value)] = fitting
            operator = FilterOperator.NOT_EQUAL if is_not else FilterOperator.EQUAL
            yield _Match(field, [(operator, value)], start_of_all, end_of_all)


class _Stated(NamedTuple):
    """How a value is stated: with its field's name or without (None), denied or not, and where in the line."""

    field: str | None
    is_not: bool
    start: int
    end: int


def _value(words: Words, fields: Sequence[_Field], start: int, end: int) -> _Stated | None:
    """Return how a value that stands there is stated; None where it needn't be a condition."""
    line, texts = words.line, [one for one in fields if one.kind is Kind.STRING]
    if following := _field_at(texts, line[end:], " {}(?= )"):
        field, length = following
        return _linked(line, field, start, end + length)
    if preceding := _field_at(texts, line[:start], " {}(?: called| named| :| =| is(?: not)?)? $"):
        field, length = preceding
        mark = line[start - length : start].split()[-1]
        start -= length - 1
        if mark not in {":", "=", "is", "not"}:
            return _linked(line, field, start, end)
        return _Stated(field, mark == "not", start, end) if re.match(_AFTER, line[end:]) else None
    if not re.match(f" {_SEVERAL} ", line[end:]):
        return _linked(line, None, start, end)
    if denied := re.search(rf" ({_NOT})(?: the| any)? $", line[:start]):
        return _Stated(None, True, denied.start() + 1, end)
    return _Stated(None, False, start, end) if _begins(words, start, fields) else None


_LINK = (
    rf" (?P<not>{_NOT} (?:the )?)?{_DOCUMENTS}(?P<part> (?:(?:that|which) )?"
    rf"(?:(?:are|were|is|was) |(?P<are_not>(?:are|is|were|was)n't ))?(?P<not_after>{_NOT} )?(?:{_MADE} )?"
    r"(?:from|by{})"
    r"(?: the)? )$"
)
"""Pattern of what links documents to a value: "documents that are not from the"."""


def _linked(line: str, field: str | None, start: int, end: int) -> _Stated | None:
    """Return how a value behind "documents from" or "except" is stated; None where it is linked to no documents."""
    if not re.match(_AFTER, line[end:]):
        return None
    before = line[:start]
    if field and (excepted := re.search(rf" {_EXCEPT}(?: the)? $", before)):
        return _Stated(field, True, excepted.start() + 1, end)
    link = re.search(_LINK.format("|of|in|for" if field else ""), before)
    denials = [name for name in ("not", "are_not", "not_after") if link[name]] if link else []
    if link is None or len(denials) > 1:
        return None
    first = link.start("not") if link["not"] else link.start("part") + 1
    return _Stated(field, bool(denials), first, end)


def _field_at(fields: Sequence[_Field], line: str, pattern: str) -> tuple[str, int] | None:
    """Return the field whose words stand at the line's beginning or end as `pattern` says, and the length of that."""
    for field in fields:
        if match := (re.search if pattern.endswith("$") else re.match)(pattern.format(f"(?:{field.pattern})"), line):
            return field.name, len(match.group())
    return None


def _agreeing(words: Words, matches: Sequence[_Match]) -> list[DrawnCondition]:
    """Return the conditions of matches; none of a field that is stated in two ways."""
    by_field: dict[str, list[_Match]] = {}
    for match in sorted(matches, key=lambda each: each.start):
        known = by_field.setdefault(match.field, [])
        if not any(list(match.bounds) == list(each.bounds) for each in known):
            known.append(match)
    stated = [found[0] for found in by_field.values() if len(found) == 1 or _is_negative(found)]
    several = [found for found in by_field.values() if len(found) > 1 and _is_negative(found)]
    chosen = sorted([*stated, *(each for found in several for each in found[1:])], key=lambda each: each.start)
    return [
        DrawnCondition(match.field, operator, value, words.original(match.start, match.end))
        for match in chosen
        for operator, value in match.bounds
    ]


def _is_negative(matches: Sequence[_Match]) -> bool:
    return all(operator is FilterOperator.NOT_EQUAL for match in matches for operator, _ in match.bounds)
