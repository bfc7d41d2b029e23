# pyright: reportUnknownMemberType=false
# PyStemmer has no annotations; this module adds some.
"""Snowball's stemmers by name, and the choice of the stemmer for a document's words."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Protocol, cast

import Stemmer as Snowball

ENGLISH: Final = "english"
UNSTEMMED: Final = "simple"

_LANGUAGES: Final = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
_BY_LANGUAGE: Final[Mapping[str, str]] = _LANGUAGES["stemmers"]
_UNSTEMMED_LANGUAGES: Final = frozenset[str](_LANGUAGES["unstemmed"].split())
_NOT_LATIN: Final = frozenset[str](_LANGUAGES["not_latin"].split())
STEMMINGS: Final = tuple[str, ...](_LANGUAGES["stemmings"].split())


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
    # No cache here, because `service.index.terms` caches the results.
    return None if stemming == UNSTEMMED else cast("Stemmer", Snowball.Stemmer(stemming, 0))
