"""catalog/downloadDocumentPage: pages of documents as pictures, for people to look at."""

from typing import Annotated, Any

from pydantic import Field

from carrel.wire.catalog import DownloadDocumentRequest
from carrel.wire.formats import FORMATS
from carrel.wire.operations import NOT_FOUND, READ, ApiOperation

WITH_PAGES = frozenset(
    # An SVG is read as text and never drawn.
    each.media_type
    for each in FORMATS
    if each.name == "PDF" or (each.kind == "picture" and each.name != "SVG")
)
"""Media types of files with pages available as pictures."""
PAGE_COUNT = "Page-Count"
"""Header with the file's number of pages."""


class DownloadDocumentPageRequest(DownloadDocumentRequest):
    """Ask for a page of a PDF or picture as people see it: a JPEG, at most 2000 pixels wide and high. The header
    `Page-Count` has the number of pages. A passage's `box` and `boxes` are in fractions of the width and height."""

    page: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    """Number of the page, counted from 1."""


DOWNLOAD_DOCUMENT_PAGE: ApiOperation[Any, Any] = ApiOperation(
    "catalog/downloadDocumentPage", DownloadDocumentPageRequest, None, READ, NOT_FOUND
)
"""Open a page of a PDF or picture, counted from 1, as a JPEG; its `page_count` is the number of pages. The
default is the newest version. A passage's boxes are in fractions of the width and height. Raises NotFoundError
`page_not_found` after the last page, BadRequestError `document_without_pages` for other formats."""
