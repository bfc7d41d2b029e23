"""Passages as addresses and as escaped HTML: Markdown can't escape Streamlit's links and symbols in untrusted text."""

import hashlib
import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import parse_qsl
from uuid import UUID

import Stemmer

from app.ui.notices import address
from carrel.wire.places import Box, PageBox, PassagePlace, describe_place
from carrel.wire.search import TextSpan


def highlight(text: str, spans: Iterable[TextSpan]) -> str:
    """Return a passage as HTML with the matches inside `<mark>`."""
    return paragraph(mark_spans(text, spans))


def mark_spans(text: str, spans: Iterable[TextSpan]) -> str:
    """Return `text` as HTML with the spans (characters, ordered, not overlapping) inside `<mark>`."""
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += [html.escape(text[position : span.start]), f"<mark>{html.escape(text[span.start : span.end])}</mark>"]
        position = span.end
    parts.append(html.escape(text[position:]))
    return "".join(parts)


_UNSPACED = (
    "\\u0e00-\\u0eff\\u1000-\\u11ff\\u1780-\\u17ff\\u2e80-\\u9fff\\ua960-\\ua97f\\uac00-\\ud7ff\\uf900-\\ufaff"
    "\\uff66-\\uffdc"
)
"""Characters of scripts without spaces between words, or, like Korean, with endings of any length."""
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
"""Accents and vowel signs, which belong to letters, with the letters of India's scripts."""
_WORD = rf"(?:[^\W{_UNSPACED}]|[{_MARKS}])+"
_ENGLISH = "english"
_OTHER_LANGUAGES = ("dutch", "french", "german", "italian", "portuguese", "russian", "spanish", "swedish")
_LONG = 6


def words_like(text: str, words: Iterable[str]) -> list[TextSpan]:
    """Return the spans in `text` of the words and their inflections; in scripts without spaces, of parts anywhere."""
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
    """Return a lower-case word's English stems and, if long, stems of further languages: short words would collide."""
    languages = (_ENGLISH, *_OTHER_LANGUAGES) if len(word) >= _LONG else (_ENGLISH,)
    # Stemmers have mutable state, and sessions run in threads.
    stemmers = ((language, cast("Any", Stemmer).Stemmer(language, 0)) for language in languages)
    return frozenset(f"{language} {stemmer.stemWord(word)}" for language, stemmer in stemmers)


def link_html(text: str, url: str | None) -> str:
    """Return a link to a web address as HTML; only the escaped text for another URL or None."""
    if url is None or not url.lower().startswith(("https://", "http://")):
        return html.escape(text)
    return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{html.escape(text)}</a>'


def words_in(text: str) -> list[str]:
    """Return the numbers in a text, and the words longer than two letters."""
    return [word for word in re.findall(r"\w+", text) if len(word) > 2 or word.isdigit()]


def mark_html(text: str, quote: str) -> str:
    """Return `text` as HTML with the quoted words marked, or the whole text marked if the quote is missing."""
    marked = quote if quote and quote in text else text
    start = text.find(marked)
    return mark_spans(text, [TextSpan(start=start, end=start + len(marked))])


def place_html(place: PassagePlace | None) -> str:
    """Return a passage's place as HTML to follow the document's name; empty if unknown."""
    words = describe_place(place)
    return f' <span class="carrel-place">{html.escape(words)}</span>' if words else ""


def paragraph(escaped: str) -> str:
    return f'<p class="carrel-passage">{escaped.strip().replace(chr(10), "<br>")}</p>'


