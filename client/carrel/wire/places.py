"""The place of a passage in its document: page, slide or message, sheet and rows, and part of the page."""

from carrel.wire.common import ResponseModel


class Rows(ResponseModel):
    """Rows of a sheet or table, numbered as in spreadsheet programs."""

    first: int
    """Number of the first row, counted from 1."""
    last: int
    """Number of the last row."""


class Box(ResponseModel):
    """A rectangle on a page as displayed, in fractions of the width and height from 0 to 1, from the upper left."""

    left: float
    """Distance of the left edge from the page's left edge, in page widths."""
    top: float
    """Distance of the upper edge from the page's upper edge, in page heights."""
    right: float
    """Distance of the right edge from the page's left edge, in page widths."""
    bottom: float
    """Distance of the lower edge from the page's upper edge, in page heights."""


class PageBox(Box):
    """A part of a page covered by a passage."""

    page: int
    """Number of the page, counted from 1; 1 for a picture."""
    start: int = 0
    """First character of this part in the passage's text, counted from 0."""


class PassagePlace(ResponseModel):
    """Place of a passage in its document, as far as known from the file; members that don't apply are absent."""

    page: int | None = None
    """Number of the page, or of the first of several pages, counted from 1."""
    last_page: int | None = None
    """Number of the last page; absent: the passage is on one page."""
    slide: int | None = None
    """Number of the slide, or of the first of several slides, counted from 1."""
    last_slide: int | None = None
    """Number of the last slide; absent: the passage is on one slide."""
    message: int | None = None
    """Number of the message in the mailbox, counted from 1."""
    sheet: str | None = None
    """Name of the sheet in the workbook."""
    rows: Rows | None = None
    """The rows of the sheet or table in the passage."""
    box: Box | None = None
    """The part of the page or picture covered by a passage on one page: around all of `boxes`."""
    boxes: list[PageBox] | None = None
    """Parts of pages covered by the passage, in reading order, if several (columns, pages). Absent: see `box`."""
    confidence: float | None = None
    """The lowest certainty of text recognition in the passage, from 0 to 1; absent: not read from a picture."""

    def list_boxes(self) -> list[PageBox]:
        """Return the parts of pages covered by the passage, in reading order; empty if unknown."""
        if self.boxes or self.box is None:
            return self.boxes or []
        return [PageBox(page=self.page or 1, **self.box.model_dump())]


def describe_place(place: PassagePlace | None) -> str:
    """Return a place in words, for example `page 3, read by machine (91% sure)`; empty if unknown."""
    if place is None:
        return ""
    parts = (
        _name_range("page", place.page, place.last_page),
        _name_range("slide", place.slide, place.last_slide),
        _name_range("message", place.message, None),
        f"sheet “{' '.join(place.sheet.split())}”" if place.sheet else "",
        _name_range("row", place.rows.first, place.rows.last) if place.rows else "",
        "" if place.confidence is None else f"read by machine ({place.confidence:.0%} sure)",
    )
    return ", ".join(part for part in parts if part)


def _name_range(name: str, first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f"{name} {first:,}" if last in {None, first} else f"{name}s {first:,}\N{EN DASH}{last:,}"
