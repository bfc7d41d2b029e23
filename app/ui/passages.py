"""Text that others wrote, as HTML: everything escaped, what matched marked.

Nothing of theirs goes through Markdown: Streamlit turns addresses, `:material/…:` and arrows into links and symbols
after backslashes are resolved, so that no escaping holds there.
"""

import html
import re
from collections.abc import Iterable

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


def words_like(text: str, beginnings: Iterable[str]) -> list[TextSpan]:
    """Return the spans of words in `text` that begin like one of these."""
    wanted = "|".join(re.escape(one) for one in beginnings if one.strip())
    if not wanted:
        return []
    found = re.finditer(rf"\b(?:{wanted})\w*", text, re.IGNORECASE)
    return [TextSpan(start=match.start(), end=match.end()) for match in found]


def link_html(text: str, url: str | None) -> str:
    """Return `text` as HTML, leading to `url` in a window of its own where that is a web address."""
    if url is None or not url.lower().startswith(("https://", "http://")):
        return html.escape(text)
    return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{html.escape(text)}</a>'


def beginnings_of(text: str) -> list[str]:
    """Return the beginnings of the words in a text that are longer than two letters, and its numbers."""
    words = re.findall(r"\w+", text)
    return [word[: max(4, len(word) - 3)] for word in words if len(word) > 2 or word.isdigit()]


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
