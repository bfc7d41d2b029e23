"""The built-in model's phrases in the question's language, which grammar words or letters identify."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.domains.search.understanding.folding import fold
from service.index.tokenization import WORD
from service.text.languages import ENGLISH, tell_language


@dataclass(frozen=True, slots=True)
class Phrases:
    """Phrases in a language. `nothing_answers` fits any reason, `nothing_about` a part of a question; `closest`
    and `closest_passage` introduce possible help; `more_items` counts what is left out of a list. `grammar` has typical
    words, `numbers` words' values; `refusing` finds refusals."""

    nothing_answers: str
    nothing_about: str
    closest: str
    closest_passage: str
    more_items: str
    source: str
    section: str
    welcome: str
    you_are_welcome: str
    ability: str
    greetings: frozenset[str]
    thanks: frozenset[str]
    ability_questions: frozenset[str]
    grammar: frozenset[str]
    numbers: Mapping[str, int]
    refusing: re.Pattern[str]


_NUMBERS = (*range(1, 21), *range(30, 100, 10), 100, 1000)


def _read_phrases(section: Mapping[str, Any]) -> Phrases:
    members = dict(section)
    greets, asks = _fold_all(members.pop("greetings")), _fold_all(members.pop("well_being"))
    greetings = greets | asks | {f"{greeting} {question}" for greeting in greets for question in asks}
    grammar = _fold_all(members.pop("grammar").split())
    numbers = {word: value for word, value in zip(members.pop("numbers").split(), _NUMBERS, strict=True) if word != "-"}
    refusing = re.compile(rf"\b(?:{members.pop('refusing')})", re.IGNORECASE)
    read: dict[str, Any] = {name: each if isinstance(each, str) else _fold_all(each) for name, each in members.items()}
    return Phrases(greetings=greetings, grammar=grammar, numbers=numbers, refusing=refusing, **read)


def _fold_all(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_plain, phrases))


def _plain(text: str) -> str:
    return " ".join(WORD.findall(fold(text)))


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_bytes().decode())
PHRASES: Mapping[str, Phrases] = {code: _read_phrases(section) for code, section in _TEXTS.items()}
"""By ISO 639-1 language code."""

_CLAUSE = re.compile(r"[^,.!:;\n]{1,40}(?:[,.!:;\n]+|\Z)")


def phrases_of(question: str) -> Phrases:
    """Return the phrases of a question's language. May take a second, so run in a thread."""
    return PHRASES[language_of(question)]


def language_of(question: str) -> str:
    """Return the language with phrases that a question is most likely in, as a code. May take a second."""
    words = _plain(question).split()
    hits = {code: sum(word in phrase.grammar for word in words) for code, phrase in PHRASES.items()}
    most = max(hits.values())
    likely = [code for code, count in hits.items() if count == most]
    if most and len(likely) == 1:
        return likely[0]
    told = tell_language([question])
    return told if told in likely else ENGLISH


def drop_greeting(message: str) -> str:
    """Return a message without the opening greeting ("Hello, when …"); a greeting alone stays."""
    bare = message.lstrip()
    clause = _CLAUSE.match(bare)
    if clause is None or not any(_plain(clause[0]) in phrase.greetings for phrase in PHRASES.values()):
        return message
    rest = bare[clause.end() :].lstrip()
    return rest if _plain(rest) else message


def answer_small_talk(message: str) -> str | None:
    """Return the reply to a mere greeting, thanks, or question about possible questions; None for other messages."""
    # Compare the whole message first, because its greeting tells the language of "como está".
    for said in (_plain(message), _plain(drop_greeting(message))):
        for its in PHRASES.values():
            known = {its.welcome: its.greetings, its.you_are_welcome: its.thanks, its.ability: its.ability_questions}
            for reply, messages in known.items():
                if said in messages:
                    return reply
    return None
