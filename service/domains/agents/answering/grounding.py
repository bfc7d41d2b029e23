"""Measure by rules how far cited passages support a reply, and find unsupported numbers and names. A supported sentence
shares all numbers and two thirds of the other words with its passages or, uncited, with any single passage."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.domains.agents.answering.phrases import PHRASES, phrases_of
from service.index.forms import find_forms, read_number
from service.index.stemming import ENGLISH, stemming_of
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.terms import count_terms, term_of
from service.index.tokenization import WORD, fold, split_words
from service.text.languages import ENGLISH as IN_ENGLISH
from service.text.languages import tell_language
from service.text.sentences import cut_lines, cut_sentences

ENOUGH = 2 / 3
"""The share of a sentence's words needed in the passages."""
FEWEST_WORDS = 2
_ALIKE, _FEWEST_ALIKE, _MOST_CITED, _LONGEST_READ = 0.8, 4, 8, 40_000
"""The share, and the number, of words that two sentences share for a negation in only one to contradict the other."""

# Bounded, so that a text of many points or spaces takes linear time.
_CITATION = re.compile(r"\s{0,4}\[(\d{1,4})\]")
_ENDS = ".!?…。！？"  # noqa: RUF001 - the punctuation of many scripts
_CITED_AFTER_END = re.compile(rf"(?<![{_ENDS}])([{_ENDS}]{{1,8}})((?:\s{{0,4}}\[\d{{1,4}}\])+)")
_SPACES = re.compile(r"[^\S\n]+")
_MARKS = re.compile(r"\A(?:\s|>|[-*+•] |\d+[.)] )+")
_NUMBER = re.compile(r"\d+")
_FIGURES = re.compile(r"\d(?:[\d.,'’\u00a0\u202f]{0,40}\d)?")  # noqa: RUF001 - separators of many languages
_CLAUSE_ENDS = re.compile(r"[,;:–—] ")  # noqa: RUF001 - likewise
_HUNDRED, _THOUSAND = 100, 1000
# Names within a sentence: first words, and words after a colon or a quotation mark, have a capital anyway.
_NAME = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]*[^\W\d_A-ZÀ-Þ][^\W\d_]*"
_CAPITALIZED = re.compile(rf"(?<=[\w,;)] )\b{_NAME}(?:[ -]{_NAME})*")
_CAPITAL_NOUNS = frozenset({"de", "lb"})
_LANGUAGES = re.compile(
    r"\b(?:translat|übersetz|tradu|vertaal|language|sprache|langue|idioma|lingua|english|german|french|spanish|italian|dutch"
    r"|portuguese|turkish|polish|chinese|englisch|deutsch|französisch|spanisch|anglais|allemand|français|inglés|español)",
    re.IGNORECASE,
)
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_UNITS = {word: number for number, words in enumerate(_WORDS["units"]["words"]) for word in words.split()}
_NEGATIONS = {code: re.compile(pattern, re.IGNORECASE) for code, pattern in _WORDS["negations"].items()}
_TURNS = {code: re.compile(pattern, re.IGNORECASE) for code, pattern in _WORDS["turns"].items()}
# A unit follows its number; a currency's sign or code may come first.
_UNIT_AFTER = re.compile(r"[ \u00a0-]?([€$£¥%]|[^\W\d_]+)")
_CURRENCY_BEFORE = re.compile(r"([€$£¥]|\b(?:EUR|USD|GBP|CHF|JPY)\b)[ \u00a0]?\Z")
_NO_STATEMENT = (":", "?", "？")  # noqa: RUF001 - likewise


def measure_groundedness(reply: str, passages: Mapping[int, str]) -> float | None:
    """Return the supported share of a reply's sentences; None without sentences. `passages` are by citation number."""
    if not passages:
        return None
    stemming = stemming_of(tell_language(list(passages.values())), default=ENGLISH)
    known = {
        number: (frozenset(_NUMBER.findall(text)), frozenset(count_terms(text, stemming)))
        for number, text in passages.items()
    }
    supported: list[bool] = []
    own = phrases_of(reply)
    said = re.sub(own.more_items.format(r"\d+"), "", reply.removeprefix(own.closest))
    for numbers, terms, cited in _read_statements(said, stemming):
        of_it = [known[number] for number in cited if number in known]
        figures, words = [has for has, _ in of_it], [of for _, of in of_it]
        together = frozenset[str]().union(*figures), frozenset[int]().union(*words)
        choices = [together] if of_it else known.values()
        supported.append(any(numbers <= has and len(terms & of) >= ENOUGH * len(terms) for has, of in choices))
    return sum(supported) / len(supported) if supported else None


