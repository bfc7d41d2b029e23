# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportPrivateUsage=false
# The libraries that make the files are untyped in part.
"""The share of a file's words that are read, by format: files made by the libraries that people make them with.

Each file says the same text, and words of its own beside it: comments, notes, charts, headers, text boxes, fields. A
word counts as often as it was put in. Goals: 0.97, of slides 0.95. Run: `python -m bench.extraction`.
"""

import io
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import pypdf
from docx.document import Document
from docx.oxml import parse_xml
from fpdf import FPDF
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from pypdf.annotations import FreeText
from xlsxwriter import Workbook

from bench.report import report
from sample.organization import FOLDER
from service.text.extraction.building import Limits
from service.text.extraction.parsing import parse_file

GOAL, GOAL_OF_SLIDES = 0.97, 0.95
_WORDS = re.compile(r"\w+")
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
_MARKS = re.compile(r"[#*`_|>\[\]-]+")
TABLE = [
    ["Vessel", "Home port", "Berths"],
    ["Silver Gull", "Bergen", "155"],
    ["Blue Crane", "Narvik", "126"],
    ["Old Star", "Molde", "170"],
]
Made = tuple[bytes, list[str]]
"""A file, and the texts that it says beside the common ones."""


def prose() -> list[str]:
    """Return the paragraphs that all files say."""
    texts = (path.read_text() for path in sorted(FOLDER.rglob("*.md"))[:8])
    lines = (" ".join(_MARKS.sub(" ", line).split()) for text in texts for line in text.splitlines())
    return [line for line in lines if len(line) > 60][:60]


def word(paragraphs: list[str]) -> Made:
    """A Word document with a table in content controls, an equation, a text box, a comment and a footer."""
    beside = [
        "Commented beside the margin",
        "Printed on top",
        "Printed below",
        "Boxed in a corner",
        "Controlled cell",
        "E=mc",
    ]
    document = docx.Document()
    document.add_heading("Handbook of the fleet", 1)
    added = [document.add_paragraph(text) for text in paragraphs]
    document.add_comment(added[0].runs, text=beside[0], author="Ada")
    document.sections[0].header.paragraphs[0].text = beside[1]
    document.sections[0].footer.paragraphs[0].text = beside[2]
    table = document.add_table(rows=0, cols=3)
    for values in TABLE:
        for cell, value in zip(table.add_row().cells, values, strict=True):
            cell.text = value

    _add_xml(document, boxed=beside[3], cell=beside[4], equation=beside[5])
    return _save(document), ["Handbook of the fleet", *beside, *_cells()]


def _add_xml(document: Document, *, boxed: str, cell: str, equation: str) -> None:
    """Add what python-docx can't: a table in content controls, and a paragraph with a text box and an equation."""
    names = f'xmlns:w="{_WORD}" xmlns:m="{_MATH}" xmlns:v="urn:schemas-microsoft-com:vml"'
    texts = [f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in (cell, boxed)]
    row = f"<w:tr>{_control(f'<w:tc>{texts[0]}</w:tc>')}</w:tr>"
    box = f"<v:shape><v:textbox><w:txbxContent>{texts[1]}</w:txbxContent></v:textbox></v:shape>"
    paragraph = f"<w:p><w:r><w:pict>{box}</w:pict></w:r><m:oMath><m:r><m:t>{equation}</m:t></m:r></m:oMath></w:p>"
    controlled = _control(f"<w:tbl>{_control(row)}</w:tbl>{paragraph}").replace("<w:sdt>", f"<w:sdt {names}>", 1)
    document.element.body.insert(3, parse_xml(controlled))


def _control(xml: str) -> str:
    return f"<w:sdt><w:sdtContent>{xml}</w:sdtContent></w:sdt>"


def slides(paragraphs: list[str]) -> Made:
    """A presentation with a table, a chart, notes, and shapes in a group."""
    beside = ["Harvest of the year", "East", "West", "Spring", "Grouped deep inside", "Say this aloud"]
    made = Presentation()
    for number, text in enumerate(paragraphs, start=1):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = f"Slide number {number}"
        slide.placeholders[1].text_frame.text = text
    slide = made.slides[0]
    table = slide.shapes.add_table(len(TABLE), 3, 0, 0, Inches(6), Inches(2)).table
    for row, values in enumerate(TABLE):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    data = CategoryChartData()
    data.categories = beside[1:3]
    data.add_series(beside[3], (15, 23))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(4), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = beside[0]
    slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = beside[4]
    slide.notes_slide.notes_text_frame.text = beside[5]
    titles = [f"Slide number {number}" for number in range(1, len(paragraphs) + 1)]
    return _save(made), [*titles, *beside, "15 23", *_cells()]


