# pyright: reportUnknownMemberType=false
# PyStemmer has no annotations; this module gives it one.
"""Snowball's stemmers, by the language of a space."""

from functools import cache
from typing import Protocol, cast

import Stemmer as Snowball

UNSTEMMED = "simple"


class Stemmer(Protocol):
    """Reduces words to their stems; it has state while it does, so only one word at a time."""

    def stemWord(self, word: str, /) -> str:  # noqa: N802 - the library's name
        """Return the stem of a lower-case word."""
        ...


@cache
def stemmer_for(language: str) -> Stemmer | None:
    """Return the stemmer of a language; None for `simple`, whose words are kept as they are."""
    # It keeps no stems itself, because `service.index.terms` keeps what comes of them.
    return None if language == UNSTEMMED else cast("Stemmer", Snowball.Stemmer(language, 0))
