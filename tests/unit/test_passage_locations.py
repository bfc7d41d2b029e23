"""Addresses of passages, and passages of sheets as tables."""

import re
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.rows import rows_html
from app.ui.passages import PassageLocation, find_quote, mark_html, mark_of_quote, words_like
from carrel.wire.places import Box, PageBox, PassagePlace, Rows
from tests.harness.cases import cases

DOCUMENT, COLLECTION = UUID(int=1), UUID(int=2)
EDGES = st.floats(0, 1).map(lambda edge: float(f"{edge:.4f}"))
BOXES = st.builds(lambda *edges: Box(**dict(zip(Box.model_fields, edges, strict=True))), EDGES, EDGES, EDGES, EDGES)


def place_of(boxes: list[PageBox]) -> PassagePlace:
    pages = sorted({box.page for box in boxes})
    return PassagePlace(page=pages[0], last_page=pages[-1] if pages[1:] else None, boxes=boxes)


PAGES = st.integers(1, 10**8)
PAGE_BOXES = st.builds(lambda page, box: PageBox(page=page, **box.model_dump()), PAGES, BOXES)
PLACES = st.builds(PassagePlace, page=PAGES, box=st.none() | BOXES) | st.lists(PAGE_BOXES, min_size=2, max_size=12).map(
    place_of
)


@given(
    st.builds(
        PassageLocation,
        st.just(DOCUMENT),
        st.none() | PLACES,
        st.integers(0, 10**8),
        st.sampled_from([None, COLLECTION]),
        st.none() | st.integers(1, 10**8),
        st.text(max_size=300),
        st.text(max_size=50),
    )
)
def test_an_address_keeps_the_passage(location: PassageLocation) -> None:
    assert PassageLocation.from_address(DOCUMENT, dict(parse_qsl(location.address.partition("?")[2]))) == location


@given(st.dictionaries(st.sampled_from(["at", "chunk", "chunk_in", "version", "quoted", "search"]), st.text()))
def test_any_address_can_be_read(parameters: dict[str, str]) -> None:
    assert PassageLocation.from_address(DOCUMENT, parameters).document_id == DOCUMENT


@pytest.mark.parametrize(("text", "rows", "marked", "expected"), cases("passages_of_sheets"))
def test_a_passage_of_a_sheet_is_a_table(text, rows, marked, expected):
    shown = rows_html(text, PassagePlace(rows=Rows(first=rows[0], last=rows[1]) if rows else None), marked=marked)
    # Where a row in between is empty, which row has which number isn't known.
    table = re.sub(r"</?(?:div|table|thead|tbody)[^>]*>", "", shown).replace("<tr>", "").split("</tr>")
    cells = ["".join(part) for part in table]
    plain = "/".join(
        re.sub(r"<t[hd][^>]*>", "", row).replace("</th>", ",").replace("</td>", ",")[:-1] for row in cells if row
    )
    assert re.sub("</?mark>", "*", plain) == expected


def test_a_preview_marks_no_row_where_all_have_the_words() -> None:
    place = PassagePlace(rows=Rows(first=2, last=3))
    assert "<mark>" not in rows_html("Berth: A\nBerth: B", place, marked=["Berth"], marks_all=False)
    assert rows_html("Berth: A\nBerth: B", place, marked=["B"], marks_all=False).count("<mark>") == 1


@given(st.text(max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_an_address_tells_no_quoted_words_and_they_are_found(quote: str, before: str, after: str) -> None:
    quoted = mark_of_quote(quote)
    assert find_quote(f"{before}{quote}{after}", quoted) == quote
    assert find_quote(before, quoted) == (quote if quote in before else "")
    assert quote.isascii() or quote not in quoted


def test_words_that_are_quoted_are_marked() -> None:
    assert mark_html("a <b> c", "<b>") == "a <mark>&lt;b&gt;</mark> c"
    assert mark_html("a <b> c", "d") == mark_html("a <b> c", "") == "<mark>a &lt;b&gt; c</mark>"


@pytest.mark.parametrize(("words", "text", "marked"), cases("words_and_their_inflections_are_marked"))
def test_words_and_their_inflections_are_marked(words: list[str], text: str, marked: list[str]) -> None:
    assert [text[span.start : span.end] for span in words_like(text, words)] == marked
