"""Contents outside the running text are found: notes, comments, charts, fields, and numbers of lists."""

import datetime as dt
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

from bench.extraction import OFFICE
from tests import made_files
from tests.harness.cases import cases

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def body(xml: str) -> bytes:
    document = f'<w:document xmlns:w="{WORD}" xmlns:m="{MATH}"><w:body>{xml}</w:body></w:document>'
    return made_files.with_part(made_files.word(), "word/document.xml", document.encode())


def words(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_word_rows_and_cells_in_content_controls(texts):
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
    xml = (
        "<w:p><w:r><w:t>Area </w:t></w:r><m:oMath><m:r><m:t>A=ab</m:t></m:r></m:oMath>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom></w:p>"
        "<w:p><w:moveTo><w:r><w:t>moved</w:t></w:r></w:moveTo></w:p>"
    )
    assert texts("a.docx", body(xml)) == ["Area A=ab", "moved"]


def test_word_headers_come_once_and_comments_beside_their_text(texts):
    document = docx.Document()
    document.add_comment(document.add_paragraph("Pears ripen late.").runs, text="Which variety?", author="Ada")
    document.sections[0].header.paragraphs[0].text = "Orchard Ltd"
    section = document.add_section()
    section.header.is_linked_to_previous = False
    section.header.paragraphs[0].text = "Orchard Ltd"
    section.footer.paragraphs[0].text = "Confidential"
    document.add_paragraph("Plums ripen early.")
    assert texts("a.docx", made_files.bytes_of(document)) == [
        "Pears ripen late.",
        "Which variety?",
        "Plums ripen early.",
        "Orchard Ltd",
        "Confidential",
    ]


def test_word_footnotes_follow_their_paragraph(texts):
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    content = body(f"<w:p><w:r><w:t>first</w:t></w:r>{reference}</w:p>{words('second')}")
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2">{words("noted")}</w:footnote></w:footnotes>'
    content = made_files.with_part(content, "word/footnotes.xml", notes.encode())
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{kind}/footnotes" Target="footnotes.xml"/>'
        f'<Relationship Id="r2" Type="{kind}/styles" Target="styles.xml"/></Relationships>'
    )
    content = made_files.with_part(content, "word/_rels/document.xml.rels", relations.encode())
    assert texts("a.docx", content) == ["first", "noted", "second"]


def test_slides_have_charts_groups_and_comments(texts):
    made = Presentation()
    first, second = (made.slides.add_slide(made.slide_layouts[5]) for _ in range(2))
    first.shapes.title.text, second.shapes.title.text = "One", "Two"
    shapes, part = first.shapes, first.part
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Spring", (1.5, 2))
    data.add_series("Autumn", (3, 4))
    chart = shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(4), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Harvest"
    shapes.add_group_shape().shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = "grouped"
    comments = (
        b'<p:cmLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main">'
        b"<p:cm><p:text>Too small</p:text></p:cm></p:cmLst>"
    )
    kind = "application/vnd.openxmlformats-officedocument.presentationml.comments+xml"
    added = Part(PackURI("/ppt/comments/comment1.xml"), kind, part.package, comments)
    part.relate_to(added, RELATIONSHIP_TYPE.COMMENTS)
    assert texts("a.pptx", made_files.bytes_of(made)) == [
        "One",
        "Harvest",
        "East | Spring: 1.5 | Autumn: 3",
        "West | Spring: 2 | Autumn: 4",
        "grouped",
        "Too small",
        "Two",
    ]


def test_workbooks_have_comments_charts_and_headers(texts):
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
    found = texts("a.xlsx", made_files.bytes_of(workbook))
    assert found[:3] == ["Sheet", "Tree: Pear | Tons: 3", "Tree: Plum | Tons: 4"]
    assert sorted(found[3:]) == ["Harvest", "Only in good years", "Orchard & sons, page"]


def test_pdf_form_fields_and_notes(texts):
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
    assert texts("a.pdf", made_files.bytes_of(writer)) == ["Owner: Ada Löwe", "Prune in March"]


def test_both_halves_of_a_mail(texts):
    message = EmailMessage()
    message["Subject"] = "Harvest"
    message.set_content("The pears are ripe.")
    message.add_alternative("<p>The <b>pears</b> are ripe.</p><p>Crates stand in the barn.</p>", subtype="html")
    assert texts("a.eml", message.as_bytes())[-2:] == ["The pears are ripe.", "Crates stand in the barn."]


