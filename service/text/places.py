"""A chunk's position in the document: the joined places of all blocks."""

from collections.abc import Sequence

from carrel.wire.formats import FORMATS
from carrel.wire.places import Box, PageBox, PassagePlace, Rows
from service.text.extraction.blocks import Block, join_boxes, surround
from service.text.extraction.blocks import Box as Edges

_SLIDES = frozenset(each.media_type for each in FORMATS if each.kind == "slides")
_MAILBOXES = frozenset(each.media_type for each in FORMATS if each.name == "mailbox")
# Parts are joined if the rectangle around them has at most this share of the page besides them: less than a text line.
_MOST_BESIDE = 0.01
_MOST_BOXES = 12


def join_places(blocks: Sequence[Block], *, starts: Sequence[int], media_type: str) -> PassagePlace | None:
    """Return the joined place of a file's blocks, or None; `starts` are their first characters in the passage."""
    pages = {block.page for block in blocks if block.page is not None}
    sheet = next((block.sheet for block in blocks if block.sheet is not None), None)
    rows = [block.rows for block in blocks if block.rows is not None and block.sheet == sheet]
    confidence = min((block.confidence for block in blocks if block.confidence is not None), default=None)
    if not pages and sheet is None and not rows and confidence is None:
        return None
    edges = join_boxes([block.box for block in blocks]) if len(pages) <= 1 else None
    boxes = _page_boxes(blocks, starts)
    return PassagePlace(
        **_number(pages, media_type),
        sheet=sheet,
        rows=Rows(first=min(first for first, _ in rows), last=max(last for _, last in rows)) if rows else None,
        box=Box(**_members(edges)) if edges else None,
        boxes=boxes if len(boxes) > 1 else None,
        confidence=confidence,
    )


def _page_boxes(blocks: Sequence[Block], starts: Sequence[int]) -> list[PageBox]:
    """Return the parts of pages in order, joined until they are few; empty if a block has no box."""
    parts: list[tuple[int, int, Edges]] = []
    for block, start in zip(blocks, starts, strict=True):
        if block.box is None:
            return []
        parts += [(block.page or 1, start + begin, box) for begin, box in block.areas or ((0, block.box),)]
    most_beside = _MOST_BESIDE
    joined = _join_near(parts, most_beside)
    while len(joined) > _MOST_BOXES and most_beside < 1:
        most_beside *= 2
        joined = _join_near(joined, most_beside)
    return [PageBox(page=page, start=start, **_members(box)) for page, start, box in joined]


def _join_near(parts: Sequence[tuple[int, int, Edges]], most_beside: float) -> list[tuple[int, int, Edges]]:
    """Join each part with the part before, on the same page, if the union covers little else."""
    joined: list[tuple[int, int, Edges]] = []
    for page, start, box in parts:
        if joined and joined[-1][0] == page:
            _, first, before = joined[-1]
            around = surround((before, box))
            if _area(around) - _area(before) - _area(box) <= most_beside:
                joined[-1] = (page, first, around)
                continue
        joined.append((page, start, box))
    return joined


def _area(box: Edges) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _members(box: Edges) -> dict[str, float]:
    return dict(zip(Box.model_fields, box, strict=True))


def _number(pages: set[int], media_type: str) -> dict[str, int]:
    """Return the first and last page (in a mailbox the first message), under the media type's word for pages."""
    if not pages:
        return {}
    first, last = min(pages), max(pages)
    if media_type in _MAILBOXES:
        return {"message": first}
    name = "slide" if media_type in _SLIDES else "page"
    return {name: first} if first == last else {name: first, f"last_{name}": last}
