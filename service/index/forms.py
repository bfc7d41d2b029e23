"""Other spellings for finding the same word, number, date or name. A form has a share of a word's weight, and stands
for a stretch of a text in addition to the words. In a query, words count less where the form says more, and separate
words are also joined. Text joined by signs has a form as written, so the exact spelling ranks highest."""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import chain, pairwise, product
from pathlib import Path
from typing import NamedTuple

from service.index.stop_words import QUERY_STOP_WORDS
from service.index.tokenization import IN_WORD, WORD, Word, fold, is_unspaced

FORMS = 1  # from this number on, a document's texts have further forms
APART = 2  # from this number on, its vectors are in a table of their own (docs/decisions/018)
RULES = 6  # of newly written documents; a higher number renews every index: raise it when texts get other forms
FOLDED, EXPANDED, JOINED, UNSURE, WRITTEN = 0.7, 0.5, 0.6, 0.6, 0.4
WHOLE = 0.5  # forms with at least this share are other spellings of the whole; forms with less are parts
PART, NEIGHBOURS, BORDER = 0.3, 0.3, 0.2

# Letters to replace by ASCII letters or to remove; the digits of other scripts follow separately.
_LETTERS = str.maketrans({
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "\u0131": "i",
    "ى": "ي", "ی": "ي", "ة": "\u0647", "ک": "ك", "ς": "\u03c3", "\u02bb": "", "\u02bc": "",
})  # fmt: skip
# These Cyrillic letters keep their marks: with a mark, they are separate letters, frequent in Russian adjectives.
_ACCENTS = re.compile("(?<![иіу])[\u0300-\u036f\u0653-\u0655]+")
_EXPANSIONS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_EXPANDING = frozenset({"danish", "english", "german", "norwegian", "simple"})

_MOST_PARTS = 16
_HEBREW = re.compile("(?:כש|[והבלמשכ]{1,2})(?=[א-ת]{3})")  # words that are written together with the next word
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|er|e)", re.IGNORECASE)
_CAMEL = re.compile(r"[A-Z]+s?(?![^A-Z])|[A-Z]?[^A-Z]+")
_BORDER = re.compile(r"\d+|\D+")
_QUARTER = re.compile(r"(?<=[a-z])[A-Z]\d+(?![a-z])")

# Signs that people omit or vary, or that software inserts: soft hyphens, half-spaces and so on.
_INVISIBLE = "\u00ad\u200b-\u200d\u2060\ufeff"
_SIGNS = rf"-./@:&'\u2019\u2010\u2011\u2013\uff0d{_INVISIBLE}"
_IN_WORD = re.compile(f"[{IN_WORD}]")
_BROKEN = r"-(?<=[^\W\d_].)\n(?=[^\W\d_])"  # a word that continues in the next line
_JOINT = re.compile(rf"[{_SIGNS},\u066c\u066b](?<=\w.)(?=\w)|{_BROKEN}")
_RUN = re.compile(rf"{WORD.pattern}(?:(?:[{_SIGNS}]|{_BROKEN}|(?<=\d)[,\u066c\u066b](?=\d)){WORD.pattern})+")
_USUAL_SIGNS = str.maketrans("\u2010\u2011\u2013\uff0d\u2019", "----'")
_CONTRACTED = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})

