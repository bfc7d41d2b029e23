"""Passages as HTML: everything escaped, what matched marked."""

import html
import re
from collections.abc import Iterable

from carrel.wire.search import TextSpan

STYLE = """<style>
.passage { line-height: 1.5; }
.passage mark { background: #fde68a; color: inherit; padding: 0 .1em; border-radius: .15em; }
</style>"""


def marked(text: str, spans: Iterable[TextSpan]) -> str:
    """Return `text` as HTML with the spans (characters, ordered, not overlapping) inside `<mark>`."""
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += [html.escape(text[position : span.start]), f"<mark>{html.escape(text[span.start : span.end])}</mark>"]
        position = span.end
    parts.append(html.escape(text[position:]))
    return _paragraphs("".join(parts))


def marked_terms(text: str, terms: Iterable[str]) -> str:
    """Return `text` as HTML with every word that begins like one of the search's terms inside `<mark>`."""
    stems = "|".join(re.escape(term) for term in terms)
    if not stems:
        return _paragraphs(html.escape(text))
    found = re.finditer(rf"\b(?:{stems})\w*", text, re.IGNORECASE)
    return marked(text, [TextSpan(start=match.start(), end=match.end()) for match in found])


def _paragraphs(escaped: str) -> str:
    return f'<div class="passage">{escaped.strip().replace(chr(10), "<br>")}</div>'