def _read_statements(reply: str, stemming: str) -> Iterator[tuple[frozenset[str], frozenset[int], list[int]]]:
    """Yield the numbers, terms and citations of each sentence that is a statement."""
    for bare, cited in _sentences(reply):
        terms = frozenset(term_of(word, stemming) for word in _content_words(bare) if not word.isdigit()) - {0}
        numbers = frozenset(_NUMBER.findall(bare))
        if not bare.endswith(_NO_STATEMENT) and (numbers or len(terms) >= FEWEST_WORDS):
            yield numbers, terms, cited


def _content_words(text: str) -> list[str]:
    return [word for word in split_words(text) if fold(word) not in QUERY_STOP_WORDS]


def _sentences(reply: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the sentences below headings, without list marks and citations, each with the numbers cited."""
    for line in cut_lines(_CITED_AFTER_END.sub(r"\2\1", _SPACES.sub(" ", reply))):
        text = _MARKS.sub("", line.text)
        for sentence in cut_sentences("" if text.startswith("#") else text):
            cited = [int(number) for number in _CITATION.findall(sentence.text)]
            yield _CITATION.sub("", sentence.text).strip(" *_"), cited


def needs_source(reply: str) -> bool:
    """Return whether a reply needs a document as its source. Refusals and plain courtesies don't."""
    statements = [text for text, _ in _sentences(reply) if any(_read_statements(text, ENGLISH))]
    clauses = [clause for text in statements for clause in _CLAUSE_ENDS.split(text) if _NUMBER.search(clause)]
    return not all(map(_refuses, clauses)) or (bool(statements) and not _refuses(reply))


def _refuses(text: str) -> bool:
    return any(each.refusing.search(text) for each in PHRASES.values())


def is_in_another_language(reply: str, *, asked: Sequence[str]) -> bool:
    """Return whether a reply is in another language than the message, if message and instructions name no language."""
    if any(_LANGUAGES.search(text) for text in asked):
        return False
    told, wanted = tell_language([_CITATION.sub("", reply)]), tell_language(asked[:1])
    return None not in {told, wanted} and told != wanted


def find_unsupported(
    reply: str, passages: Mapping[int, str], *, uncited: Sequence[str] = (), known: str = ""
) -> dict[int, list[str]]:
    """Return, by citation, numbers and names missing from the passages. All words before a removed citation (`uncited`)
    must be in a passage; names `known` from the question are exempt."""
    if not passages:
        return {}
    phrases, language = phrases_of(reply), tell_language([reply]) or IN_ENGLISH
    written_in = tell_language(list(passages.values())) or IN_ENGLISH
    stemming = stemming_of(written_in, default=ENGLISH)
    terms = {number: frozenset(count_terms(f"{text}\n{known}", stemming)) for number, text in passages.items()}
    units = {number: _units(text, phrases.numbers) for number, text in passages.items()}
    values = {
        number: units[number].keys() | {form.text for form in find_forms(text)} for number, text in passages.items()
    }
    found: dict[int, list[str]] = {}
    for said, numbers in _sentences(reply):
        text = said
        cited = [number for number in numbers if number in passages] or list(passages)
        near = frozenset[int]().union(*(terms[number] for number in cited))
        stand = frozenset[str]().union(*(values[number] for number in cited))
        for form in find_forms(said):
            if form.share == 1 and form.text in stand:  # the same date or number in another spelling
                text = f"{text[: form.start]}{' ' * (form.end - form.start)}{text[form.end :]}"
        figures = _figures(text, phrases.numbers)
        lacking = [text[start:end] for start, end, readings in figures if readings.isdisjoint(stand)]
        lacking += _other_units(said, [units[number] for number in cited], phrases.numbers)
        names = [*_names(text, near, stemming, nouns=language in _CAPITAL_NOUNS)] if language == written_in else []
        found.setdefault(cited[0], []).extend([*lacking, *names])
    every = frozenset[int]().union(*terms.values())
    lost = [word for text in uncited for word in _content_words(text)]
    found.setdefault(min(passages), []).extend(word for word in lost if _lacks(word, every, stemming))
    return {number: list(dict.fromkeys(words)) for number, words in found.items() if words}


def _lacks(word: str, terms: frozenset[int], stemming: str) -> bool:
    return term_of(word, stemming) not in terms | {0}


def find_contradicted(reply: str, passages: Mapping[int, str]) -> dict[int, list[str]]:
    """Return, by citation, sentences that have the words of a sentence of their passages, and a negation in only one
    of the two. Of each, the longest clause counts: "No problem: it is open". None for long texts and some languages."""
    language = tell_language(list(passages.values())) or IN_ENGLISH
    if language not in _NEGATIONS or any(len(text) > _LONGEST_READ for text in (reply, *passages.values())):
        return {}
    clauses: dict[str, list[_Clause]] = {}
    for text in set(passages.values()):
        clauses[text] = [_Clause.read(sentence, language) for sentence, _ in _sentences(text)]
    found: dict[int, list[str]] = {}
    for said, numbers in _sentences(reply):
        cited = [number for number in numbers if number in passages][:_MOST_CITED]
        own = _Clause.read(said, language)
        known = [clause for text in {passages[number] for number in cited} for clause in clauses[text]]
        if len(own.terms) >= _FEWEST_ALIKE and not own.turns and own.is_opposed(known):
            found.setdefault(cited[0], []).append(said)
    return found


@dataclass(frozen=True, slots=True)
class _Clause:
    """The terms of a sentence's longest clause, whether it is negated, and whether the sentence turns ("but")."""

    terms: frozenset[int]
    is_negated: bool
    turns: bool

    @classmethod
    def read(cls, sentence: str, language: str) -> "_Clause":
        clause, stemming = max(_CLAUSE_ENDS.split(sentence), key=len), stemming_of(language, default=ENGLISH)
        bare = _NEGATIONS[language].sub(" ", clause)
        terms = frozenset(term_of(word, stemming) for word in _content_words(bare)) - {0}
        return cls(terms, bare != clause, _TURNS[language].search(sentence) is not None)

    def is_opposed(self, others: Sequence["_Clause"]) -> bool:
        """Return whether a much alike clause is negated otherwise, and no near clause is negated likewise."""
        near = [other for other in others if len(self.terms & other.terms) >= ENOUGH * len(self.terms)]
        if any(other.turns or other.is_negated is self.is_negated for other in near):
            return False
        return any(len(self.terms & other.terms) >= _ALIKE * max(len(self.terms), len(other.terms)) for other in near)


def _other_units(
    said: str, passages: Sequence[Mapping[str, set[int | None]]], words: Mapping[str, int]
) -> Iterator[str]:
    """Yield the numbers of a sentence that have another unit in all the passages, as "12 euros" for "12 %"."""
    for start, end, readings in _figures(said, words):
        unit, whole = _unit(said, start, end)
        held = {each for known in passages for reading in readings for each in known.get(reading, ())}
        if unit is not None and held and not held & {unit, None}:
            yield whole


def _units(text: str, words: Mapping[str, int]) -> dict[str, set[int | None]]:
    """Return the units of each number in a text, by its readings; None: a number without a known unit."""
    found = defaultdict[str, set[int | None]](set)
    for start, end, readings in _figures(text, words):
        for reading in readings:
            found[reading].add(_unit(text, start, end)[0])
    return found


def _unit(text: str, start: int, end: int) -> tuple[int | None, str]:
    """Return the unit of the number at this place, and the number with it."""
    if before := _CURRENCY_BEFORE.search(text[max(start - 5, 0) : start]):
        return _UNITS[before[1].lower()], f"{before[0]}{text[start:end]}"
    after = _UNIT_AFTER.match(text, end)
    unit = _UNITS.get(after[1].lower()) if after else None
    return unit, text[start : after.end() if after and unit is not None else end]


def _figures(text: str, words: Mapping[str, int]) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield the place of each number in a text, in figures or words, with all readings ("1,500" has two)."""
    for match in _FIGURES.finditer(text):
        groups = [str(int(group)) for group in _NUMBER.findall(match[0])]
        readings = [form.text for form in read_number(match[0])] if len(groups) > 1 else []
        if match[0] != "00":  # the minutes of a whole hour
            yield match.start(), match.end(), frozenset(readings or [".".join(groups)])
    run: list[re.Match[str]] = []
    for match in [*WORD.finditer(text), None]:
        if match and fold(match[0]) in words and (not run or len(text[run[-1].end() : match.start()].strip(" -")) == 0):
            run.append(match)
            continue
        whole = part = 0
        for each in run:
            value = words[fold(each[0])]
            part = max(part, 1) * value if value >= _HUNDRED else part + value
            whole, part = (whole + part, 0) if value == _THOUSAND else (whole, part)
        # "One" is often not a number.
        if whole + part > 1:
            yield run[0].start(), run[-1].end(), frozenset({str(whole + part)})
        run = [match] if match and fold(match[0]) in words else []


def _names(said: str, terms: frozenset[int], stemming: str, *, nouns: bool) -> Iterator[str]:
    """Yield a sentence's names missing from the passages. Where all `nouns` have capitals, a name needs two words."""
    for match in _CAPITALIZED.finditer(said):
        missing = [_lacks(word, terms, stemming) for word in WORD.findall(match[0])]
        if (len(missing) > 1 and all(missing)) if nouns else any(missing):
            yield match[0]