def label(text: str) -> str:
    """Return untrusted text as a button's label: a code span, where Streamlit's Markdown has no effect."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"


_LARGEST = 2**31 - 1
_QUOTED = re.compile(r"([1-9][0-9]{0,4})_([0-9a-f]{16})")
_MOST_SEARCHED = 20_000
_BOX = r"[0-9]{1,9}(?:_(?:[01]|0\.[0-9]{1,12})){4}"
_PLACE = re.compile(rf"{_BOX}(?:~{_BOX}){{0,11}}|[0-9]{{1,9}}")


@dataclass(frozen=True)
class PassageLocation:
    """The link target of a passage. Without a collection the chunk is the catalog's; without a number only the place is
    known. `quoted` is a `mark_of_quote`; `search` or `chat` is the query string for the way back."""

    document_id: UUID
    place: PassagePlace | None = None
    chunk_index: int | None = None
    collection_id: UUID | None = None
    version: int | None = None
    quoted: str = ""
    search: str = ""
    chat: str = ""

    @classmethod
    def from_address(cls, document_id: UUID, parameters: Mapping[str, str]) -> "PassageLocation":
        """Return the passage in a document page's address. Unreadable parameters are absent; places: pages, boxes."""
        try:
            collection_id = UUID(parameters["chunk_in"]) if parameters.get("chunk_in") else None
            chunk_index = number_in(parameters.get("chunk", ""), least=0)
        except ValueError:
            collection_id = chunk_index = None
        return cls(
            document_id,
            _read_place(parameters.get("at", "")),
            chunk_index,
            collection_id,
            number_in(parameters.get("version", ""), least=1),
            parameters.get("quoted", ""),
            parameters.get("search", ""),
            parameters.get("chat", ""),
        )

    @property
    def words(self) -> list[str]:
        return words_in(dict(parse_qsl(self.search)).get("q", ""))

    @property
    def address(self) -> str:
        """The address of the document's page that shows the passage, in the original or else in the text."""
        shown = {"document": str(self.document_id)}
        if self.place is not None and (self.place.page is not None or self.place.box is not None):
            shown |= {"part": "original", "at": _write_place(self.place)}
        elif self.chunk_index is not None:
            shown |= {"part": "text"}
        if self.chunk_index is not None:
            shown |= {"chunk": str(self.chunk_index)}
            if self.collection_id is not None:
                # There the person sees the text in the collection's index, which has other chunks.
                shown |= {"chunk_in": str(self.collection_id), "place": str(self.collection_id)}
        if self.version is not None:
            shown |= {"version": str(self.version)}
        kept = {"quoted": self.quoted, "search": self.search, "chat": self.chat}
        return address("documents", **shown, **{name: value for name, value in kept.items() if value})


def number_in(text: str, *, least: int) -> int | None:
    """Return the number in an address parameter, or None if unreadable, below `least` or out of range."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(_LARGEST)) else None
    return number if number is not None and number >= least else None


def _write_place(place: PassagePlace) -> str:
    """Return a place's pages and boxes as a parameter of an address: `3`, or `3_0.1_0.2_0.9_0.25~4_0.1_0.1_0.9_0.2`."""
    boxes = place.list_boxes()
    edges = (f"{box.page}_{box.left:.4g}_{box.top:.4g}_{box.right:.4g}_{box.bottom:.4g}" for box in boxes)
    return "~".join(edges) if boxes else str(place.page)


def _read_place(text: str) -> PassagePlace | None:
    if not _PLACE.fullmatch(text):
        return None
    boxes: list[PageBox] = []
    for part in text.split("~"):
        page, *edges = part.split("_")
        if (number := number_in(page, least=1)) is None:
            return None
        if not edges:
            return PassagePlace(page=number)
        sides = dict(zip(Box.model_fields, map(float, edges), strict=True))
        boxes.append(PageBox.model_validate({"page": number, **sides}))
    pages = [box.page for box in boxes]
    box = Box.model_validate(boxes[0].model_dump()) if len(boxes) == 1 else None
    last = max(pages) if max(pages) > min(pages) else None
    return PassagePlace(page=min(pages), last_page=last, box=box, boxes=None if box else boxes)


def mark_of_quote(quote: str) -> str:
    """Return the length and hash (SHA-256, cut) of quoted words, so that the address doesn't disclose them."""
    return f"{len(quote)}_{_digest(quote)}" if quote else ""


def find_quote(text: str, quoted: str) -> str:
    """Return the words of `text`, from its first 20,000 places, with the mark `quoted` (`mark_of_quote`); else ""."""
    if not (found := _QUOTED.fullmatch(quoted)):
        return ""
    length, digest = int(found[1]), found[2]
    starts = range(min(len(text) - length + 1, _MOST_SEARCHED))
    return next((words for start in starts if _digest(words := text[start : start + length]) == digest), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def open_html(passage: PassageLocation) -> str:
    """Return a link to a passage in its document; empty if both place and chunk are unknown."""
    words = describe_place(passage.place and passage.place.model_copy(update={"confidence": None}))
    if not words and passage.chunk_index is None:
        return ""
    says = html.escape(f"Open at {words}" if words else "Open in text")
    return f'<p class="carrel-facts"><a href="{html.escape(passage.address)}" target="_self">{says}</a></p>'
