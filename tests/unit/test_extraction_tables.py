"""Tables keep rows, and cells the names of columns: in PDFs by alignment, elsewhere by spans."""

from collections import Counter
from collections.abc import Sequence

import pytest
from fpdf import FPDF
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.text.extraction.blocks import Block
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.html_pages import add_html
from service.text.extraction.pdf_layout import Line, Table, add_pages
from service.text.extraction.pdf_tables import TableArea, find_tables, reads_as_table
from service.text.extraction.tabular import TableWriter
from tests.harness.cases import cases

PROSE = "The harbour master writes down who comes and who goes, and at noon he reads the glass. "
HEADER = ["Vessel", "Home port", "Built"]
WORDS = st.lists(st.sampled_from(["ferry", "x", "1,204", "Kai", "north", "2019-05-01", "(a)", "50 %"]), max_size=6)


@pytest.fixture
def blocks_of(extract):
    return lambda document: extract("a.pdf", bytes(document.output())).blocks


def page() -> FPDF:
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=10)
    return document


def add_table(document: FPDF, rows: Sequence[Sequence[str]], **options: object) -> None:
    with document.table(**options) as table:  # pyright: ignore[reportArgumentType]
        for cells in rows:
            row = table.row()
            for cell in cells:
                row.cell(cell)


def rows_of(blocks: Sequence[Block]) -> list[str]:
    return [block.text for block in blocks if block.kind == "table_row"]


def test_a_pdf_table_over_two_pages_is_one(blocks_of):
    document = page()
    document.multi_cell(0, 5, PROSE * 4, new_x="LMARGIN", new_y="NEXT")
    port = "Bergen harbour on the north side of the old wall"
    rows = [[f"Gull {number}", port, str(1900 + number)] for number in range(30)]
    add_table(document, [HEADER, *rows], repeat_headings=0)
    document.multi_cell(0, 5, PROSE * 4, new_x="LMARGIN", new_y="NEXT")
    blocks = blocks_of(document)
    assert rows_of(blocks) == [f"Vessel: {name} | Home port: {port} | Built: {year}" for name, port, year in rows]
    assert {block.page for block in blocks if block.kind == "table_row"} == {1, 2}
    assert [block.text for block in blocks if block.kind == "paragraph"] == [(PROSE * 4).strip()] * 2
    assert all(block.box is not None for block in blocks)


def test_words_divided_at_the_end_of_a_line_are_whole(blocks_of):
    document = page()
    document.multi_cell(0, 5, "A har-\nbour lies here.", new_x="LMARGIN", new_y="NEXT")
    document.ln(20)
    add_table(document, [HEADER, *([f"Gull {number}", "The north light-\nhouse", "1900"] for number in range(6))])
    [prose, *rows] = [block.text for block in blocks_of(document)]
    assert prose == "A harbour lies here."
    assert {row.split(" | ")[1] for row in rows} == {"Home port: The north lighthouse"}


def test_a_run_of_lines_all_but_one_of_which_stand_across_its_columns_is_no_table() -> None:
    across = [(left, 12 * row, left + 70, 12 * row + 10) for row in range(3) for left in (0, 80)]
    assert find_tables([*across, *((left, 36, left + 30, 46) for left in range(0, 160, 40))]) == []


def test_tables_whose_lines_come_by_turns_are_added_once() -> None:
    area = TableArea([(0, 0, 9, 9)] * 2, [(0, 4), (6, 9)], (0, 0, 9, 9))
    tables = [Table([[f"Name {number}", "Year"], ["Gull", "1900"]], [(0, 0, 1, 1)] * 2, area) for number in range(2)]
    builder = BlockBuilder(Limits())
    add_pages([[Line("x", table=table) for table in (*tables, *tables)]], builder)
    assert rows_of(builder.blocks) == ["Name 0: Gull | Year: 1900", "Name 1: Gull | Year: 1900"]


@pytest.mark.parametrize("line", [f"{{0}}. {PROSE[:60]}", f"Chapter {{0}}{' .' * 60} {{0}}7"])
def test_lists_and_contents_are_no_tables(blocks_of, line):
    document = page()
    for number in range(1, 9):
        first, _, rest = line.format(number).partition(" ")
        document.cell(20, 6, first)
        document.cell(0, 6, rest, new_x="LMARGIN", new_y="NEXT")
    assert rows_of(blocks_of(document)) == []