_DIGIT = re.compile(r"\d")
_BLANKS = " \u00a0\u2009\u202f"
_NUMBER = re.compile(r"([A-Za-z]{0,3})(\d+(?:[.,'\u2019\u066c\u066b]\d+)+)([A-Za-z]{0,3})")
# For speed, each pattern begins with a rare character, and then looks back.
_SPACED_NUMBER = re.compile(
    rf"\d(?<![\w.,]\d)(?<!\d[{_BLANKS}]\d)\d{{0,2}}(?:[{_BLANKS}]\d{{3}}){{1,6}}(?:[.,\u066b]\d+(?!\w)|(?!\w|[{_BLANKS}.,'\u2019-]\d))"
)
_NUMBER_SIGNS = str.maketrans("\u2019\u066c\u066b\u00a0\u2009\u202f", "'',   ")
# A telephone, account, card, plate or part number: groups separated by blanks.
_GROUPS = re.compile(r"(?:[A-Z\d](?<![\w./-].)|[+(])[A-Z\d()]{0,9}(?:(?: / |[ -])[A-Z\d()]{1,9}){1,8}(?!\w|[./-]\w)")
_IS_CODE = re.compile(r"(?=.*\d)(?=.*[A-Z])(?!.*(?:[A-Z]{6}|\b[A-Z]+ [A-Z]+ [A-Z]+\b))")
_IS_NUMBER = re.compile(r"(?=[+(0]|\d{3})[^A-Z]*\Z")
_IS_SURE = re.compile(r"[+(0]|[A-Z]{2}\d")
_FEWEST_DIGITS, _MOST_DIGITS = 7, 34  # as many as the longest number of an account
_DIGITS, _OF_NUMBER = "0123456789", 4  # the digits that a number with a blank, a year or a group has at least

_DATE = re.compile(r"(?:(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\6(\d{4}))(?=$|T\d)")
_YEAR, _ASCII_YEAR = re.compile(r"\d{4}(?<!\d....)(?!\d)"), re.compile(r"\d{4}(?<!\w....)(?!\w)")
_DATES = (
    re.compile(
        r"(?P<d>\d(?<![\w.,]\d)\d?)(?:[a-z]{2}|º)?[. /-]{1,2}(?:[a-z]{2} )?(?P<m>[^\W\d_]{3,14})[.,]?[ /-](?:del? )?"
        r"(?P<y>\d{4})(?!\w)"
    ),
    re.compile(r"(?P<m>[^\W\d_]{3,14})\.? (?P<d>\d\d?)(?:[a-z]{2})?,? (?P<y>\d{4})(?!\w)"),
    re.compile(r"(?P<y>\d{4})[年년] ?(?P<m>\d\d?)[月월] ?(?P<d>\d\d?)[日일]"),
)
_MONTH_BEFORE = re.compile(r"([^\W\d_]{3,14}|\d(?<![\w.,:/-]\d)\d?(?=[./-]))[.,]?[ ./-](?:del? )?\Z")
_MONTH_AFTER = re.compile(r"(?:[-/.]|[\u5e74\ub144] ?)(\d\d?)(?!\d|[-/.]\w|[\u6708\uc6d4] ?\d)[\u6708\uc6d4]?")
_MONTHS = {
    name: int(number)
    for number, names in tomllib.loads(Path(__file__).with_name("months.toml").read_text()).items()
    for name in names.split()
}

_PERIODS = tomllib.loads(Path(__file__).with_name("periods.toml").read_text("utf-8"))
_WEEKS = frozenset[str](_PERIODS["weeks"].split())
_ORDINALS, _POWERS, _UNITS = (
    {name: value for value, names in _PERIODS[table].items() for name in names.split()}
    for table in ("ordinals", "powers", "units")
)
_MEASURE = re.compile(rf"(\d(?<![\w.,:/-]\d)(?:[\d.,'\u2019]*\d)?)[{_BLANKS}-]?([^\W\d_]{{1,14}}|[%\u20ac])(?!\w)")
_WEEK = re.compile(r"\d(?<=[^\W\d_][ .].)\d?(?!\w|[.,:/%-]\d)")
_BEFORE_WEEK = re.compile(r"\b([^\W\d_]{2,14})[ .]\Z")
_JOINED_WEEK = re.compile(r"(?:KW|CW|W|wk)0?(\d{1,2})")
_OF_QUARTER = re.compile(
    rf"(?<![\w.,/])(\w{{1,9}})[.\u00ba]? (?:{'|'.join(_PERIODS['quarters'].split())})\b", re.IGNORECASE
)
_HAS_QUARTER = re.compile("[qkt](?:uart|vart|wart|rimes)", re.IGNORECASE)

