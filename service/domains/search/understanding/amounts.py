"""Numbers for comparison in a question ("more than 20", "between 10,000 and 50,000 EUR"), and their units."""

import re
from dataclasses import dataclass

from carrel.wire.search import FilterOperator
from service.domains.search.understanding.folding import WORDS

_BY_WORDS = {words: FilterOperator[name] for name, each in WORDS["comparisons"].items() for words in each}
_TIMES = {"k": 1e3, "thousand": 1e3, "million": 1e6, "millions": 1e6, "billion": 1e9}


@dataclass(frozen=True, slots=True)
class MeasuredUnit:
    measure: str
    factor: float


_UNITS = {
    name: MeasuredUnit(measure, factor) for measure, units in WORDS["units"].items() for name, factor in units.items()
}

_NUMBER = r"\d+(?:[.,]\d+)*(?: (?:k|thousand|millions?|billion))?"
UNIT = rf"(?:{'|'.join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))})s?"
COMPARED = (
    rf"(?:(?P<operator>{'|'.join(sorted(_BY_WORDS, key=len, reverse=True))}) (?:(?P<sign>[€$£]) )?(?P<number>{_NUMBER})"
    rf"|between (?P<low>{_NUMBER}) and (?P<high>{_NUMBER}))"
)
"""Pattern of a comparison with a number, in a line of folded words."""


def unit_of(word: str | None) -> MeasuredUnit | None:
    return (_UNITS.get(word) or _UNITS.get(word.removesuffix("s"))) if word else None


def read_bounds(match: re.Match[str], *, times: float, whole: bool) -> list[tuple[FilterOperator, str]] | None:
    """Read a match of COMPARED, multiplied by `times`. None for an uncertain number, or a fraction when `whole`."""
    if match["operator"]:
        texts = [(_BY_WORDS[match["operator"]], match["number"])]
    else:
        texts = [(FilterOperator.GREATER_OR_EQUAL, match["low"]), (FilterOperator.LESS_OR_EQUAL, match["high"])]
    bounds: list[tuple[FilterOperator, str]] = []
    for operator, text in texts:
        number = _read_number(text)
        value = None if number is None else round(number * times, 9)
        if value is None or (whole and not value.is_integer()):
            return None
        bounds.append((operator, str(int(value)) if value.is_integer() else repr(value)))
    return bounds


def _read_number(text: str) -> float | None:
    digits, _, word = text.partition(" ")
    if "," in digits and not re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits):
        return None
    if digits.count(".") > 1 or len(digits) > 15:
        return None
    return float(digits.replace(",", "")) * _TIMES.get(word, 1)
