"""A document as its file shows it: one page at a time, with the passage marked that the address names."""

import base64
import html
from dataclasses import dataclass
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.ui.errors import error_boundary
from app.ui.links import show_link
from app.ui.notices import show_empty, show_note
from app.ui.passages import paragraph
from carrel.wire.catalog import GetDocumentResponse
from carrel.wire.collections import DocumentChunk
from carrel.wire.pages import WITH_PAGES
from carrel.wire.places import Box, PassagePlace, describe_place

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class _Page:
    """A page as a JPEG, and how many pages there are."""

    jpeg: bytes
    number: int
    count: int


def has_original(document: GetDocumentResponse) -> bool:
    """Return whether the pages of a document's file can be shown."""
    return document.media_type in WITH_PAGES


def chunk_in_address(where: str) -> int | None:
    """Return the number of the chunk of a collection ("": the catalog) that the address names; None without one."""
    return _number("chunk", least=0) if st.query_params.get("chunk_in", "") == where else None


def show_original(document: GetDocumentResponse) -> None:
    """Show the page of a document that the address names, or that of the passage which it names, or else the first."""
    with st.spinner("Loading the page …"):
        found = _find_passage(document.document_id)
        passage, version = found or (None, None)
        place = passage.place if passage and passage.place else PassagePlace()
        number = _number("page", least=1) or place.page or 1
        page = _fetch(document.document_id, number, version=version)
    if page is None:
        return
    _offer_pages(page, passage_at=place.page)
    first, last = place.page or 0, place.last_page or place.page or 0
    if passage is None or not first <= number <= last:
        _draw(page, document.document_name)
        return
    left, right = st.columns([3, 2])
    with left:
        _draw(page, document.document_name, box=place.box)
    with right:
        st.subheader("The passage", anchor=False)
        show_note(describe_place(place))
        st.html(paragraph(f"<mark>{html.escape(passage.text.strip())}</mark>"))


def _number(parameter: str, *, least: int) -> int | None:
    said = st.query_params.get(parameter, "")
    number = int(said) if said.isascii() and said.isdigit() and len(said) < len(str(_LARGEST)) else None
    return number if number is not None and number >= least else None


def _find_passage(document_id: UUID) -> tuple[DocumentChunk, int] | None:
    """Return the chunk that the address names, and the version it is of; None without one, and when it isn't there."""
    where = st.query_params.get("chunk_in", "")
    wanted = chunk_in_address(where)
    if wanted is None:
        return None
    with error_boundary():
        try:
            collection_id = UUID(where) if where else None
            listed = api.client().document_collections.get_document_chunks(
                document_id, document_collection_id=collection_id, first_chunk_index=wanted, page_size=1
            )
            page = next(listed.pages())
        except (ValueError, carrel.NotFoundError):
            return None
    return next(((chunk, page.document_version) for chunk in page.chunks if chunk.chunk_index == wanted), None)


def _fetch(document_id: UUID, number: int, *, version: int | None) -> _Page | None:
    """Return a page of a version, or of the newest one, or say why there is none."""
    with error_boundary():
        try:
            with api.client().catalog.download_document_page(document_id, number, document_version=version) as download:
                return _Page(download.read(), number, download.page_count or number)
        except carrel.NotFoundError as error:
            if error.code != "page_not_found":
                show_empty("Its pages are for those who may read it.", "You may see that there is this document.")
                return None
            show_empty(f"There is no page {number:,}.", error.message)
            show_link("The first page", "documents", document=str(document_id), part="original")
            return None


def _offer_pages(page: _Page, *, passage_at: int | None) -> None:
    """Show the page's number, which can be changed, with buttons to the pages beside it and back to the passage."""
    key = f"original.page.{page.number}"

    def go(number: int | None = None) -> None:
        st.query_params["page"] = str(number or st.session_state[key])

    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button(
            "Previous page",
            icon=":material/chevron_left:",
            disabled=page.number <= 1,
            on_click=go,
            args=(page.number - 1,),
            key="original.previous",
        )
        st.number_input(f"Page (of {page.count:,})", 1, page.count, page.number, key=key, on_change=go, width=160)
        st.button(
            "Next page",
            icon=":material/chevron_right:",
            disabled=page.number >= page.count,
            on_click=go,
            args=(page.number + 1,),
            key="original.next",
        )
        if passage_at not in {None, page.number}:
            st.button("Back to the passage", on_click=go, args=(passage_at,), key="original.passage", type="tertiary")


def _draw(page: _Page, name: str, *, box: Box | None = None) -> None:
    """Draw a page, with a mark over the part of it that the box covers."""
    marked = "; the passage is marked" if box else ""
    says = html.escape(f"Page {page.number:,} of {name}{marked}")
    picture = f"data:image/jpeg;base64,{base64.b64encode(page.jpeg).decode()}"
    mark = f'<span class="carrel-page-mark" style="{_style(box)}" aria-hidden="true"></span>' if box else ""
    st.html(f'<div class="carrel-page"><img src="{picture}" alt="{says}">{mark}</div>')


def _style(box: Box) -> str:
    """Return where a box stands over its page, in percent."""
    edges = {
        "left": box.left,
        "top": box.top,
        "width": box.right - box.left,
        "height": box.bottom - box.top,
    }
    return "; ".join(f"{name}: {100 * part:.2f}%" for name, part in edges.items())