# Spellings of a query that texts may have in another way: 10.30, 1/2 and ½, and a telephone number with its zero.
_SPELLED = re.compile(r"(?<![\w.,:/-])(?P<first>\d\d?)(?P<sign>[:.hH/x\u00d7])(?P<last>\d\d?)(?!\w|[.,:/-]\d)")
_TELEPHONE = re.compile(r"(?<![\w./+-])0[\d/-]{5,18}\d(?![\w/-])")
_NUMERAL = re.compile(
    r"(?<=[^\W\d_] )(?:([IVX]{1,6}|[ivx]{2,6})|([1-9]|[12]\d|3\d)(?:st|nd|rd|th)?)(?!\w|[.,:/%&+-]\w|[%\u00b0])"
)
_ONES = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_ROMAN = dict(enumerate("X" * tens + ones for tens in range(4) for ones in _ONES))
_ARABIC = {roman: number for number, roman in _ROMAN.items()}
_IS_AFTERNOON = re.compile(r" ?[pP]\.?[mM]\b")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_ALL_DIGITS, _ALL_LETTERS = ("|".join(rf"(?<=\b{of}{{{n}}}.)" for n in range(1, 10)) for of in (r"\d", r"[^\W\d]"))
_APART = re.compile(rf"[{_BLANKS}](?:(?<=\d.)(?=[^\W\d])(?:{_ALL_DIGITS})|(?=\d)(?:{_ALL_LETTERS}))")
_NOT_IN_CODES = {each for each in QUERY_STOP_WORDS if len(each) > 1 or each == "a"}  # "a 4 course meal", "at 5"
_BEFORE, _AFTER = re.compile(r"\b\w{1,9}+\Z"), re.compile(r"(\w{1,9}+\b)(?:/\w\b)?")

_SHORT = frozenset(word.upper() for word in QUERY_STOP_WORDS | {"us"} if 2 <= len(word) <= 4 and word.isalpha())
_ALSO_NAMES = {"it", "us", "who"}  # alone, such a word asks for IT, US or WHO; "the" asks for nothing
_CAPITALS = re.compile("[A-Z](?<![\\w'\u2019&][A-Z])[A-Z]+(?![\\w'\u2019&])")
_HAS_SMALL, _HAS_OTHER = re.compile("[a-z]"), re.compile(r"\b[A-Z]{2,}\b")
_LETTER = re.compile(r" ([A-Z])(?<=[^\W\d_] .)(?![\w'\u2019+#&]|\.\w)")
_NOUN_BEFORE = re.compile(r"(?:\b|_)([^\W\d_]{3,24})\Z")
_HAS_POINT = re.compile(r"\.(?<=[\s(].)[A-Za-z]")
_SIGNED = re.compile(
    r"(?<![\w.])(?:[A-Za-z](?:\+\+?|#)(?![\w+#])|\.[A-Za-z]{2,5}(?!\w))|\b[A-Za-z] ?& ?[A-Za-z]\b"
    r"|\u00a7[ \u00a0]?\d+[a-z]?\b",
    re.ASCII,
)


class Form(NamedTuple):
    """Another spelling of a stretch, with its share; in a query, `rest` is the words' share (None: a single word)."""

    start: int
    end: int
    text: str
    share: float
    rest: float | None = None