def workbook(paragraphs: list[str]) -> Made:
    """A workbook with a comment, a text box, a chart, and what is printed around."""
    beside = ["Only in good years", "Boxed over cells", "Berths by vessel", "Printed on top", "Printed below"]
    buffer = io.BytesIO()
    with Workbook(buffer, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Fleet")
        for row, values in enumerate(TABLE):
            sheet.write_row(row, 0, values)
        sheet.write_comment("B2", beside[0])
        sheet.insert_textbox("F2", beside[1])
        chart = book.add_chart({"type": "bar"})
        chart.add_series({"values": "=Fleet!$C$2:$C$4"})
        chart.set_title({"name": beside[2]})
        sheet.insert_chart("H2", chart)
        sheet.set_header(f"&C{beside[3]}")
        sheet.set_footer(f"&C{beside[4]}")
        notes = book.add_worksheet("Notes")
        for row, text in enumerate(paragraphs):
            notes.write(row, 0, text)
    return buffer.getvalue(), ["Fleet Notes", *beside, *_cells()]


def pdf(paragraphs: list[str]) -> Made:
    """A PDF with a table, two columns, and notes on its pages."""
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=11)
    half = len(paragraphs) // 2
    for text in paragraphs[:half]:
        document.multi_cell(0, 5, _latin(text), new_x="LMARGIN", new_y="NEXT")
        document.ln(3)
    with document.table() as table:
        for values in TABLE:
            row = table.row()
            for value in values:
                row.cell(value)
    document.add_page()
    with document.text_columns(ncols=2, gutter=8) as columns:
        for text in paragraphs[half:]:
            columns.write(_latin(text) + "\n\n")
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(bytes(document.output())))
    writer.add_annotation(0, FreeText(text="Noted on the page", rect=(50, 50, 150, 90)))
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue(), ["Noted on the page", *_cells()]


def html(paragraphs: list[str]) -> Made:
    """A page in UTF-16 with a table, a list, and text from right to left."""
    rows = "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in values)}</tr>" for values in TABLE)
    text = "".join(f"<p>{each}</p>" for each in paragraphs)
    hebrew = "שלום לכל הספינות"
    page = f"<main><h1>Fleet</h1>{text}<p dir=rtl>{hebrew}</p><ul><li>Listed</ul><table>{rows}</table></main>"
    return page.encode("utf-16"), ["Fleet", hebrew, "Listed", *_cells()]


def mail(paragraphs: list[str]) -> Made:
    """A mail whose HTML half says more than its plain half."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Fleet", "ann@example.test", "ben@example.test"
    half = len(paragraphs) // 2
    message.set_content("\n\n".join(paragraphs[:half]))
    rows = "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in values)}</tr>" for values in TABLE)
    message.add_alternative(
        "".join(f"<p>{text}</p>" for text in paragraphs[half:]) + f"<table>{rows}</table>", subtype="html"
    )
    return bytes(message), ["Fleet", *_cells()]


def rich_text(paragraphs: list[str]) -> Made:
    """A file in RTF."""
    text = "\\par ".join(
        "".join(each if ord(each) < 128 else f"\\u{ord(each)}?" for each in text) for text in paragraphs
    )
    return f"{{\\rtf1\\ansi {text}\\par}}".encode(), []


def plain(separator: str) -> Callable[[list[str]], Made]:
    """Return a maker of files of text with a table of cells that are separated so."""
    return lambda paragraphs: ("\n\n".join([*paragraphs, *(separator.join(row) for row in TABLE)]).encode(), _cells())


MAKERS: dict[str, Callable[[list[str]], Made]] = {
    "docx": word,
    "pptx": slides,
    "xlsx": workbook,
    "pdf": pdf,
    "html": html,
    "eml": mail,
    "rtf": rich_text,
    "txt": plain(" "),
    "md": plain(" | "),
}


def measure(suffix: str) -> tuple[float, list[str]]:
    """Return the share of the words of a file of this kind that are read, and the words that aren't."""
    paragraphs = prose()
    content, beside = MAKERS[suffix](paragraphs)
    common = [_latin(text) for text in paragraphs] if suffix == "pdf" else paragraphs
    wanted = Counter(word for text in (*common, *beside) for word in _WORDS.findall(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{suffix}"
        path.write_bytes(content)
        extraction = parse_file(path, path.name, Limits())
    found = Counter(word for block in extraction.blocks for word in _WORDS.findall(block.text))
    missing = wanted - found
    return 1 - missing.total() / wanted.total(), sorted(missing)


def rows() -> Iterator[dict[str, object]]:
    """Yield a row of the report for each format."""
    for suffix in MAKERS:
        share, missing = measure(suffix)
        goal = GOAL_OF_SLIDES if suffix == "pptx" else GOAL
        yield {"format": suffix, "words read": round(share, 4), "missing": " ".join(missing[:8]), "goal": f">= {goal}"}


def _cells() -> list[str]:
    return [cell for row in TABLE for cell in row]


def _latin(text: str) -> str:
    """Return what the fonts that every PDF program has can write."""
    return text.encode("latin-1", "ignore").decode("latin-1")


def _save(file: Any) -> bytes:
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


if __name__ == "__main__":
    report("extraction", list(rows()))
