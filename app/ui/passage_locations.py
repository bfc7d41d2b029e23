"""Where a passage is looked at, as the address of a document's page."""

import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import UUID

from app.ui.links import address
from app.ui.passages import words_in
from carrel.wire.places import Box, PageBox, PassagePlace, describe_place

_LARGEST = 2**31 - 1
_QUOTED = re.compile(r"([1-9][0-9]{0,4})_([0-9a-f]{16})")
_MOST_SEARCHED = 20_000
_BOX = r"[0-9]{1,9}(?:_(?:[01]|0\.[0-9]{1,12})){4}"
_PLACE = re.compile(rf"{_BOX}(?:~{_BOX}){{0,11}}|[0-9]{{1,9}}")


@dataclass(frozen=True)
class PassageLocation:
    """Where a passage is looked at: its document, the number of its chunk, and the collection that has this chunk.

    Without a collection it is the catalog's chunk; without a number, only its place is known. `version` is the
    document's that the passage is of, `quoted` the mark of the words that count (`mark_of_quote`), and `search` the
    query string of the search that found it, or `chat` that of the conversation that quotes it, for the way back.
    """

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
        """Return the passage that the address of a document's page names; what can't be read there counts as absent.

        Of its place, only the pages and the boxes are known.
        """
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
        """The words that were searched for."""
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
                # The person may look at the text in another index then, which has other chunks.
                shown |= {"chunk_in": str(self.collection_id), "place": str(self.collection_id)}
        if self.version is not None:
            shown |= {"version": str(self.version)}
        kept = {"quoted": self.quoted, "search": self.search, "chat": self.chat}
        return address("documents", **shown, **{name: value for name, value in kept.items() if value})


def number_in(text: str, *, least: int) -> int | None:
    """Return the number that a parameter of an address is; None if it is none, or less, or larger than there can be."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(_LARGEST)) else None
    return number if number is not None and number >= least else None


def _write_place(place: PassagePlace) -> str:
    """Return a place's pages and boxes as a parameter of an address: `3`, or `3_0.1_0.2_0.9_0.25~4_0.1_0.1_0.9_0.2`."""
    boxes = place.list_boxes()
    edges = (f"{box.page}_{box.left:.4g}_{box.top:.4g}_{box.right:.4g}_{box.bottom:.4g}" for box in boxes)
    return "~".join(edges) if boxes else str(place.page)


def _read_place(text: str) -> PassagePlace | None:
    """Return what `_write_place` wrote; None for anything else."""
    if not _PLACE.fullmatch(text):
        return None
    boxes: list[PageBox] = []
    for part in text.split("~"):
        page, *edges = part.split("_")
        if (number := number_in(page, least=1)) is None:
            return None
        if not edges:
            return PassagePlace(page=number)
        boxes.append(
            PageBox.model_validate({"page": number, **dict(zip(Box.model_fields, map(float, edges), strict=True))})
        )
    pages = [box.page for box in boxes]
    box = Box.model_validate(boxes[0].model_dump()) if len(boxes) == 1 else None
    last = max(pages) if max(pages) > min(pages) else None
    return PassagePlace(page=min(pages), last_page=last, box=box, boxes=None if box else boxes)


def mark_of_quote(quote: str) -> str:
    """Return what an address has in place of quoted words, which it must not tell to servers and histories on its way.

    It is their length and the beginning of their SHA-256.
    """
    return f"{len(quote)}_{_digest(quote)}" if quote else ""


def find_quote(text: str, quoted: str) -> str:
    """Return the words of `text` that have this mark (`mark_of_quote`); "" where there are none."""
    if not (found := _QUOTED.fullmatch(quoted)):
        return ""
    length, digest = int(found[1]), found[2]
    starts = range(min(len(text) - length + 1, _MOST_SEARCHED))
    return next((words for start in starts if _digest(words := text[start : start + length]) == digest), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def open_html(passage: PassageLocation) -> str:
    """Return a link that leads to a passage in its document; nothing where neither its place nor its chunk is known."""
    words = describe_place(passage.place and passage.place.model_copy(update={"confidence": None}))
    if not words and passage.chunk_index is None:
        return ""
    says = html.escape(f"Open at {words}" if words else "Open in the text")
    return f'<p class="carrel-facts"><a href="{html.escape(passage.address)}" target="_self">{says}</a></p>'