@lru_cache(maxsize=2**16)
def forms_of_word(word: str, stemming: str) -> tuple[Form, ...]:
    """Return the further forms of a single word: without marks, and parts. Most words have none."""
    if word.isascii() and word.isdecimal():
        return _read_digits(word)
    if word.isascii() and word.isalpha() and (word.islower() or word.isupper() or word.istitle()):
        return ()
    forms: list[Form] = []
    folded = fold(word)
    if not folded.isascii():
        if within := _HEBREW.match(folded):
            forms.append(Form(0, len(word), folded[within.end() :], EXPANDED))
        bare = fold_marks(folded)
        spellings = {bare: FOLDED}
        if stemming in _EXPANDING:
            spellings.setdefault(fold_marks(folded.translate(_EXPANSIONS)), EXPANDED)
        forms += [Form(0, len(word), text, share) for text, share in spellings.items() if text not in {folded, ""}]
    if week := _JOINED_WEEK.fullmatch(word):
        forms.append(Form(0, len(word), f"week {week[1]}", JOINED))
    return (*forms, *_find_parts(word))


def _read_digits(digits: str) -> tuple[Form, ...]:
    """Return a number without leading zeros, and the day that eight digits may say: 20250304."""
    forms = [Form(0, len(digits), digits.lstrip("0"), JOINED)] if len(digits) > 3 and digits[0] == "0" else []
    if len(digits) == 8 and digits[:2] in {"19", "20"} and (day := _as_date(digits[:4], digits[4:6], digits[6:])):
        forms.append(Form(0, 8, day, JOINED))
    return tuple(each for each in forms if each.text)


