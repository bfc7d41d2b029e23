"""Where a chunk stands in its document: the places of its blocks, joined."""

from collections.abc import Sequence

from carrel.wire.formats import FORMATS
from carrel.wire.places import Box, PassagePlace, Rows
from service.text.extraction.blocks import Block, join_boxes

_SLIDES = frozenset(each.media_type for each in FORMATS if each.kind == "slides")
_MAILBOXES = frozenset(each.media_type for each in FORMATS if each.name == "mailbox")


def join_places(blocks: Sequence[Block], *, media_type: str) -> PassagePlace | None:
    """Return where some blocks of a file of this type stand, from the first to the last; None if none has a place."""
    pages = {block.page for block in blocks if block.page is not None}
    sheet = next((block.sheet for block in blocks if block.sheet is not None), None)
    rows = [block.rows for block in blocks if block.rows is not None and block.sheet == sheet]
    confidence = min((block.confidence for block in blocks if block.confidence is not None), default=None)
    if not pages and sheet is None and not rows and confidence is None:
        return None
    edges = join_boxes([block.box for block in blocks]) if len(pages) == 1 else None
    return PassagePlace(
        **_number(pages, media_type),
        sheet=sheet,
        rows=Rows(first=min(first for first, _ in rows), last=max(last for _, last in rows)) if rows else None,
        box=Box(left=edges[0], top=edges[1], right=edges[2], bottom=edges[3]) if edges else None,
        confidence=confidence,
    )


def _number(pages: set[int], media_type: str) -> dict[str, int]:
    """Return the first and the last of some pages, by the names of what a file of this type counts."""
    if not pages:
        return {}
    first, last = min(pages), max(pages)
    if media_type in _MAILBOXES:
        return {"message": first}
    name = "slide" if media_type in _SLIDES else "page"
    return {name: first} if first == last else {name: first, f"last_{name}": last}
