"""Ordinary Office files with an odd or missing part keep the text, and cells read as programs show them."""

import io
import json
import zipfile
from pathlib import Path

import docx
import pytest
import xlwt
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from openpyxl import Workbook

from carrel.wire.formats import BY_SUFFIX, UNREAD_FORMATS, NotReadKind
from service.text.extraction.cells import show_number
from service.text.extraction.failures import Unreadable
from tests import made_files

FOLDER = Path(__file__).parent / "data"
DATA = json.loads((FOLDER / "cells.json").read_text("utf-8"))
WORDS = made_files.word(title="Tides", paragraphs=[("Heading 1", "Tides"), ("List Number", "Wherry")])
SHEET = made_files.workbook(Stock=[["Tree", "Tons"], ["Pear", 3]])


def rewritten(package: bytes, change) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        entries = (change(name, archive.read(name)) for name in archive.namelist())
        return made_files.archive({name: content for name, content in entries if name})


@pytest.mark.parametrize("part", ["numbering", "styles", "theme/theme1", "settings", "fontTable", "webSettings"])
@pytest.mark.parametrize("content", [None, b"<w:broken"])
def test_a_document_without_a_part_keeps_its_text(extract, part, content):
    changed = rewritten(WORDS, lambda name, old: (name, old) if part not in name else (content and name, content))
    found = extract("a.docx", changed)
    assert [block.text.removeprefix("1. ") for block in found.blocks] == ["Tides", "Wherry"]
    assert content or {each.kind for each in found.not_read} == {NotReadKind.DETAIL}


@pytest.mark.parametrize(
    "left_out", ["docProps/core.xml", "ppt/slideLayouts/slideLayout2.xml", "ppt/slides/slide2.xml"]
)
def test_a_presentation_without_a_part_keeps_its_slides(extract, left_out):
    found = extract("a.pptx", rewritten(made_files.slides(), lambda n, old: ("" if n == left_out else n, old)))
    assert {"Harvest plan", "Pick in May"} <= {block.text for block in found.blocks}


@pytest.mark.parametrize(
    "change",
    [
        lambda name, content: (name.replace("/", "\\"), content),
        lambda name, content: ("" if name.endswith(".rels") else name, content),
        lambda name, content: ("" if "styles" in name or "theme" in name else name, content),
        lambda name, content: (name.replace("xl/", "book/"), content.replace(b"xl/", b"book/")),
        lambda name, content: (name, content.replace(b'state="visible"', b'state="show"')),
        lambda name, content: (name, content.replace(b"</sheetData>", b"<row><c><v>1<")),
        lambda name, content: (name, b"<workbook" if name.endswith("workbook.xml") else content),
        lambda name, content: (name, content.replace(b"<cellStyle ", b'<cellStyle odd="1" ')),
    ],
)
def test_a_workbook_of_an_odd_program_keeps_its_cells(texts, change):
    assert texts("a.xlsx", rewritten(SHEET, change))[1:2] == ["Tree: Pear | Tons: 3"]


@pytest.mark.parametrize(("value", "form", "shown"), DATA["numbers"])
def test_a_number_is_as_its_format_shows_it(value, form, shown):
    assert show_number(value, form) == shown


def test_cells_of_every_kind_of_workbook_are_as_they_are_shown(extract):
    book, old = Workbook(), xlwt.Workbook()
    sheet, before = book.active, old.add_sheet("S")
    for row, (value, form) in enumerate([(0.153, "0.0%"), (46023, "dd\\.mm\\.yyyy"), (1234567, "#,##0")], start=1):
        sheet.cell(row, 1, value).number_format = form
        before.write(row - 1, 0, value, xlwt.easyxf(num_format_str=form))
    shown = ["15.3% (0.153)", "01.01.2026 (2026-01-01)", "1,234,567 (1234567)"]
    files = made_files.bytes_of(book), made_files.bytes_of(old), (FOLDER / "numbers.xlsb").read_bytes()
    for name, content in zip(("a.xlsx", "a.xls", "a.xlsb"), files, strict=True):
        assert [block.text for block in extract(name, content).blocks if block.kind != "heading"] == shown, name
    found = extract("a.ods", made_files.opendocument("spreadsheet", DATA["sheet"]))
    assert [block.text for block in found.blocks] == ["S", "15.3% (0.153) | 5.00 | =A1"]
    assert [(each.kind, each.where) for each in found.not_read] == [(NotReadKind.FORMULA, ("sheet 1",))]


