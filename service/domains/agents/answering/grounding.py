"""Measure by rules how far cited passages support a reply, and find unsupported numbers and names. A supported sentence
shares all numbers and two thirds of the other words with its passages or, uncited, with any single passage."""

import re
from collections.abc import Iterator, Mapping, Sequence

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

# Bounded, so that the time they take is linear in a text of nothing but points or spaces.
_CITATION = re.compile(r"\s{0,4}\[(\d{1,4})\]")
_ENDS = ".!?…。！？"  # noqa: RUF001 - the punctuation of many scripts
_CITED_AFTER_END = re.compile(rf"(?<![{_ENDS}])([{_ENDS}]{{1,8}})((?:\s{{0,4}}\[\d{{1,4}}\])+)")
_SPACES = re.compile(r"[^\S\n]+")
_MARKS = re.compile(r"\A(?:\s|>|[-*+•] |\d+[.)] )+")
_NUMBER = re.compile(r"\d+")
_FIGURES = re.compile(r"\d(?:[\d.,'’\u00a0\u202f]{0,40}\d)?")  # noqa: RUF001 - separators of many languages
_CLAUSE_ENDS = re.compile(r"[,;:–—] ")  # noqa: RUF001 - likewise
_HUNDRED, _THOUSAND = 100, 1000
# Within a sentence: its first word has a capital in any case, and so has what follows a colon or a quotation mark.
_NAME = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]*[^\W\d_A-ZÀ-Þ][^\W\d_]*"
_CAPITALIZED = re.compile(rf"(?<=[\w,;)] )\b{_NAME}(?:[ -]{_NAME})*")
_CAPITAL_NOUNS = frozenset({"de", "lb"})
_LANGUAGES = re.compile(
    r"\b(?:translat|übersetz|tradu|vertaal|language|sprache|langue|idioma|lingua|english|german|french|spanish|italian|dutch"
    r"|portuguese|turkish|polish|chinese|englisch|deutsch|französisch|spanisch|anglais|allemand|français|inglés|español)",
    re.IGNORECASE,
)
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
    for numbers, terms, cited in _statements(said, stemming):
        of_it = [known[number] for number in cited if number in known]
        figures, words = [has for has, _ in of_it], [of for _, of in of_it]
        together = frozenset[str]().union(*figures), frozenset[int]().union(*words)
        choices = [together] if of_it else known.values()
        supported.append(any(numbers <= has and len(terms & of) >= ENOUGH * len(terms) for has, of in choices))
    return sum(supported) / len(supported) if supported else None


def _statements(reply: str, stemming: str) -> Iterator[tuple[frozenset[str], frozenset[int], list[int]]]:
    for bare, cited in _sentences(reply):
        words = [word for word in split_words(bare) if fold(word) not in QUERY_STOP_WORDS]
        terms = frozenset(term_of(word, stemming) for word in words if not word.isdigit()) - {0}
        numbers = frozenset(_NUMBER.findall(bare))
        if not bare.endswith(_NO_STATEMENT) and (numbers or len(terms) >= FEWEST_WORDS):
            yield numbers, terms, cited


def _sentences(reply: str) -> Iterator[tuple[str, list[int]]]:
    for line in cut_lines(_CITED_AFTER_END.sub(r"\2\1", _SPACES.sub(" ", reply))):
        text = _MARKS.sub("", line.text)
        for sentence in cut_sentences("" if text.startswith("#") else text):
            cited = [int(number) for number in _CITATION.findall(sentence.text)]
            yield _CITATION.sub("", sentence.text).strip(" *_"), cited


def needs_source(reply: str) -> bool:
    """Return whether a reply needs a document as its source. Refusals and plain courtesies don't."""
    statements = [text for text, _ in _sentences(reply) if any(_statements(text, ENGLISH))]
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
    """Return, by citation, the sentences' numbers and names missing from the passages. All words before a removed
    citation (`uncited`) must be in a passage; names `known` from the question are exempt."""
    if not passages:
        return {}
    phrases, language = phrases_of(reply), tell_language([reply]) or IN_ENGLISH
    written_in = tell_language(list(passages.values())) or IN_ENGLISH
    stemming = stemming_of(written_in, default=ENGLISH)
    terms = {number: frozenset(count_terms(f"{text}\n{known}", stemming)) for number, text in passages.items()}
    values = {
        number: frozenset(form.text for form in find_forms(text)).union(*_values(text, phrases.numbers).values())
        for number, text in passages.items()
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
        lacking = [figure for figure, read in _values(text, phrases.numbers).items() if read.isdisjoint(stand)]
        names = [*_names(text, near, stemming, nouns=language in _CAPITAL_NOUNS)] if language == written_in else []
        found.setdefault(cited[0], []).extend([*lacking, *names])
    every = frozenset[int]().union(*terms.values())
    lost = [word for text in uncited for word in split_words(text) if fold(word) not in QUERY_STOP_WORDS]
    found.setdefault(min(passages), []).extend(word for word in lost if _lacks(word, every, stemming))
    return {number: list(dict.fromkeys(words)) for number, words in found.items() if words}


def _lacks(word: str, terms: frozenset[int], stemming: str) -> bool:
    return term_of(word, stemming) not in terms | {0}


def _values(text: str, words: Mapping[str, int]) -> dict[str, frozenset[str]]:
    """Return the numbers in a text, in figures or words, as written, with all readings ("1,500" has two)."""
    found: dict[str, frozenset[str]] = {}
    for match in _FIGURES.finditer(text):
        groups = [str(int(group)) for group in _NUMBER.findall(match[0])]
        readings = [form.text for form in read_number(match[0])] if len(groups) > 1 else []
        if match[0] != "00":  # the minutes of a whole hour
            found[match[0]] = frozenset(readings or [".".join(groups)])
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
        # "One" is as often no number.
        if whole + part > 1:
            found[text[run[0].start() : run[-1].end()]] = frozenset({str(whole + part)})
        run = [match] if match and fold(match[0]) in words else []
    return found


def _names(said: str, terms: frozenset[int], stemming: str, *, nouns: bool) -> Iterator[str]:
    """Yield a sentence's names missing from the passages. Where all `nouns` have capitals, a name needs two words."""
    for match in _CAPITALIZED.finditer(said):
        missing = [_lacks(word, terms, stemming) for word in WORD.findall(match[0])]
        if (len(missing) > 1 and all(missing)) if nouns else any(missing):
            yield match[0]
