"""What files keep beside their running text is found: notes, comments, charts, boxes, form fields, second halves."""

import datetime as dt
import io
from email.message import EmailMessage

import docx
import pypdf
import pytest
from docx.oxml import parse_xml
from openpyxl import Workbook
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.util import Inches
from pypdf.annotations import FreeText
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject

from service.text.extraction.building import Limits
from service.text.extraction.parsing import parse_file
from tests import made_files

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.fixture
def texts(tmp_path):
    """Return a function that gives the texts of a file's blocks."""

    def run(name: str, content: bytes) -> list[str]:
        path = made_files.saved(tmp_path, "file", content)
        return [block.text for block in parse_file(path, name, Limits()).blocks]

    return run


def saved(file) -> bytes:
    """Return the bytes of a file that its library saves."""
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


def body(xml: str) -> bytes:
    """Return a Word document with this body."""
    document = f'<w:document xmlns:w="{WORD}" xmlns:m="{MATH}"><w:body>{xml}</w:body></w:document>'
    return made_files.with_part(made_files.word(), "word/document.xml", document.encode())


def words(text: str) -> str:
    """Return a Word paragraph."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_word_rows_and_cells_in_content_controls(texts):
    """Content controls around rows and around cells hide nothing."""

    def control(xml: str) -> str:
        return f"<w:sdt><w:sdtContent>{xml}</w:sdtContent></w:sdt>"

    def cell(text: str) -> str:
        return f"<w:tc>{words(text)}</w:tc>"

    rows = (
        f"<w:tr>{cell('Tree')}{control(cell('Month'))}</w:tr>"
        + control(f"<w:tr>{cell('Pear')}{control(cell('May'))}</w:tr>")
        + control(control(f"<w:tr>{cell('Plum')}{cell('June')}</w:tr>"))
    )
    assert texts("a.docx", body(f"<w:tbl>{rows}</w:tbl>")) == ["Tree: Pear | Month: May", "Tree: Plum | Month: June"]


def test_word_equations_are_text_and_what_moved_away_is_not(texts):
    """The letters of an equation are read; text that moved is read where it went."""
    xml = (
        "<w:p><w:r><w:t>Area </w:t></w:r><m:oMath><m:r><m:t>A=ab</m:t></m:r></m:oMath>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom></w:p>"
        "<w:p><w:moveTo><w:r><w:t>moved</w:t></w:r></w:moveTo></w:p>"
    )
    assert texts("a.docx", body(xml)) == ["Area A=ab", "moved"]


def test_word_headers_come_once_and_comments_beside_their_text(texts):
    """Equal headers of two sections are one; a comment follows the paragraph that it is about."""
    document = docx.Document()
    paragraph = document.add_paragraph("Pears ripen late.")
    document.add_comment(paragraph.runs, text="Which variety?", author="Ada")
    document.sections[0].header.paragraphs[0].text = "Orchard Ltd"
    section = document.add_section()
    section.header.is_linked_to_previous = False
    section.header.paragraphs[0].text = "Orchard Ltd"
    section.footer.paragraphs[0].text = "Confidential"
    document.add_paragraph("Plums ripen early.")
    assert texts("a.docx", saved(document)) == [
        "Pears ripen late.",
        "Which variety?",
        "Plums ripen early.",
        "Orchard Ltd",
        "Confidential",
    ]


def test_word_footnotes_follow_their_paragraph(texts):
    """A footnote stands behind the paragraph that refers to it, not at the end."""
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    content = body(f"<w:p><w:r><w:t>first</w:t></w:r>{reference}</w:p>{words('second')}")
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2">{words("noted")}</w:footnote></w:footnotes>'
    content = made_files.with_part(content, "word/footnotes.xml", notes.encode())
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{RELATIONS}/footnotes" Target="footnotes.xml"/>'
        f'<Relationship Id="r2" Type="{RELATIONS}/styles" Target="styles.xml"/></Relationships>'
    )
    content = made_files.with_part(content, "word/_rels/document.xml.rels", relations.encode())
    assert texts("a.docx", content) == ["first", "noted", "second"]


def presentation() -> Presentation:
    """Return a presentation of two slides with titles."""
    made = Presentation()
    for title in ("One", "Two"):
        made.slides.add_slide(made.slide_layouts[5]).shapes.title.text = title
    return made


def test_slides_have_charts_groups_and_comments(texts):
    """A chart gives its title and a row for each category; groups in groups are read; comments are, too."""
    made = presentation()
    shapes = made.slides[0].shapes
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Spring", (1.5, 2))
    data.add_series("Autumn", (3, 4))
    chart = shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(4), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Harvest"
    group = shapes.add_group_shape().shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "grouped"
    part = made.slides[0].part
    comments = (
        b'<p:cmLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main">'
        b"<p:cm><p:text>Too small</p:text></p:cm></p:cmLst>"
    )
    kind = "application/vnd.openxmlformats-officedocument.presentationml.comments+xml"
    added = Part(PackURI("/ppt/comments/comment1.xml"), kind, part.package, comments)
    part.relate_to(added, RELATIONSHIP_TYPE.COMMENTS)
    assert texts("a.pptx", saved(made)) == [
        "One",
        "Harvest",
        "East | Spring: 1.5 | Autumn: 3",
        "West | Spring: 2 | Autumn: 4",
        "grouped",
        "Too small",
        "Two",
    ]


def test_workbooks_have_comments_charts_and_headers(texts):
    """What stands beside the cells of a sheet follows its rows; codes of a header are not text."""
    workbook = Workbook()
    sheet = workbook.active
    for row in (["Tree", "Tons"], ["Pear", 3], ["Plum", 4]):
        sheet.append(row)
    sheet["A2"].comment = Comment("Only in good years", "Ada")
    sheet.oddHeader.center.text = "Orchard & sons, page &P"
    chart = BarChart()
    chart.title = "Harvest"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D1")
    found = texts("a.xlsx", saved(workbook))
    assert found[:3] == ["Sheet", "Tree: Pear | Tons: 3", "Tree: Plum | Tons: 4"]
    assert sorted(found[3:]) == ["Harvest", "Only in good years", "Orchard & sons, page"]


def test_pdf_form_fields_and_notes(texts):
    """A filled field is read with its name, and a note by its text, on pages without any other text."""
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(300, 300)
    field = {"/Type": "/Annot", "/Subtype": "/Widget", "/FT": "/Tx"}
    made = DictionaryObject({NameObject(key): NameObject(value) for key, value in field.items()})
    made[NameObject("/T")], made[NameObject("/V")] = TextStringObject("Owner"), TextStringObject("Ada Löwe")
    made[NameObject("/Rect")] = ArrayObject(NumberObject(value) for value in (10, 10, 100, 30))
    reference = writer._add_object(made)
    page[NameObject("/Annots")] = ArrayObject([reference])
    writer.root_object[NameObject("/AcroForm")] = DictionaryObject({NameObject("/Fields"): ArrayObject([reference])})
    writer.add_annotation(0, FreeText(text="Prune in March", rect=(50, 50, 150, 90)))
    buffer = io.BytesIO()
    writer.write(buffer)
    assert texts("a.pdf", buffer.getvalue()) == ["Owner: Ada Löwe", "Prune in March"]


def test_both_halves_of_a_mail(texts):
    """What only the HTML half says is added to the plain half, and what both say is there once."""
    message = EmailMessage()
    message["Subject"] = "Harvest"
    message.set_content("The pears are ripe.")
    message.add_alternative("<p>The <b>pears</b> are ripe.</p><p>Crates stand in the barn.</p>", subtype="html")
    assert texts("a.eml", message.as_bytes())[-2:] == ["The pears are ripe.", "Crates stand in the barn."]


@pytest.mark.parametrize("name", ["a.html", "page"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_html_in_utf16(texts, name, encoding):
    """A page in UTF-16 is read with and without a byte order mark, whatever it says of its encoding."""
    page = '<!doctype html><meta charset="iso-8859-1"><p>Äpfel und Birnen stehen im Garten hinter dem Haus.</p>'
    assert texts(name, page.encode(encoding)) == ["Äpfel und Birnen stehen im Garten hinter dem Haus."]


def numbered(*levels: str, styled: str = "", overrides: str = "", restart: str = "") -> bytes:
    """Return a Word document of paragraphs in a list of three levels: each paragraph's level, or a style's name."""
    forms = [("decimal", "%1."), ("decimal", "%1.%2"), ("lowerRoman", "(%3)")]
    defined = "".join(
        f'<w:lvl w:ilvl="{place}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        + (f'<w:pStyle w:val="{styled.replace(" ", "")}"/>' if styled and place == 1 else "")
        + f'<w:lvlText w:val="{text}"/></w:lvl>'
        for place, (form, text) in enumerate(forms)
    ).replace('<w:lvlText w:val="(%3)"/>', f'{restart}<w:lvlText w:val="(%3)"/>')
    bullets = '<w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl>'
    uses = "".join(
        f'<w:num w:numId="{use}"><w:abstractNumId w:val="{used}"/>{changed}</w:num>'
        for use, used, changed in ((71, 70, ""), (72, 70, overrides), (73, 73, ""))
    )
    document = docx.Document()
    numbering = document.part.numbering_part.element
    for number, content in ((70, defined), (73, bullets)):
        made = f'<w:abstractNum xmlns:w="{WORD}" w:abstractNumId="{number}">{content}</w:abstractNum>'
        numbering.insert(0, parse_xml(made))
    for use in parse_xml(f'<w:numbering xmlns:w="{WORD}">{uses}</w:numbering>'):
        numbering.append(use)
    if styled:
        style = document.styles[styled].element
        style.get_or_add_pPr().append(parse_xml(f'<w:numPr xmlns:w="{WORD}"><w:numId w:val="71"/></w:numPr>'))
    for level in levels:
        use, _, place = level.rpartition(":")
        paragraph = document.add_paragraph(
            f"at {level}" if level != "0 " else "", style=None if place.strip().isdecimal() else level
        )
        if place.strip().isdecimal():
            said = (
                f'<w:numPr xmlns:w="{WORD}"><w:ilvl w:val="{place.strip()}"/><w:numId w:val="{use or 71}"/></w:numPr>'
            )
            paragraph._p.get_or_add_pPr().append(parse_xml(said))
    return saved(document)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            numbered("0", "1", "1", "2", "2", "0", "1"),
            ["1. at 0", "1.1 at 1", "1.2 at 1", "(i) at 2", "(ii) at 2", "2. at 0", "2.1 at 1"],
        ),
        (numbered("0", "1", "2", "1", "2"), ["1. at 0", "1.1 at 1", "(i) at 2", "1.2 at 1", "(i) at 2"]),
        (
            numbered("0", "1", "2", "1", "2", "0", "2", restart='<w:lvlRestart w:val="1"/>'),
            ["1. at 0", "1.1 at 1", "(i) at 2", "1.2 at 1", "(ii) at 2", "2. at 0", "(i) at 2"],
        ),
        (
            numbered("0", "2", "0", "2", restart='<w:lvlRestart w:val="0"/>'),
            ["1. at 0", "(i) at 2", "2. at 0", "(ii) at 2"],
        ),
        (numbered("0", "0 ", "0", "73:0"), ["1. at 0", "3. at 0", "- at 73:0"]),
        (numbered("0", "72:0"), ["1. at 0", "2. at 72:0"]),
        (
            numbered(
                "0",
                "0",
                "72:0",
                "72:0",
                overrides='<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>',
            ),
            ["1. at 0", "2. at 0", "7. at 72:0", "8. at 72:0"],
        ),
        (
            numbered("0", "Heading 2", "Heading 2", styled="Heading 2"),
            ["1. at 0", "1.1 at Heading 2", "1.2 at Heading 2"],
        ),
        (numbered("99:0", "71:0"), ["at 99:0", "1. at 71:0"]),
    ],
)
def test_lists_have_the_numbers_that_word_shows(texts, content, expected):
    """Numbers count on and begin anew as they do in Word, also by styles and past empty items; bullets are hyphens."""
    assert texts("a.docx", content) == expected


def test_numbers_of_charts_are_as_they_are_shown(texts):
    """Dates, percent and rounding follow the format of the data; categories that are text stay as they are."""
    made = Presentation()
    data = CategoryChartData(number_format="0.0%")
    data.categories = ["007", "East"]
    data.add_series("Share", (0.155, 0.29000000000000004))
    dates = CategoryChartData()
    dates.categories = [dt.date(2026, 1, 5)]
    dates.add_series("Tons", (8.200000000000001,))
    for each in (data, dates):
        slide = made.slides.add_slide(made.slide_layouts[6])
        slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(4), each)
    rows = texts("a.pptx", saved(made))
    assert "007 | Share: 15.5%" in rows
    assert "East | Share: 29.0%" in rows
    assert "2026-01-05 | Tons: 8.2" in rows