def test_a_damaged_sheet_is_read_before_the_damage_and_told(extract):
    content = bytearray(made_files.workbook(A=[[number, number] for number in range(9_000)]))
    content[60_000:60_009] = bytes(9)
    found = extract("a.xlsx", bytes(content))
    assert found.blocks[-1].text == f"{len(found.blocks) - 2} | {len(found.blocks) - 2}"
    assert [(each.kind, each.where) for each in found.not_read] == [(NotReadKind.DETAIL, ("rest of sheet 1",))]


@pytest.mark.parametrize("part", [b"r\x002", b"r\x009"])
def test_an_unreadable_sheet_of_a_binary_workbook_is_told(extract, part):
    book, first = (FOLDER / "numbers.xlsb").read_bytes(), b"r\x001"
    more = rewritten(book, lambda name, old: (name, old.replace(first, part) + old if first in old else old))
    found = extract("a.xlsb", more)
    assert found.blocks[1].text == "15.3% (0.153)"
    assert [(each.kind, each.where) for each in found.not_read] == [(NotReadKind.DETAIL, ("rest of sheet 1",))]


def test_formulas_that_nobody_calculated_are_shown_and_told(extract):
    book = Workbook()
    book.active.append(["Total", "=SUM(2,3)", "Northlight_x000D_\n Ferries", True, "#DIV/0!"])
    found = extract("a.xlsx", made_files.bytes_of(book))
    assert found.blocks[1].text == "Total | =SUM(2,3) | Northlight Ferries | TRUE | #DIV/0!"
    assert [(each.kind, each.count) for each in found.not_read] == [(NotReadKind.FORMULA, 1)]


@pytest.mark.parametrize("main", ["", ".main+xml"])
def test_documents_in_a_document_and_boxes_are_read_in_place(texts, main):
    document = docx.Document()
    for number, (kind, content) in enumerate(DATA["chunks"].items()):
        kind_said = kind + main * (not content)
        part = Part(PackURI(f"/word/{number}.bin"), kind_said, content.encode() or WORDS, document.part.package)
        chunk = DATA["chunk"].format(document.part.relate_to(part, DATA["relation"]))
        document.element.body.insert(number, parse_xml(chunk))
    document.element.body.insert(5, parse_xml(DATA["paragraph"]))
    content = made_files.bytes_of(document)
    damaged = rewritten(content, lambda name, old: ("" if "settings" in name else name, old))
    assert texts("a.docx", content) == texts("a.docx", damaged) == DATA["inserted"]


@pytest.mark.parametrize("each", UNREAD_FORMATS, ids=lambda each: each.name)
def test_a_refused_file_is_named_by_suffix_and_mark(extract, each):
    marked = [(int(at or 0), bytes.fromhex(mark)) for at, _, mark in (mark.rpartition(":") for mark in each.marks)]
    files = [(f"a{suffix}", bytes(range(30))) for suffix in each.suffixes if suffix not in BY_SUFFIX]
    assert len(files) == len(each.suffixes)
    for name, content in [*files, *(("a", bytes(at) + mark + bytes(40)) for at, mark in marked)]:
        with pytest.raises(Unreadable) as caught:
            extract(name, content)
        assert (caught.value.code, each.instead in caught.value.message) == ("file_type_unsupported", True), name


@pytest.mark.parametrize("said", ["sep=;\n", '"sep=;"\r\n', "\ufeffsep=;\n", "SEP=;;\n"])
def test_the_line_that_names_a_delimiter_is_no_row(texts, said):
    assert texts("a.csv", f"{said}Tree;Tons\nPear;3,5\n".encode()) == ["Tree: Pear | Tons: 3,5"]