def test_columns_of_prose_are_no_table(blocks_of):
    document = page()
    with document.text_columns(ncols=2, gutter=10) as columns:
        columns.write(PROSE * 99)
    assert rows_of(blocks_of(document)) == []


@given(
    cells=st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=12),
    borders=st.sampled_from(["ALL", "NONE"]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pdf_table_loses_no_words(blocks_of, cells, borders):
    document = page()
    rows = [[" ".join(words) for words in row] for row in cells]
    add_table(document, [HEADER, *rows], borders_layout=borders)
    said = Counter(word.strip(":") for block in blocks_of(document) for word in block.text.split())
    wanted = Counter(word.strip(":") for row in rows for cell in row for word in cell.split())
    assert not wanted - said


def written(*rows: Sequence[str], headers: int = 0) -> list[str]:
    """Return the text of a table with these rows; the first `headers` rows are headers."""
    builder = BlockBuilder(Limits())
    writer = TableWriter(builder)
    for number, row in enumerate(rows):
        writer.row(row, header=number < headers)
    writer.close()
    return [block.text for block in builder.blocks]


@pytest.mark.parametrize(("rows", "headers", "expected"), cases("cells_have_the_names_of_their_columns"))
def test_cells_have_the_names_of_their_columns(rows, headers, expected):
    assert written(*rows, headers=headers) == expected


def test_spans_of_pages_stand_in_each_column_and_row() -> None:
    builder = BlockBuilder(Limits())
    add_html(
        "<table><tr><th rowspan=2>Line<th colspan=2>Journey</tr><tr><th>From<th>To</tr>"
        "<tr><td rowspan=2>7<td>A<td>B</tr><tr><td>C<td colspan=1000000>D</tr></table>",
        builder,
    )
    texts = [block.text for block in builder.blocks]
    assert texts[0] == "Line: 7 | Journey From: A | Journey To: B"
    assert texts[1].startswith("Line: 7 | Journey From: C | Journey To: D")
    assert len(texts[1]) < 200


@pytest.mark.parametrize("count", [2, 4])
def test_what_a_browser_prints_at_the_edges_is_no_row_of_a_table(blocks_of, count):
    document = page()
    document.set_auto_page_break(False)
    for number in range(count):
        document.add_page() if number else None
        printed = [
            (6, ["29/11/2026, 09:12", "", "Fleet report"]),
            (288, ["file:///r.html", "", f"{number + 1}/{count}"]),
        ]
        rows = [(14 + 5.6 * row, [f"Gull {number}{row}", "Bergen", "1900"] if row else HEADER) for row in range(48)]
        for y, cells in [*printed, *rows]:
            for x, cell in zip((12, 90, 160), cells, strict=True):
                document.text(x, y, cell)
    blocks = blocks_of(document)
    names = [f"Gull {number}{row}" for number in range(count) for row in range(1, 48)]
    assert rows_of(blocks) == [f"Vessel: {name} | Home port: Bergen | Built: 1900" for name in names]
    assert [block.text for block in blocks if block.kind == "paragraph"] == ["29/11/2026, 09:12 Fleet report"]


def test_a_sentence_goes_on_over_a_page_and_a_font(extract):
    document = page()
    document.multi_cell(0, 5, PROSE * 99)
    found = extract("a.pdf", bytes(document.output())).blocks
    assert [block.page for block in found] == [1, 2]
    assert all(block.text.endswith("glass.") for block in found)
    assert " ".join(block.text for block in found) == (PROSE * 99).strip()
    builder = BlockBuilder(Limits())
    add_pages(
        [[Line("He writes to the", 700, 710), Line("Harbour Office", 688, 699), Line("today.", 676, 686)]], builder
    )
    assert [block.text for block in builder.blocks] == ["He writes to the Harbour Office today."]


def test_columns_of_prose_with_few_words_a_line_are_no_table():
    assert not reads_as_table(
        [["the pier is", "nobody may"], ["closed at", "enter it, not"], ["night, and", "even by day"]]
    )
