"""What a message asks that leans on the one before it."""

import re
from collections.abc import Sequence

from service.index.stemming import ENGLISH
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.terms import query_words
from service.index.tokenization import WORD

MOST_BEFORE = 3
FEW_WORDS = 2

_PHRASE = re.compile(rf"{WORD.pattern}(?:[-\u2010\u2011'\u2019]{WORD.pattern})*")
_GOES_ON = frozenset({"also", "and", "aber", "but", "else", "et", "oder", "or", "so", "then", "und", "y"})
_POINTS_BACK = frozenset(
    {"he", "her", "his", "it", "its", "she", "that", "their", "them", "these", "they", "this", "those"}
)
_VERBS = frozenset(
    {"am", "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might", "must", "should"}
    | {"was", "were", "will", "would"}
)
_ASKS = frozenset({"how", "what", "when", "where", "which", "who", "whom", "whose", "why"})
_WHAT_IS = (["what", "is"], ["what", "are"])
_GERMAN_ASKS = "wann warum was welche welcher welches wem wen wer wie wieso wo woher wohin"
_FRENCH_ASKS = "combien comment où pourquoi quand quel quelle quels quelles qui quoi"
_SPANISH_ASKS = "cómo cuál cuáles cuándo cuánta cuánto cuántos dónde qué quién"
_ASKS_ELSEWHERE = frozenset(f"{_GERMAN_ASKS} {_FRENCH_ASKS} {_SPANISH_ASKS}".split())
_GERMAN_GRAMMAR = "am an auf bei das dem den der des die ein eine einem einen einer für im mit noch und von zu zum zur"
_FRENCH_GRAMMAR = "au aux avec dans de des du en est la le les pour sont sur un une"
_SPANISH_GRAMMAR = "con del el es las los para por son"
_GRAMMAR_ELSEWHERE = frozenset(f"{_GERMAN_GRAMMAR} ist sind {_FRENCH_GRAMMAR} {_SPANISH_GRAMMAR}".split())


def complete_question(messages: Sequence[str]) -> str:
    """Return the newest (last) message, with the messages before it for as long as each refers to another."""
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
    """Return whether a message can't be understood alone: "and how long does it take?", "why?"."""
    words = [word.lower() for word in WORD.findall(message)]
    if not words:
        return False
    telling = query_words(message, [ENGLISH])
    if words[0] == "and" and _asks_by_itself(words[1:], telling):
        words = words[1:]
    if _asks_what_is(words, telling):
        return False
    if words[0] in _GOES_ON or words[:2] in (["what", "about"], ["how", "about"]):
        return True
    if words[0] in _ASKS and len(telling) <= FEW_WORDS and len(words) <= 2 * FEW_WORDS:
        return True
    return not _POINTS_BACK.isdisjoint(words)


def _asks_by_itself(words: Sequence[str], telling: Sequence[str]) -> bool:
    """Return whether words behind "and" are a whole question: "and what is the hotel limit on the islands?"."""
    return _asks_what_is(words, telling) or (len(telling) > FEW_WORDS and not _VERBS.isdisjoint(words))


def _asks_what_is(words: Sequence[str], telling: Sequence[str]) -> bool:
    """Return whether words ask what something is that they name ("what is overtime?"); "the limit" is of something."""
    names_it = not QUERY_STOP_WORDS.issuperset(telling) and _POINTS_BACK.isdisjoint(words) and "the" not in words
    return words[:2] in _WHAT_IS and names_it


def find_new_words(message: str) -> list[str]:
    """Return the words that a message which leans on another puts in place of the other's: "and part-time?".

    None when it leans on nothing, or asks something else about the same: "and how long does it take?".
    """
    words = [word.lower() for word in _PHRASE.findall(message)]
    if not leans_on_another(message) or not words:
        return []
    goes_on = words[0] in _GOES_ON
    rest = words[1:] if goes_on else words
    if rest[:2] in (["what", "about"], ["how", "about"]) or (goes_on and rest[:2] in _WHAT_IS):
        goes_on, rest = True, rest[2:]
    if not goes_on or not (_ASKS | _ASKS_ELSEWHERE | _VERBS | _POINTS_BACK).isdisjoint(rest):
        return []
    return [word for word in rest if word not in QUERY_STOP_WORDS and word not in _GRAMMAR_ELSEWHERE]