def fold_marks(folded: str) -> str:
    """Return a word in lower case without accents, with plain letters and with the digits 0 to 9."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded.translate(_LETTERS))).translate(_LETTERS)
    digits = "".join(str(unicodedata.decimal(each)) if each.isdecimal() else each for each in bare)
    return unicodedata.normalize("NFC", digits)


def _find_parts(word: str) -> Iterator[Form]:
    """Yield the parts of an identifier: between underscores, at capitals, and between letters and digits."""
    snakes = [Word(*match.span(), match[0]) for match in re.finditer("[^_]+", word)]
    if [snake.text for snake in snakes] != [word]:
        yield from _join_parts(snakes)
    for snake in snakes:
        if snake.text.isdecimal():
            yield from _move(_read_digits(snake.text), snake.start)
        runs = [] if _ORDINAL.fullmatch(snake.text) else list(_BORDER.finditer(snake.text))
        for run in runs:
            start = snake.start + run.start()
            humps = [
                Word(start + hump.start(), start + hump.end(), hump[0])
                for hump in (() if run[0].isupper() else _CAMEL.finditer(run[0]))
            ]
            if len(humps) > 1:
                yield from _join_parts([hump for hump in humps if len(hump.text) > 1])
            elif len(runs) > 1 and len(run[0]) > 1:
                yield Form(start, start + len(run[0]), run[0], BORDER)
        for match in _QUARTER.finditer(snake.text) if len(runs) > 1 else ():
            yield Form(snake.start + match.start(), snake.start + match.end(), match[0], PART)


def _join_parts(parts: list[Word]) -> Iterator[Form]:
    """Yield each of the first parts, each two neighbours joined, and the whole joined."""
    parts = parts[:_MOST_PARTS]
    for first, size in product(range(len(parts)), sorted({1, 2, len(parts)})):
        joined = parts[first : first + size]
        if len(joined) == size:
            text = "".join(part.text for part in joined)
            yield Form(joined[0].start, joined[-1].end, text, PART if size == 1 else JOINED)


def find_forms(text: str) -> Iterator[Form]:
    """Yield forms for several words, or for a word because of its neighbours."""
    # Counting characters takes a tenth of the time of a pattern.
    is_ascii = text.isascii()
    has_digits = not is_ascii or sum(map(text.count, _DIGITS)) >= _OF_NUMBER
    numbers = [*_SPACED_NUMBER.finditer(text)] if has_digits else []
    for match in numbers:
        yield from _move((*read_number(match[0]), _as_written(match[0])), match.start())
    yield from _find_runs(text, {at for number in numbers for at in range(*number.span())})
    years = [*(_ASCII_YEAR if is_ascii else _YEAR).finditer(text)] if has_digits else []
    days = set[int]()
    for match in chain.from_iterable(pattern.finditer(text) for pattern in (_DATES if years else ())):
        if day := _as_date(match["y"], match["m"], match["d"]):
            days.add(match.start("y"))
            yield from _move((Form(0, len(match[0]), day, 1.0, 0.3), _as_written(match[0])), match.start())
    for match in _GROUPS.finditer(text) if has_digits else ():
        label = re.match("(?:[A-Z]+ )*", match[0])  # the name of an account, or its beginning
        for at in {0, *(each.end() for each in re.finditer(" ", label[0]))} if label else ():
            yield from _move(_read_groups(match[0][at:]), match.start() + at)
    has_sign = text[:1] == "." or any(map(text.__contains__, "+#&\u00a7")) or _HAS_POINT.search(text)
    for match in _SIGNED.finditer(text) if has_sign else ():
        yield Form(*match.span(), "".join(match[0].split()), 1.0, 0.3)
        if " " in match[0]:
            yield from _move((_as_written(match[0]),), match.start())
    yield from _find_capitals(text)
    yield from _find_months(text, (year for year in years if year.start() not in days))
    yield from _find_periods(text)
    yield from _find_measures(text)


def _find_months(text: str, years: Iterable[re.Match[str]]) -> Iterator[Form]:
    """Yield months of a year in their common form: 2024-03 for "March 2024", "03/2024" and "2024-03"."""
    for year in years:
        before = _MONTH_BEFORE.search(text, max(0, year.start() - 24), year.start())
        for match in filter(None, (before, _MONTH_AFTER.match(text, year.end()))):
            if day := _as_date(year[0], match[1], "1"):
                yield Form(min(match.start(), year.start()), max(match.end(), year.end()), day[:7], JOINED, 0.3)


def _find_periods(text: str) -> Iterator[Form]:
    """Yield quarters and weeks in their usual spelling: Q3, week 12."""
    for match in _WEEK.finditer(text):
        noun = _BEFORE_WEEK.search(text, max(0, match.start() - 16), match.start())
        if noun and fold_marks(fold(noun[1])) in _WEEKS:
            yield Form(noun.start(1), match.end(), f"week {int(match[0])}", JOINED, 1.0)
    for match in _OF_QUARTER.finditer(text) if _HAS_QUARTER.search(text) else ():
        if number := _ORDINALS.get(fold_marks(fold(match[1]))):
            yield Form(*match.span(), f"Q{number}", JOINED, 1.0)


def _find_measures(text: str) -> Iterator[Form]:
    """Yield a number with the word for a power of ten in digits ("2.5 million": 2500000), and with a unit's symbol."""
    for match in _MEASURE.finditer(text):
        written, noun = match[1], fold_marks(fold(match[2]))
        ways = {(_POWERS.get(noun, "0"), _UNITS.get(noun, ""))} - {("0", "")}
        if match[2] == "M" and match.end(1) == match.start(2):  # "$2.5M", and "2.5 m" is a length
            ways.add(("6", ""))
        readings = [written] if written.isdecimal() else [form.text for form in read_number(written)] if ways else []
        for (power, unit), number in product(ways, {Decimal(each) for each in readings}):
            yield Form(*match.span(), f"{number.scaleb(int(power)).normalize():f}{unit}", JOINED, 0.3)


def _find_runs(text: str, read: Collection[int]) -> Iterator[Form]:
    """Yield forms of words joined by signs, except runs that begin at a place already `read`."""
    end = 0
    for joint in _JOINT.finditer(text):
        if joint.start() < end:
            continue
        start = joint.start()
        while start > end and _IN_WORD.match(text, start - 1):
            start -= 1
        run = _RUN.match(text, start)
        end = run.end() if run else joint.end()
        if run and start not in read:
            yield from _move(_read_run(run[0]), start)
            for piece in re.finditer("[^_]+", run[0]) if "_" in run[0] else ():  # the day or version in a file's name
                if _RUN.fullmatch(piece[0]):
                    yield from _move(_read_run(piece[0]), start + piece.start())


