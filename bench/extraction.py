# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportPrivateUsage=false
# The libraries that make the files are untyped in part.
"""The share of a file's words that are read, by format: files made by the libraries that people make them with.

Each file says the same text, and words of its own beside it: comments, notes, charts, headers, text boxes, fields. A
word counts as often as it was put in. The files in `office` say what is in the text files there: LibreOffice 7.4 made
them from the flat OpenDocument files beside them, by `soffice --convert-to`, less their pictures of the first page;
so it did `drawn`, `pictures` and `lists`, which tests use.
Goals: 0.97, of less usual formats 0.95. Run: `python -m bench.extraction`.
"""

import io
import json
import mailbox
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from html import escape
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
from service.text.extraction.blocks import Extraction
from service.text.extraction.building import Limits
from service.text.extraction.parsing import parse_file

OFFICE = Path(__file__).parent / "office"
"""Files that LibreOffice made."""
_SAID = {
    "document": ("odt", "doc", "docx", "rtf"),
    "workbook": ("ods", "xls", "xlsx"),
    "slides": ("odp", "ppt", "pptx"),
}
_USUAL = frozenset(["pdf", "docx", "html", "xlsx", "eml", "txt", "md", "doc", "ods", "ppt", "xls"])
# Of the names in a package, Strict Open XML keeps those of relationships and types of content.
_STRICT_NAMES = rb"http://schemas\.openxmlformats\.org/(?!package/|markup-compatibility/)(\w+)/2006/"
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


def mails(paragraphs: list[str]) -> Made:
    """A mailbox of two messages."""
    content, beside = mail(paragraphs)
    with tempfile.TemporaryDirectory() as folder:
        box = mailbox.mbox(Path(folder) / "box")
        for message in (content, b"Subject: Second\nFrom: ben@example.test\n\nFrom here on, all is well.\n"):
            box.add(message)
        box.close()
        return (Path(folder) / "box").read_bytes(), [*beside, "Second", "From here on, all is well."]


def book(paragraphs: list[str]) -> Made:
    """An e-book of two chapters with a table and a note."""
    half = len(paragraphs) // 2
    rows = "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in values)}</tr>" for values in TABLE)
    chapters = [
        "<h1>Fleet</h1>" + "".join(f"<p>{escape(text)}</p>" for text in paragraphs[:half]),
        "".join(f"<p>{escape(text)}</p>" for text in paragraphs[half:]) + f"<table>{rows}</table><aside>Noted</aside>",
    ]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("mimetype", "application/epub+zip")
        packed.writestr("META-INF/container.xml", _CONTAINER)
        packed.writestr("book.opf", _PACKAGE)
        for number, chapter in enumerate(chapters):
            page = f'<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>{chapter}</body></html>'
            packed.writestr(f"{number}.xhtml", page)
    return buffer.getvalue(), ["Fleet", "Noted", *_cells()]


_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles><rootfile '
    'full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
_PACKAGE = (
    '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i"><metadata '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Fleet</dc:title><dc:identifier id="i">1</dc:identifier>'
    '</metadata><manifest><item id="a" href="0.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="b" href="1.xhtml" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
)


def notebook(paragraphs: list[str]) -> Made:
    """A notebook of text, code and what the code printed."""
    printed = {"output_type": "stream", "name": "stdout", "text": ["451 berths\n"]}
    cells = [
        *({"cell_type": "markdown", "metadata": {}, "source": text} for text in paragraphs),
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "berths = 451", "outputs": [printed]},
    ]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content).encode(), ["berths = 451", "451 berths"]


def xml(paragraphs: list[str]) -> Made:
    """An XML document of records and of text with markup in it."""
    records = "".join(f"<ship><name>{row[0]}</name><port>{row[1]}</port></ship>" for row in TABLE[1:])
    text = "".join(f"<para>{escape(text)} <em>indeed</em></para>" for text in paragraphs)
    values = [value for row in TABLE[1:] for value in row[:2]]
    return f"<fleet><ships>{records}</ships><text>{text}</text></fleet>".encode(), [
        *values,
        *["indeed"] * len(paragraphs),
    ]


