"""Questions for a row by a column, over tables in PDF, Word, Excel and HTML: the row is in the top 3."""

import csv
import io
import zipfile
from html import escape
from itertools import product
from pathlib import Path
from random import Random

import docx
from fpdf import FPDF
from openpyxl import Workbook

from tests import made_files
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded

TOP, LEAST_FOUND = 3, 38

Rows = list[list[str]]


def questions() -> list[dict[str, str]]:
    with (Path(__file__).parent / "tables" / "questions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def vessels(random: Random) -> Rows:
    ports, masters = ("Bergen", "Oslo", "Tromso", "Molde", "Larvik"), ("Ida Berg", "Kai Lie", "Per Lund", "Siri Aas")
    first, last = ("Northern", "Silver", "Quiet", "Amber", "Blue", "Grey", "Old"), ("Star", "Gull", "Crane", "Heron")
    rows = [
        [name, random.choice(ports), f"{random.randint(1957, 2019)}", f"{random.randint(12, 240)}"]
        for name in map(" ".join, product(first, (*last, "Tern", "Seal")))
    ]
    return [["Vessel", "Home port", "Built", "Berths", "Master"], *([*row, random.choice(masters)] for row in rows)]


def staff(random: Random) -> Rows:
    roles, offices = ("deckhand", "cook", "purser", "mate"), ("Quay House", "Mill Street", "Old Customs")
    first, last = "Anna Bjorn Carla David Elin Finn Greta Hakon", "Holm Solberg Strand Bakken Haugen"
    rows = [
        [name, random.choice(roles), random.choice(offices), f"{random.randint(200, 899)}"]
        for name in map(" ".join, product(first.split(), last.split()))
    ]
    header = ["Name", "Role", "Contact Office", "Contact Extension", "Started"]
    return [header, *([*row, f"{random.randint(2003, 2024)}"] for row in rows)]


def budget(random: Random) -> Rows:
    places, parts = "Canteen Workshop Laundry Library Garden Archive Reception Clinic", "east west north south central"
    header = ["Cost centre", "Owner", "2024 Plan", "2024 Spent", "2025 Plan", "2025 Spent"]
    owners = ("Kai Lie", "Jon Vik", "Odd Ness", "Eva Moe")
    rows = [[name, random.choice(owners)] for name in map(" ".join, product(places.split(), parts.split()))]
    return [header, *([*row, *(f"{random.randint(100, 990)}00" for _ in range(4))] for row in rows)]


def timetable(random: Random) -> Rows:
    towns = ("Ashford", "Birkdale", "Corran", "Dunmore", "Elsby", "Farrow", "Glenside", "Hartley")
    rows = [
        [f"Line {number}", *random.sample(towns, 2), f"{random.randint(5, 22):02}:{random.randint(0, 11) * 5:02}"]
        for number in range(13, 131, 3)
    ]
    header = ["Line", "Journey From", "Journey To", "Departs", "Platform"]
    return [header, *([*row, f"{random.randint(1, 14)}{random.choice('AB')}"] for row in rows)]


def grouped(header: list[str], *groups: str) -> tuple[list[str], list[str]]:
    pairs = [
        next(((group, name[len(group) + 1 :]) for group in groups if name.startswith(f"{group} ")), ("", name))
        for name in header
    ]
    return [upper for upper, _ in pairs], [lower for _, lower in pairs]


def pdf(rows: Rows) -> bytes:
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=11)
    document.multi_cell(0, 6, "The register lists every vessel of the fleet. " * 8, new_x="LMARGIN", new_y="NEXT")
    with document.table() as table:
        for cells in rows:
            row = table.row()
            for cell in cells:
                row.cell(cell)
    document.multi_cell(0, 6, "It is renewed in spring, when the ice has gone. " * 8, new_x="LMARGIN", new_y="NEXT")
    assert document.page == 2
    return bytes(document.output())


def word(rows: Rows) -> bytes:
    upper, lower = grouped(rows[0], "Contact")
    document = docx.Document()
    table = document.add_table(rows=0, cols=len(lower))
    for values in (upper, lower, *rows[1:]):
        for cell, value in zip(table.add_row().cells, values, strict=True):
            cell.text = value
    first, last = upper.index("Contact"), len(upper) - 1 - upper[::-1].index("Contact")
    table.cell(0, last).text = ""
    table.cell(0, first).merge(table.cell(0, last)).text = "Contact"
    for number, name in enumerate(lower):
        if not upper[number]:
            table.cell(1, number).text = ""
            table.cell(0, number).merge(table.cell(1, number)).text = name
    buffer = io.BytesIO()
    document.save(buffer)
    part = "word/document.xml"
    with zipfile.ZipFile(buffer) as package:
        # python-docx can't mark rows as a header.
        text = package.read(part).replace(b"<w:tr>", b"<w:tr><w:trPr><w:tblHeader/></w:trPr>", 2)
    return made_files.with_part(buffer.getvalue(), part, text)


def excel(rows: Rows) -> bytes:
    upper, lower = grouped(rows[0], "2024", "2025")
    workbook = Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.append(["Cost centres of two years"])
    sheet.append([value if value and value not in upper[:number] else None for number, value in enumerate(upper)])
    sheet.append(lower)
    for values in rows[1:]:
        sheet.append([int(value) if value.isdecimal() else value for value in values])
    sheet.merge_cells("A1:F1")
    sheet.merge_cells("C2:D2")
    sheet.merge_cells("E2:F2")
    buffer = io.BytesIO()
    workbook.save(buffer)
    return buffer.getvalue()


def html(rows: Rows) -> bytes:
    upper, lower = grouped(rows[0], "Journey")
    head = "".join(
        f"<th colspan=2>{group}</th>" if group else f"<th rowspan=2>{name}</th>"
        for number, (group, name) in enumerate(zip(upper, lower, strict=True))
        if not group or group not in upper[:number]
    )
    below = "".join(f"<th>{name}</th>" for group, name in zip(upper, lower, strict=True) if group)
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in rows[1:])
    return f"<h1>Timetable</h1><table><tr>{head}</tr><tr>{below}</tr>{body}</table>".encode()


TABLES = ((vessels, pdf, "pdf"), (staff, word, "docx"), (budget, excel, "xlsx"), (timetable, html, "html"))


def test_questions_for_a_row_by_a_column_find_the_row(service) -> None:
    collection_id = create_collection(service, "tables")
    rows: dict[str, Rows] = {}
    for make_rows, make_file, suffix in TABLES:
        name = make_rows.__name__
        rows[name] = make_rows(Random(name))  # noqa: S311 - the same rows each time
        document_id = uploaded(service, name, make_file(rows[name]), file_name=f"{name}.{suffix}")["documentId"]
        ok(add_to_collection(service, document_id, collection_id))
    missed: list[str] = []
    for question in questions():
        names, *values = rows[question["table"]]
        [row] = [each for each in values if each[0] == question["row"]]
        column = question["column"]
        wanted = f"{names[0]}: {row[0]} | ", f"{column}: {row[names.index(column)]}"
        body = {
            "documentCollectionId": collection_id,
            "searchQuery": question["question"],
            "searchOptions": {"maxChunks": TOP},
        }
        found = ok(service.call("search/searchDocumentCollection", body))["results"]
        lines = [line for result in found for chunk in result["chunks"] for line in chunk["text"].splitlines()]
        if not any(all(words in f"{line} | " for words in wanted) for line in lines):
            missed.append(question["question"])
    assert len(questions()) - len(missed) >= LEAST_FOUND, missed