@pytest.mark.parametrize("name", ["a.html", "page"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_html_in_utf16(texts, name, encoding):
    page = '<!doctype html><meta charset="iso-8859-1"><p>Äpfel und Birnen stehen im Garten hinter dem Haus.</p>'
    assert texts(name, page.encode(encoding)) == ["Äpfel und Birnen stehen im Garten hinter dem Haus."]


def numbered(levels: str, *, overrides: str = "", restart: str = "") -> bytes:
    heading = '<w:pStyle w:val="Heading2"/>'
    forms = [("decimal", "%1.", ""), ("decimal", "%1.%2", heading), ("lowerRoman", "(%3)", restart)]
    defined = "".join(
        f'<w:lvl w:ilvl="{place}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for place, (form, text, more) in enumerate(forms)
    )
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
    style = document.styles["Heading 2"].element
    style.get_or_add_pPr().append(parse_xml(f'<w:numPr xmlns:w="{WORD}"><w:numId w:val="71"/></w:numPr>'))
    for level in levels.split():
        if level == "heading":
            document.add_paragraph("item", style="Heading 2")
            continue
        use, _, place = level.replace("empty", "0").rpartition(":")
        said = f'<w:numPr xmlns:w="{WORD}"><w:ilvl w:val="{place}"/><w:numId w:val="{use or 71}"/></w:numPr>'
        document.add_paragraph("" if level == "empty" else "item")._p.get_or_add_pPr().append(parse_xml(said))
    return made_files.bytes_of(document)


@pytest.mark.parametrize(("levels", "options", "markers"), cases("numbers_of_lists"))
def test_lists_have_the_numbers_that_word_shows(texts, levels, options, markers):
    found = texts("a.docx", numbered(levels, **options))
    assert [text.split()[0] for text in found] == markers.split()
    assert {text.split()[-1] for text in found} == {"item"}


def test_numbers_of_charts_are_as_they_are_shown(texts):
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
    rows = texts("a.pptx", made_files.bytes_of(made))
    assert {"007 | Share: 15.5% (0.155)", "East | Share: 29.0% (0.29)", "2026-01-05 | Tons: 8.2"} <= set(rows)


def item(text: str, inner: str = "", **attributes: str) -> str:
    return f"<text:list-item {said(attributes)}><text:p>{text}</text:p>{inner}</text:list-item>"


def listed(*items: str, **attributes: str) -> str:
    return f"<text:list {said(attributes)}>{''.join(items)}</text:list>"


def said(attributes: dict[str, str]) -> str:
    return " ".join(f'text:{name.replace("_", "-")}="{value}"' for name, value in attributes.items())


def level(
    number: int, form: str, *, kind: str = "list-level-style-number", suffix: str = ".", **attributes: str
) -> str:
    around = f'style:num-format="{form}" style:num-suffix="{suffix}"'
    return f'<text:{kind} text:level="{number}" {around} {said(attributes)}/>'


STYLES = (
    f'<text:list-style style:name="L1">{level(1, "1")}{level(2, "a", suffix=")", display_levels="2")}</text:list-style>'
    f'<text:list-style style:name="L2">{level(1, "", kind="list-level-style-bullet")}</text:list-style>'
)
OUTLINE = "".join(level(n, "1", kind="outline-level-style", suffix="", display_levels=str(n)) for n in (1, 2))
BODY = (
    '<text:h text:outline-level="1">Fleet</text:h><text:h text:outline-level="2">Ships</text:h>'
    '<text:h text:outline-level="2" text:style-name="Plain">Preface</text:h>'
    + listed(item("first", listed(item("inner"), item("other"))), item("second"), style_name="L1")
    + "<text:p>between</text:p>"
    + listed(item("third", "<text:p>goes on</text:p>"), style_name="L1", continue_numbering="true")
    + listed(item("anew"), item("ninth", start_value="9"), style_name="L1")
    + listed(item("dot"), "<text:list-header><text:p>above</text:p></text:list-header>", style_name="L2")
    + listed(item("unknown"), style_name="nowhere")
    + '<text:h text:outline-level="2">Ports</text:h><text:h text:outline-level="1">Crew</text:h>'
)
SHOWN = [
    *("1 Fleet", "1.1 Ships", "Preface"),
    *("1. first", "1.a) inner", "1.b) other", "2. second", "between", "3. third", "goes on"),
    *("1. anew", "9. ninth", "- dot", "above", "- unknown"),
    *("1.2 Ports", "2 Crew"),
]


def test_items_and_headings_have_their_numbers(texts):
    plain = '<style:style style:name="Plain" style:list-style-name=""/>'
    styles = f"<office:automatic-styles>{STYLES}{plain}</office:automatic-styles>"
    outline = f"<office:styles><text:outline-style>{OUTLINE}</text:outline-style></office:styles>"
    body = f"<office:text>{BODY}</office:text>"
    content = made_files.opendocument("text", body, styles=styles, **{"styles.xml": outline})
    assert texts("a.odt", content) == SHOWN


def test_a_word_97_document_has_the_same_numbers(texts):
    """LibreOffice made lists.doc from the text; it continues the restarted list."""
    shown = ["4. anew" if line == "1. anew" else line for line in SHOWN]
    assert texts("a.doc", (OFFICE / "lists.doc").read_bytes()) == shown


def test_lists_that_are_damaged_cost_the_numbers_alone(texts):
    content = (OFFICE / "lists.doc").read_bytes()
    main = content.index(b"\xec\xa5")
    for place in (0xA2, 0x2E2, 0x2EA):
        damaged = bytearray(content)
        damaged[main + place : main + place + 4] = b"\xff\xff\xff\x7f"
        found = texts("a.doc", bytes(damaged))
        assert [text.rpartition(" ")[2] for text in found] == [line.rpartition(" ")[2] for line in SHOWN]