def tex(paragraphs: list[str]) -> Made:
    """A document in LaTeX with a note, a table and an emphasis."""
    text = "\n\n".join(re.sub(r"([&%$#_{}])", r"\\\1", each) for each in paragraphs)
    rows = "".join(" & ".join(row) + r" \\ " for row in TABLE)
    table = rf"\begin{{tabular}}{{lll}}{rows}\end{{tabular}}"
    body = rf"\section{{Fleet}} {text}\footnote{{Noted below}} \emph{{Indeed}} {table}"
    return rf"\documentclass{{article}}\begin{{document}}{body}\end{{document}}".encode(), [
        *("Fleet", "Noted below", "Indeed"),
        *_cells(),
    ]


def svg(paragraphs: list[str]) -> Made:
    """A drawing with a title, a description, texts in groups, and HTML within."""
    beside = ["Harbour plan", "Drawn for the crew", "Boxed in a corner"]
    title, description, boxed = beside
    texts = "".join(f"<g><text x='1' y='1'>{escape(each)}</text></g>" for each in paragraphs)
    box = f"<foreignObject><div xmlns='http://www.w3.org/1999/xhtml'>{boxed}</div></foreignObject>"
    said = f"<title>{title}</title><desc>{description}</desc>{texts}{box}"
    return f"<svg xmlns='http://www.w3.org/2000/svg'>{said}</svg>".encode(), beside


def outline(heading: str) -> Callable[[list[str]], Made]:
    """Return a maker of files of text under a heading that is written so."""
    return lambda paragraphs: (
        "\n\n".join([heading, *paragraphs, "- Listed first"]).encode(),
        ["Fleet", "Listed first"],
    )


MAKERS: dict[str, Callable[[list[str]], Made]] = {
    "docx": word,
    "pptx": slides,
    "xlsx": workbook,
    "pdf": pdf,
    "html": html,
    "eml": mail,
    "mbox": mails,
    "rtf": rich_text,
    "epub": book,
    "ipynb": notebook,
    "xml": xml,
    "svg": svg,
    "tex": tex,
    "rst": outline("Fleet\n====="),
    "org": outline("* Fleet"),
    "txt": plain(" "),
    "md": plain(" | "),
}
FILES = {
    **{f"{suffix} of LibreOffice": (suffix, said) for said, suffixes in _SAID.items() for suffix in suffixes},
    "strict docx": ("docx", "document"),
    "strict xlsx": ("xlsx", "workbook"),
}


def measure(name: str) -> tuple[float, list[str]]:
    """Return the share of the words of a file of this kind that are read, and the words that aren't."""
    wanted = Counter(word for text in make_file(name)[2] for word in _WORDS.findall(text))
    found = Counter(word for block in read_file(name).blocks for word in _WORDS.findall(block.text))
    missing = wanted - found
    return 1 - missing.total() / wanted.total(), sorted(missing)


def read_file(name: str) -> Extraction:
    """Return what is read of a file of this kind."""
    suffix, content, _ = make_file(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{suffix}"
        path.write_bytes(content)
        return parse_file(path, path.name, Limits())


def make_file(name: str) -> tuple[str, bytes, list[str]]:
    """Return the suffix, the content and the texts of a file."""
    if name in FILES:
        suffix, said = FILES[name]
        content = (OFFICE / f"fleet.{suffix}").read_bytes()
        texts = (OFFICE / f"{said}.txt").read_text().splitlines()
        return suffix, _strict(content) if name.startswith("strict") else content, texts
    paragraphs = prose()
    content, beside = MAKERS[name](paragraphs)
    return name, content, [*(map(_latin, paragraphs) if name == "pdf" else paragraphs), *beside]


def goal(name: str) -> float:
    """Return the least share of the words that are to be read."""
    return 0.97 if (FILES[name][0] if name in FILES else name) in _USUAL else 0.95


def _strict(content: bytes) -> bytes:
    """Return an Office file with the names of Strict Open XML."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as plain_file, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for each in plain_file.namelist():
            part = plain_file.read(each)
            made.writestr(each, re.sub(_STRICT_NAMES, rb"http://purl.oclc.org/ooxml/\1/", part))
    return buffer.getvalue()


def rows() -> Iterator[dict[str, object]]:
    """Yield a row of the report for each format."""
    for name in (*MAKERS, *FILES):
        share, missing = measure(name)
        yield {
            "file": name,
            "words read": round(share, 4),
            "missing": " ".join(missing[:8]),
            "goal": f">= {goal(name)}",
        }


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
