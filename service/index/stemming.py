# pyright: reportUnknownMemberType=false
# PyStemmer has no annotations; this module gives it one.
"""Snowball's stemmers by name, and the choice of the stemmer for a document's words."""

from functools import cache
from typing import Final, Protocol, cast

import Stemmer as Snowball

ENGLISH: Final = "english"
UNSTEMMED: Final = "simple"

_BY_LANGUAGE: Final = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "es": "spanish",
    "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip

# Languages in Latin letters that have no stemmer. English endings would be cut off from their words.
_UNSTEMMED_LANGUAGES: Final = frozenset({
    "af", "az", "cy", "gl", "hr", "is", "lv", "ms", "mt", "sk", "sl", "sq", "sw", "tl", "vi",
})  # fmt: skip

# Of these, the letters are others, and words in Latin letters are stemmed as English ones: names, mostly.
_NOT_LATIN: Final = frozenset({"arabic", "armenian", "greek", "hindi", "nepali", "persian", "russian", "tamil"})

STEMMINGS: Final = (
    "simple", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "estonian", "finnish", "french",
    "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "persian", "polish", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
"""All but English. Positions in this list count chunks (`service.index.terms`): add new stemmings at the end."""


class Stemmer(Protocol):
    """Reduces words to stems. Has state during a call, so only one word at a time."""

    def stemWord(self, word: str, /) -> str:  # noqa: N802 - the library's name
        ...


def stemming_of(language: str | None, *, default: str) -> str:
    """Return a language's stemmer (ISO 639-1); `default` applies unless English. Other Latin scripts use English."""
    if language is None or default != ENGLISH:
        return default
    return UNSTEMMED if language in _UNSTEMMED_LANGUAGES else _BY_LANGUAGE.get(language, ENGLISH)


def stemming_of_word(word: str, stemming: str) -> str:
    """Return a lower-case word's stemming in a text of another stemming: words in Latin letters may be foreign."""
    return ENGLISH if stemming in _NOT_LATIN and word.isascii() else stemming


@cache
def stemmer_for(stemming: str) -> Stemmer | None:
    """Return the named stemmer; None for `simple`, because words stay unchanged."""
    # It keeps no stems itself, because `service.index.terms` keeps what comes of them.
    return None if stemming == UNSTEMMED else cast("Stemmer", Snowball.Stemmer(stemming, 0))
