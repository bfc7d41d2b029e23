"""The complete question of a message that depends on the message before."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from service.index.stemming import ENGLISH
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.terms import read_query
from service.index.tokenization import WORD

MOST_BEFORE = 3
FEW_WORDS = 2
MOST_NEW_WORDS = 4  # the most new words of a short message that replaces words of the previous message
_LONGEST = 200

_PHRASE = re.compile(rf"{WORD.pattern}(?:[-\u2010\u2011'\u2019]{WORD.pattern})*")
_SET = tomllib.loads(Path(__file__).with_suffix(".toml").read_bytes().decode())
_GOES_ON, _POINTS_BACK, _VERBS, _ASKS, _ASKS_ELSEWHERE, _OF_ANOTHER, _SAYS_NOTHING = (
    frozenset(_SET[name].split())
    for name in ("goes_on", "points_back", "verbs", "asks", "asks_elsewhere", "of_another", "says_nothing")
)
_WHAT_ABOUT: list[list[str]] = [each.split() for each in _SET["what_about"]]
_WHAT_IS = (["what", "is"], ["what", "are"])


def complete_question(messages: Sequence[str]) -> str:
    """Return the newest (last) message, with earlier messages as long as each refers back."""
    if not messages:
        return ""
    *before, newest = messages
    parts = [newest]
    for message in reversed(before[-MOST_BEFORE:]):
        if not leans_on_another(parts[0]):
            break
        parts.insert(0, message)
    return " ".join(parts)


def leans_on_another(message: str) -> bool:
    """Return whether a message depends on earlier messages: "and how long does it take?", "why?"."""
    words = [word.lower() for word in WORD.findall(message)]
    if not words:
        return False
    telling = read_query(message, (ENGLISH,)).words
    if words[0] == "and" and _asks_by_itself(words[1:], telling):
        return False
    if words[0] in _GOES_ON or _skip_what_about(words) != words:
        return True
    if words[0] in _ASKS and len(telling) <= FEW_WORDS and len(words) <= 2 * FEW_WORDS:
        return True
    return not _POINTS_BACK.isdisjoint(words)


def _asks_by_itself(words: Sequence[str], telling: Sequence[str]) -> bool:
    """Return whether words after "and" are a whole question ("what is overtime?"), unlike "what is the limit?"."""
    if not _POINTS_BACK.isdisjoint(words) or _VERBS.isdisjoint(words):
        return False
    names_it = any(not word.endswith("ed") and word not in _OF_ANOTHER for word in telling)
    if words[:2] in _WHAT_IS and "the" not in words:
        return names_it and not QUERY_STOP_WORDS.issuperset(telling)
    return len(telling) > FEW_WORDS or (words[0] in _ASKS and len(telling) == FEW_WORDS and "the" in words)


def _skip_what_about(words: list[str]) -> list[str]:
    """Return the words after "what about" or an equivalent in other languages."""
    known = next((each for each in _WHAT_ABOUT if words[: len(each)] == each), list[str]())
    return words[len(known) :]


def find_new_words(message: str) -> list[str]:
    """Return the new words of a message that refers back ("and part-time?"); empty above `MOST_NEW_WORDS`."""
    written = {word.lower(): word for word in reversed(_PHRASE.findall(message[:_LONGEST]))}
    words = [word.lower() for word in _PHRASE.findall(message[:_LONGEST])]
    if not words or len(message) > _LONGEST or not leans_on_another(message):
        return []
    behind = words[1:] if words[0] in _GOES_ON else words
    rest = _skip_what_about(behind)
    if rest == behind and words[0] in _GOES_ON and rest[:2] in _WHAT_IS and "the" in rest:
        rest = rest[2:]
    if rest == words or not (_ASKS | _ASKS_ELSEWHERE | _VERBS | _POINTS_BACK).isdisjoint(rest):
        return []
    new = dict.fromkeys(word for word in rest if word not in _SAYS_NOTHING | QUERY_STOP_WORDS)
    return [written[word] for word in new] if len(new) <= MOST_NEW_WORDS else []
