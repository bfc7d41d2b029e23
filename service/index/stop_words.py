"""English words without meaning of their own, words of other languages' grammar, and irregular forms."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from service.index.stemming import ENGLISH
from service.index.tokenization import WORD, fold

_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))

INDEX_STOP_WORDS = frozenset[str](_WORDS["of_index"].split())

QUERY_STOP_WORDS = INDEX_STOP_WORDS | frozenset[str](_WORDS["of_questions"].split())
"""Words of little meaning in a query. They are indexed, so a query of only such words has results."""

_OF_LANGUAGES = {stemming: frozenset[str](words.split()) for stemming, words in _WORDS["of_languages"].items()}
IRREGULAR: Mapping[str, tuple[str, ...]] = {
    word: tuple(group.split()) for group in _WORDS["irregular"].split(",") for word in group.split()
}


def is_left_out(text: str) -> bool:
    """Return whether a text has several words, all of which the index of English texts leaves out."""
    words = WORD.findall(text)
    return len(words) > 1 and INDEX_STOP_WORDS.issuperset(map(fold, words))


def stop_words_of(words: Collection[str], stemmings: Collection[str]) -> Collection[str]:
    """Return the words to leave out of a query with these words; of another language, if the query has several."""
    others = (_OF_LANGUAGES[stemming] for stemming in stemmings if stemming in _OF_LANGUAGES)
    spoken = [other for other in others if len(other.difference(QUERY_STOP_WORDS).intersection(words)) > 1]
    return frozenset[str]().union(QUERY_STOP_WORDS if ENGLISH in stemmings else (), *spoken)
