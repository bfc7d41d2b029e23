"""Where in its document a passage stands: page, slide or message, sheet and rows, and the part of the page."""

from carrel.wire.common import ResponseModel


class Rows(ResponseModel):
    """Rows of a sheet or table, numbered as programs number them."""

    first: int
    """Number of the first row, counted from 1."""
    last: int
    """Number of the last row."""


class Box(ResponseModel):
    """A rectangle on a page as people see it, in parts of its width and height from 0 to 1, from the upper left."""

    left: float
    """Distance of the left edge from the page's left edge, in page widths."""
    top: float
    """Distance of the upper edge from the page's upper edge, in page heights."""
    right: float
    """Distance of the right edge from the page's left edge, in page widths."""
    bottom: float
    """Distance of the lower edge from the page's upper edge, in page heights."""


class PageBox(Box):
    """A part of a page that a passage covers."""

    page: int
    """Number of the page, counted from 1; 1 for a picture."""
    start: int = 0
    """Number of the first character of the passage's text that stands there, counted from 0."""


class PassagePlace(ResponseModel):
    """Where a passage stands in its document, as far as the file tells; members that don't apply are absent."""

    page: int | None = None
    """Number of the page, counted from 1; of several, the first one."""
    last_page: int | None = None
    """Number of the last page; absent: the passage stands on one page."""
    slide: int | None = None
    """Number of the slide, counted from 1; of several, the first one."""
    last_slide: int | None = None
    """Number of the last slide; absent: the passage stands on one slide."""
    message: int | None = None
    """Number of the message in its mailbox, counted from 1."""
    sheet: str | None = None
    """Name of the sheet in its workbook."""
    rows: Rows | None = None
    """The rows of the sheet or table that the passage repeats."""
    box: Box | None = None
    """The part of the page, or picture, that the passage covers, where it stands on one page: around all of `boxes`."""
    boxes: list[PageBox] | None = None
    """The parts of pages that the passage covers, in reading order, where it covers several: columns, or pages.

    Absent: it covers one, which is `box`, or where it stands on its pages is unknown."""
    confidence: float | None = None
    """The least certainty, from 0 to 1, with which a machine read the passage from a picture; absent: it did not."""

    def list_boxes(self) -> list[PageBox]:
        """Return the parts of pages that the passage covers, in reading order; none where they are unknown."""
        if self.boxes or self.box is None:
            return self.boxes or []
        return [PageBox(page=self.page or 1, **self.box.model_dump())]


def describe_place(place: PassagePlace | None) -> str:
    """Return a place as people name it, such as `page 3, read by machine (91% sure)`; empty where it is unknown."""
    if place is None:
        return ""
    parts = (
        _count("page", place.page, place.last_page),
        _count("slide", place.slide, place.last_slide),
        _count("message", place.message, None),
        f"sheet “{' '.join(place.sheet.split())}”" if place.sheet else "",
        _count("row", place.rows.first, place.rows.last) if place.rows else "",
        "" if place.confidence is None else f"read by machine ({place.confidence:.0%} sure)",
    )
    return ", ".join(part for part in parts if part)


def _count(name: str, first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f"{name} {first:,}" if last in {None, first} else f"{name}s {first:,}\N{EN DASH}{last:,}"
