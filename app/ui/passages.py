"""Text that others wrote, as HTML: everything escaped, what matched marked.

Nothing of theirs goes through Markdown: Streamlit turns addresses, `:material/…:` and arrows into links and symbols
after backslashes are resolved, so that no escaping holds there.
"""

import html
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

import Stemmer

from carrel.wire.places import PassagePlace, describe_place
from carrel.wire.search import TextSpan


def highlight(text: str, spans: Iterable[TextSpan]) -> str:
    """Return `text` as HTML with the spans (characters, ordered, not overlapping) inside `<mark>`."""
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += [html.escape(text[position : span.start]), f"<mark>{html.escape(text[span.start : span.end])}</mark>"]
        position = span.end
    parts.append(html.escape(text[position:]))
    return paragraph("".join(parts))


_UNSPACED = (
    "\\u0e00-\\u0eff\\u1000-\\u11ff\\u1780-\\u17ff\\u2e80-\\u9fff\\ua960-\\ua97f\\uac00-\\ud7ff\\uf900-\\ufaff"
    "\\uff66-\\uffdc"
)
"""Characters of scripts without spaces between words, or, as Korean, with endings of any length."""
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
"""Accents and vowel signs, which belong to letters, with the letters of India's scripts."""
_WORD = rf"(?:[^\W{_UNSPACED}]|[{_MARKS}])+"
_ENGLISH = "english"
_OTHER_LANGUAGES = ("dutch", "french", "german", "italian", "portuguese", "russian", "spanish", "swedish")
_LONG = 6


def words_like(text: str, words: Iterable[str]) -> list[TextSpan]:
    """Return the spans of words in `text` that are one of these or an inflection of one; a number is itself alone.

    What is written without spaces is found wherever it stands.
    """
    wanted = [part for word in words for part in re.findall(rf"[{_UNSPACED}]+|{_WORD}", word)]
    stems = frozenset[str]().union(*(_stems_of(part.casefold()) for part in wanted))
    unspaced = "|".join(re.escape(part) for part in wanted if not re.match(_WORD, part)) or "(?!)"
    return [
        TextSpan(start=match.start(), end=match.end())
        for match in re.finditer(rf"(?P<unspaced>{unspaced})|{_WORD}", text)
        if match["unspaced"] or not stems.isdisjoint(_stems_of(match[0].casefold()))
    ]


@lru_cache(2**14)
def _stems_of(word: str) -> frozenset[str]:
    """Return a lower-case word's stems in English and, as the text's language isn't known, a long one's in others.

    Short words of several languages have one stem: rate and rat.
    """
    languages = (_ENGLISH, *_OTHER_LANGUAGES) if len(word) >= _LONG else (_ENGLISH,)
    # A stemmer keeps the word it is at, and sessions have threads of their own.
    stemmers = ((language, cast("Any", Stemmer).Stemmer(language, 0)) for language in languages)
    return frozenset(f"{language} {stemmer.stemWord(word)}" for language, stemmer in stemmers)


def link_html(text: str, url: str | None) -> str:
    """Return `text` as HTML, leading to `url` in a window of its own where that is a web address."""
    if url is None or not url.lower().startswith(("https://", "http://")):
        return html.escape(text)
    return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{html.escape(text)}</a>'


def words_in(text: str) -> list[str]:
    """Return the words in a text that are longer than two letters, and its numbers."""
    return [word for word in re.findall(r"\w+", text) if len(word) > 2 or word.isdigit()]


def mark_html(text: str, quote: str) -> str:
    """Return `text` as HTML with the quoted words marked, or all of it where they don't stand in it."""
    start = text.find(quote) if quote else -1
    if start < 0:
        return f"<mark>{html.escape(text)}</mark>"
    end = start + len(quote)
    return f"{html.escape(text[:start])}<mark>{html.escape(quote)}</mark>{html.escape(text[end:])}"


def place_html(place: PassagePlace | None) -> str:
    """Return where a passage stands as HTML to follow its document's name; nothing where that is unknown."""
    words = describe_place(place)
    return f' <span class="carrel-place">{html.escape(words)}</span>' if words else ""


def paragraph(escaped: str) -> str:
    """Return escaped text as a paragraph that keeps its lines."""
    return f'<p class="carrel-passage">{escaped.strip().replace(chr(10), "<br>")}</p>'


def label(text: str) -> str:
    """Return a foreign text as a button's label: a code span, in which Streamlit's Markdown means nothing."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"