def _read_groups(written: str) -> Iterator[Form]:
    """Yield the digits and capitals of a number or code in groups, joined; nothing for a text too short or long."""
    digits, size = re.sub(r"\(0\)|[^\dA-Z]", "", written), len(written)
    fewest = _FEWEST_DIGITS if _IS_NUMBER.match(written) else 3 if _IS_CODE.match(written) else size
    if " " in written and fewest <= len(digits) <= _MOST_DIGITS:
        # Without a sign at the beginning, the groups may be separate numbers, such as years.
        rest = 0.3 if _IS_SURE.match(written) else 1.0
        # A telephone number without its country code, or without the leading zero.
        own = re.sub(r"\(0\)|\D", "", written.partition(" ")[2]) if written[0] == "+" else digits.lstrip("0")
        yield from (Form(0, size, each, JOINED, rest) for each in {digits, own})
        yield _as_written(written)


def _as_written(text: str, start: int = 0) -> Form:
    """Return a unique form of the exact spelling, so the exact spelling ranks first."""
    return Form(start, start + len(text), f"={text.translate(_USUAL_SIGNS)}", WRITTEN, 1.0)


def _move(forms: Iterable[Form], by: int) -> Iterator[Form]:
    return (Form(form.start + by, form.end + by, *form[2:]) for form in forms)


@lru_cache(maxsize=2**14)
def _read_run(run: str) -> tuple[Form, ...]:
    """Return the forms of pieces joined by signs: a date, a number, or the pieces without the signs."""
    if (found := _DATE.match(run)) and (day := _read_date(found)):
        return Form(0, found.end(), day, 1.0, 0.3), _as_written(found[0])
    if found := _NUMBER.fullmatch(run):
        is_version = found[1] in {"v", "V"}  # version 2.10 is not 2.1
        if numbers := (Form(0, len(found[2]), found[2], 1.0, 0.1),) if is_version else read_number(found[2]):
            return tuple(_move((*numbers, _as_written(found[2])), found.start(2)))
        if re.search("[,\u066c\u066b]", run):
            return ()
    pieces = [Word(*match.span(), match[0]) for match in WORD.finditer(run)]
    if any(is_unspaced(piece.text) for piece in pieces):
        return ()
    if run[pieces[-1].start - 1] in "'\u2019" and pieces[-1].text.lower() in _CONTRACTED:
        del pieces[-1]
    # The article of "l'avion" is separate from the noun; "O'Brien" and "L'Oréal" stay whole.
    if len(pieces) > 1 and run[pieces[0].end] in "'\u2019" and pieces[0].end <= 2 and pieces[1].text[0].islower():
        del pieces[0]
    return tuple(_join_pieces(run, pieces))


def _join_pieces(run: str, pieces: list[Word]) -> Iterator[Form]:
    count = len(pieces)
    if count > 1:
        yield _as_written(run[pieces[0].start : pieces[-1].end], pieces[0].start)
    stretches = {(0, count), (0, count - 1)}
    stretches |= {(at, at + 2) for at in (range(count - 1) if count <= 4 else (0, count - 2))}
    for first, last in sorted(stretches):
        joined = pieces[first:last]
        if len(joined) < 2:
            continue
        start, end = joined[0].start, joined[-1].end
        text = "".join(piece.text for piece in joined).replace("_", "")
        is_time = text.isdecimal() and ":" in run[start:end]
        if not text or is_time:
            continue
        if len(text) == len(joined) and text in _SHORT:
            text = f"{text}!"  # "U.S." also counts as the word in capitals
        is_one = re.search(rf"[\n{_INVISIBLE}]", run[start:end]) is not None
        is_code = _DIGIT.search(text) is not None
        is_name = min(len(piece.text) for piece in joined) <= 2
        rest = 0.3 if is_code else 0.5 if is_name or is_one or "@" in run[start:end] else 1.0
        for each in {fold(text), fold_marks(fold(text))} - {""}:
            yield Form(start, end, each, 1.0 if is_one else JOINED, rest)


