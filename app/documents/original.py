"""A document as in the original file: page by page, with the passage in the address marked."""

import base64
import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.ui.errors import error_boundary
from app.ui.notices import offer_action, show_empty, show_link, show_note
from app.ui.passages import PassageLocation, find_quote, highlight, number_in, words_like
from carrel.wire.catalog import GetDocumentResponse
from carrel.wire.collections import DocumentChunk
from carrel.wire.pages import WITH_PAGES
from carrel.wire.places import Box, PageBox, PassagePlace, describe_place
from carrel.wire.search import TextSpan


@dataclass(frozen=True)
class _Page:
    jpeg: bytes
    number: int
    count: int


def has_original(document: GetDocumentResponse) -> bool:
    return document.media_type in WITH_PAGES


def passage_in_address(document: GetDocumentResponse) -> PassageLocation:
    return PassageLocation.from_address(document.document_id, st.query_params)


def show_original(document: GetDocumentResponse) -> None:
    """Show a page of a document: the page in the address, else the page of the passage, else the first."""
    wanted = passage_in_address(document)
    with st.spinner("Loading the page …"):
        passage, version = _find_passage(wanted)
        paged = {each.document_version for each in document.versions if each.media_type in WITH_PAGES}
        version = version if version in paged else None
        # A version without an index has no chunks: use the place in the address.
        place = passage.place if passage else wanted.place if version else None
        place = place or PassagePlace()
        weights = _weigh(place, passage, wanted)
        opened = _main_page_of(place, weights)
        number = number_in(st.query_params.get("page", ""), least=1) or opened or 1
        page = _fetch_or_explain(document.document_id, number, version=version)
    _show_version(document, shown=version, passage_of=wanted.version)
    if page is None:
        return
    _offer_pages(page, passage_at=opened)
    boxes = [box for box, _ in sorted(weights, key=lambda each: -each[1]) if box.page == number]
    is_there = (place.page or opened or 0) <= number <= (place.last_page or place.page or opened or 0)
    if passage is None or not is_there:
        st.html(page_html(page, document.document_name, boxes=boxes))
        return
    left, right = st.columns([3, 2])
    with left:
        st.html(page_html(page, document.document_name, boxes=boxes))
    with right, st.container(key="original-passage"):
        st.subheader("The passage", anchor=False)
        show_note(describe_place(place))
        st.html(highlight(passage.text, _spans_of_words(passage.text, wanted)))


def _weigh(place: PassagePlace, passage: DocumentChunk | None, wanted: PassageLocation) -> list[tuple[PageBox, int]]:
    """Return the parts of pages covered by a passage, weighed by the relevant words; empty without boxes."""
    boxes = place.list_boxes()
    if passage is None or not boxes:
        return [(box, round(1e6 * (box.right - box.left) * (box.bottom - box.top))) for box in boxes]
    text = passage.text
    spans = _spans_of_words(text, wanted) or [TextSpan(start=0, end=len(text))]
    ends = [*(box.start for box in boxes[1:]), len(text)]
    return [
        (box, sum(max(min(span.end, end) - max(span.start, box.start), 0) for span in spans))
        for box, end in zip(boxes, ends, strict=True)
    ]


def _main_page_of(place: PassagePlace, weights: Sequence[tuple[PageBox, int]]) -> int | None:
    pages = Counter[int]()
    for box, weight in weights:
        pages[box.page] += weight
    return pages.most_common(1)[0][0] if pages else place.page


def _spans_of_words(text: str, wanted: PassageLocation) -> list[TextSpan]:
    """Return where a passage has the quoted words; if it lacks them, searched numbers and words over 3 letters."""
    if quote := find_quote(text, wanted.quoted):
        start = text.index(quote)
        return [TextSpan(start=start, end=start + len(quote))]
    return words_like(text, [word for word in wanted.words if len(word) > 3 or word.isdigit()])


def _show_version(document: GetDocumentResponse, *, shown: int | None, passage_of: int | None) -> None:
    """Name the page's version if different from the newest, or from the version of the passage."""
    newest = document.document_version
    if shown is not None and shown != newest:
        show_note(f"This is version {shown:,}, which contains the passage. The newest version is {newest:,}.")
        show_link("Open the newest version", "documents", document=str(document.document_id), part="original")
    elif passage_of not in {None, newest}:
        show_note(f"The passage is from version {passage_of:,}, which has no pages. This is version {newest:,}.")


def _find_passage(wanted: PassageLocation) -> tuple[DocumentChunk | None, int | None]:
    """Return the chunk and its version; None and the wanted version if the person can't read it or it has changed."""
    if wanted.chunk_index is None:
        return None, wanted.version
    with error_boundary():
        try:
            listed = api.client().document_collections.get_document_chunks(
                wanted.document_id,
                document_collection_id=wanted.collection_id,
                first_chunk_index=wanted.chunk_index,
                page_size=1,
            )
            page = next(listed.pages())
        except carrel.NotFoundError:
            return None, wanted.version
    if wanted.version not in {None, page.document_version}:
        return None, wanted.version
    chunk = next((chunk for chunk in page.chunks if chunk.chunk_index == wanted.chunk_index), None)
    return chunk, page.document_version if chunk else wanted.version


def _fetch_or_explain(document_id: UUID, number: int, *, version: int | None) -> _Page | None:
    with error_boundary():
        try:
            return fetch_page(document_id, number, version=version)
        except carrel.NotFoundError as error:
            if error.code != "page_not_found":
                show_empty("You cannot read this document.", "You can see that it exists, but not its pages.")
                return None
            show_empty(f"Page {number:,} does not exist.", error.message)
            show_link("Go to the first page", "documents", document=str(document_id), part="original")
            return None


def fetch_page(document_id: UUID, number: int, *, version: int | None = None) -> _Page:
    with api.client().catalog.download_document_page(document_id, number, document_version=version) as download:
        return _Page(download.read(), number, download.page_count or number)


def _offer_pages(page: _Page, *, passage_at: int | None) -> None:
    at, count, key = page.number, page.count, f"original.page.{page.number}"

    def go(number: int | None = None) -> None:
        st.query_params["page"] = str(number or st.session_state[key])

    with st.container(horizontal=True, vertical_alignment="bottom"):
        offer_action("Previous page", go, at - 1, key="original.previous", icon="chevron_left", disabled=at <= 1)
        st.number_input(f"Page (of {count:,})", 1, count, at, key=key, on_change=go, width=160)
        offer_action("Next page", go, at + 1, key="original.next", icon="chevron_right", disabled=at >= count)
        if passage_at not in {None, at}:
            offer_action("Back to the passage", go, passage_at, key="original.passage", kind="tertiary")


def page_html(page: _Page, name: str, *, boxes: Sequence[Box] = ()) -> str:
    marked = "; the passage is marked" if boxes else ""
    says = html.escape(f"Page {page.number:,} of {name}{marked}")
    picture = f"data:image/jpeg;base64,{base64.b64encode(page.jpeg).decode()}"
    marks = (f'<span class="carrel-page-mark" style="{_position_css(box)}" aria-hidden="true"></span>' for box in boxes)
    return f'<div class="carrel-page"><img src="{picture}" alt="{says}">{"".join(marks)}</div>'


def _position_css(box: Box) -> str:
    edges = {"left": box.left, "top": box.top, "width": box.right - box.left, "height": box.bottom - box.top}
    return "; ".join(f"{name}: {100 * part:.2f}%" for name, part in edges.items())
