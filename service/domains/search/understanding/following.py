"""What a message asks that leans on the one before it."""

from collections.abc import Sequence

from service.index.stemming import ENGLISH
from service.index.terms import query_words
from service.index.tokenization import WORD

MOST_BEFORE = 3
FEW_WORDS = 2

_GOES_ON = frozenset({"also", "and", "aber", "but", "else", "et", "oder", "or", "so", "then", "und", "y"})
_POINTS_BACK = frozenset(
    {"he", "her", "his", "it", "its", "she", "that", "their", "them", "these", "they", "this", "those"}
)
_VERBS = frozenset(
    {"am", "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might", "must", "should"}
    | {"was", "were", "will", "would"}
)
_ASKS = frozenset({"how", "what", "when", "where", "which", "who", "whom", "whose", "why"})


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
    if words[0] == "and" and len(telling) > FEW_WORDS and not _VERBS.isdisjoint(words):
        words = words[1:]  # a whole question: "and what is the hotel limit on the islands?"
    if words[0] in _GOES_ON or words[:2] in (["what", "about"], ["how", "about"]):
        return True
    if words[0] in _ASKS and len(telling) <= FEW_WORDS and len(words) <= 2 * FEW_WORDS:
        return True
    return not _POINTS_BACK.isdisjoint(words)