def read_number(written: str) -> tuple[Form, ...]:
    """Return a number in its common form: 1234.56. An unclear spelling has two readings."""
    plain = fold_marks(written.translate(_NUMBER_SIGNS))
    groups, signs = re.split("[., ']", plain), re.findall("[., ']", plain)
    if groups[0].startswith("0") and len(groups[0]) > 1:
        return ()
    readings: list[str] = []
    if len(set(signs)) == 1 and _is_grouped(groups) and "\u066b" not in written:
        readings.append("".join(groups))
    thousands, last = {*signs[:-1]}, signs[-1]
    if last in ".," and last not in thousands and (not thousands or (len(thousands) == 1 and _is_grouped(groups[:-1]))):
        whole, decimals = "".join(groups[:-1]), groups[-1].rstrip("0")
        if decimals or not readings:
            readings.append(f"{whole}.{decimals}" if decimals else whole)
        if decimals != groups[-1]:
            readings.append(f"{whole}.{groups[-1]}")
    is_sure = len(readings) == 1 or "".join(groups) not in readings
    return tuple(Form(0, len(written), each, 1.0 if is_sure else UNSURE, 0.1) for each in readings)


def _is_grouped(groups: list[str]) -> bool:
    """Return whether digits are in groups of three, or, as in India, of three with pairs before."""
    first, *middle, last = map(len, groups)
    return groups[0] != "0" and first <= 3 and last == 3 and {*middle} in ({3}, {2}, set())


def _read_date(found: re.Match[str]) -> str | None:
    """Return the day of an unambiguous date in digits: ISO 8601, with points, or with a day after the 12th."""
    year, _, month, day, first, sign, second, last = found.groups()
    if year:
        return _as_date(year, month, day)
    ways = {_as_date(last, second, first), _as_date(last, first, second)} - {None}
    return _as_date(last, second, first) or ways.pop() if ways and (sign == "." or len(ways) == 1) else None


def _as_date(year: str, month: str, day: str) -> str | None:
    with suppress(ValueError):
        number = int(month) if month.isdecimal() else _MONTHS.get(fold_marks(fold(month)), 0)
        return date(int(year), number, int(day)).isoformat() if int(year) > 999 else None
    return None


def _find_capitals(text: str) -> Iterator[Form]:
    """Yield short words in capitals with no meaning in small letters, and letters next to a noun: Plan A."""
    for match in _CAPITALS.finditer(text):
        if match[0] not in _SHORT:
            continue
        before, after = text[max(0, match.start() - 200) : match.start()], text[match.end() : match.end() + 200]
        line = " ".join([before.rpartition("\n")[2], after.partition("\n")[0]])
        if _HAS_SMALL.search(line) or not _HAS_OTHER.search(line):
            yield Form(*match.span(), f"{match[0]}!", 1.0, 0.3)
    for match in _LETTER.finditer(text):
        noun = _NOUN_BEFORE.search(text, max(0, match.start() - 24), match.start())
        if noun and (noun[1].istitle() or match[1] != "I") and noun[1].lower() not in QUERY_STOP_WORDS:
            yield Form(noun.start(1), match.end(), f"{noun[1]} {match[1]}", 1.0, 1.0)


def find_apart(text: str) -> Iterator[Form]:
    """Yield codes and amounts that a text has in two pieces ("5 GB"), for marking: the index has only the pieces."""
    for match in _APART.finditer(text) if _DIGIT.search(text) else ():
        before = _BEFORE.search(text, max(0, match.start() - 9), match.start())
        after = _AFTER.match(text, match.end())
        if before and after and _NOT_IN_CODES.isdisjoint((before[0], after[1])):
            for end in {after.end(1), after.end()}:  # also "100 km/h"
                yield Form(before.start(), end, re.sub(r"\W", "", text[before.start() : end]), JOINED)


