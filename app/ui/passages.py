"""Text that others wrote, as HTML: everything escaped, what matched marked.

Nothing of theirs goes through Markdown: Streamlit turns addresses, `:material/…:` and arrows into links and symbols
after backslashes are resolved, so that no escaping holds there.
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from app.ui.links import address
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


@dataclass(frozen=True)
class PassageLocation:
    """Where a passage is looked at: its document, the number of its chunk, and the collection that has this chunk.

    Without a collection it is the catalog's chunk; without a number, only its place is known.
    """

    document_id: UUID
    place: PassagePlace | None = None
    chunk_index: int | None = None
    collection_id: UUID | None = None

    @property
    def address(self) -> str:
        """The address of the document's page that shows the passage, in the original or else in the text."""
        shown = {"document": str(self.document_id)}
        page = self.place.page if self.place else None
        if page is not None:
            shown |= {"part": "original", "page": str(page)}
        elif self.chunk_index is not None:
            shown |= {"part": "text"}
        if self.chunk_index is not None:
            shown |= {"chunk": str(self.chunk_index)}
            if self.collection_id is not None:
                # The person may look at the text in another index then, which has other chunks.
                shown |= {"chunk_in": str(self.collection_id), "place": str(self.collection_id)}
        return address("documents", **shown)


def place_html(place: PassagePlace | None) -> str:
    """Return where a passage stands as HTML to follow its document's name; nothing where that is unknown."""
    words = describe_place(place)
    return f' <span class="carrel-place">{html.escape(words)}</span>' if words else ""


def open_html(passage: PassageLocation) -> str:
    """Return a link that leads to a passage in its document; nothing where neither its place nor its chunk is known."""
    words = describe_place(passage.place and passage.place.model_copy(update={"confidence": None}))
    if not words and passage.chunk_index is None:
        return ""
    says = html.escape(f"Open at {words}" if words else "Open in the text")
    return f'<p class="carrel-facts"><a href="{html.escape(passage.address)}" target="_self">{says}</a></p>'


def paragraph(escaped: str) -> str:
    """Return escaped text as a paragraph that keeps its lines."""
    return f'<p class="carrel-passage">{escaped.strip().replace(chr(10), "<br>")}</p>'


def label(text: str) -> str:
    """Return a foreign text as a button's label: a code span, in which Streamlit's Markdown means nothing."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"