def _respell(query: str) -> Iterator[Form]:
    """Yield other spellings that a text may have of a time, a fraction, a numeral, or a telephone number."""
    for match in _SPELLED.finditer(query):
        first, sign, last = match["first"], match["sign"], match["last"]
        spellings = [f"{first}\u2044{last}"] if sign == "/" else []
        spellings += [f"{first}x{last}", f"={first}/{last}"] if sign in "/x\u00d7" else []  # 24/7, 24x7
        hour = int(first)
        if sign in ":.hH" and hour < 25 and len(last) == 2 and last < "60":
            other = hour - 12 if hour > 12 or not _IS_AFTERNOON.match(query, match.end()) else hour + 12
            hours = {first, str(hour), f"{hour:02}", *([str(other)] if other > 0 else ())}
            spellings = [each for at in sorted(hours) for each in (f"={at}:{last}", f"={at}.{last}", f"{at}h{last}")]
        yield from (Form(*match.span(), text, JOINED, 1.0) for text in spellings)
    for match in _TELEPHONE.finditer(query):
        yield Form(*match.span(), re.sub(r"\D", "", match[0]).lstrip("0"), JOINED, 1.0)
    for match in _FRACTION.finditer(query):
        yield Form(*match.span(), "=" + unicodedata.normalize("NFKC", match[0]).replace("\u2044", "/"), JOINED, 1.0)
    for match in _NUMERAL.finditer(query):  # "chapter 4", "chapter IV"
        roman, number = match.groups()
        other = str(_ARABIC.get(roman.upper(), "")) if roman else _ROMAN[int(number)]
        if other and len(roman or other) > 1:
            yield Form(*match.span(), other, JOINED, 1.0)
        elif other and number and (noun := _NOUN_BEFORE.search(query, max(0, match.start() - 25), match.start() - 1)):
            yield Form(noun.start(1), match.end(), f"{noun[1]} {other}", JOINED, 1.0)


def join_neighbours(query: str, words: list[Word]) -> Iterator[Form]:
    """Yield a query's words as if joined ("wi fi": wifi), and a small letter next to a noun; not indexed in texts."""
    spaced = [query[word.end : other.start].isspace() for word, other in pairwise(words)]
    for first, size in product(range(len(words)), (2, 3, 4)):
        joined = words[first : first + size]
        if len(joined) < size or not all(spaced[first : first + size - 1]):
            continue
        texts = [word.text for word in joined]
        text = "".join(texts)
        is_code = _DIGIT.search(text) is not None and not text.isdecimal()
        is_stop = all(each.lower() in QUERY_STOP_WORDS for each in texts) or texts[0] in {"a", "i", "A", "I"}
        if (size == 2 or is_code) and not is_stop:
            yield Form(joined[0].start, joined[-1].end, text, 0.7 if is_code else NEIGHBOURS, 1.0)
        noun, letter = texts[0], texts[-1]
        if size == 2 and len(letter) == 1 and letter.islower() and len(noun) > 2:
            is_label = letter not in QUERY_STOP_WORDS or first + size == len(words)
            if is_label and noun.lower() not in QUERY_STOP_WORDS:
                yield Form(joined[0].start, joined[-1].end, f"{noun} {letter}", 1.0, 1.0)
    yield from _respell(query)
    if len(words) == 1 and words[0].text in _ALSO_NAMES:
        yield Form(words[0].start, words[0].end, f"{words[0].text.upper()}!", 1.0, 0.3)
    for word in words:
        pieces = list(_BORDER.finditer(word.text)) if not word.text.isdecimal() else []
        for first, size in product(range(len(pieces)), (2, 3)):
            if size < len(pieces) <= 5 and first + size <= len(pieces):
                text = word.text[pieces[first].start() : pieces[first + size - 1].end()]
                yield Form(word.start, word.end, text, BORDER)
