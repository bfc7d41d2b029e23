"""Pictures within files, on request: found at the right places, each once, and read back by address."""

import base64
import io
from email.message import EmailMessage

import docx
import pytest
from docx.shared import Inches
from fpdf import FPDF
from openpyxl import Workbook
from openpyxl.drawing.image import Image as SheetPicture
from PIL import Image
from pptx import Presentation

from bench.extraction import OFFICE
from carrel.wire.formats import NotReadKind
from service.text.extraction import within
from service.text.extraction.failures import Unreadable
from service.text.extraction.pages import open_page
from service.text.reading import Extraction
from tests import made_files

COLOURS = ("red", "blue")
PICTURES = [made_files.picture("green", 40), *map(made_files.picture, (*COLOURS, COLOURS[0]))]
DRAWN = "Tides at the northern quay Größe der Schiffe"


def word() -> bytes:
    document = docx.Document()
    for number, each in enumerate(PICTURES):
        document.add_paragraph(f"Paragraph {number}")
        document.add_picture(io.BytesIO(each), width=Inches(1))
    return made_files.bytes_of(document)


def workbook() -> bytes:
    book = Workbook()
    sheet = book.create_sheet("Plans")
    for each in (book.worksheets[0], sheet):
        each["A1"] = "Words"
    for each in PICTURES:
        sheet.add_image(SheetPicture(io.BytesIO(each)))
    return made_files.bytes_of(book)


def pdf() -> bytes:
    document = FPDF()
    document.set_font("Helvetica", size=12)
    for number in range(2):
        document.add_page()
        document.cell(text=f"Page {number}")
    for number, each in enumerate(PICTURES):
        document.image(io.BytesIO(each), x=20, y=30 + 50 * number, w=40)
    return bytes(document.output())


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Plans"
    message.set_content("Words")
    tags = "".join(f'<img src="cid:p{number}">' for number in range(len(PICTURES)))
    message.add_alternative(f"<p>Words</p>{tags}", subtype="html")
    for number, each in enumerate(PICTURES):
        message.add_attachment(each, maintype="image", subtype="png", cid=f"p{number}", disposition="inline")
    return bytes(message)


def web_page() -> bytes:
    tags = (f'<img src="data:image/png;base64,{base64.b64encode(each).decode()}">' for each in PICTURES)
    return f"<html><p>Words</p>{''.join(tags)}</html>".encode()


def mail_of_web_page() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Plans"
    message.set_content(web_page().decode(), subtype="html")
    return bytes(message)


def opendocument(kind: str = "text") -> bytes:
    shown = "".join(f'<text:p>Words<draw:image xlink:href="Pictures/{number}.png"/></text:p>' for number in (0, 1, 3))
    sheet = made_files.open_table([["Words"]], "Plans").replace("<table:table-row>", "{}<table:table-row>", 1)
    body = {
        "text": shown,
        "presentation": f"<draw:page/><draw:page>{shown}</draw:page>",
        "spreadsheet": sheet.format(f"<table:shapes>{shown}</table:shapes>"),
    }[kind]
    pictures = {f"Pictures/{number}.png": each for number, each in enumerate(PICTURES)}
    return made_files.opendocument(kind, f"<office:{kind}>{body}</office:{kind}>", **pictures)


def rich_text() -> bytes:
    icon, red, blue, again = PICTURES
    shape = rf"{{\*\shpinst{{\sp{{\sn pib}}{{\sv {{\pict\pngblip {again.hex()}}}}}}}}}"
    said = (
        rf"{{\rtf1 First{{\*\shppict{{\pict{{\*\picprop{{\sp{{\sn a}}{{\sv b}}}}}}\picw9\pngblip {icon.hex()}}}}}"
        rf"{{\*\shppict{{\pict\pngblip\bliptag-12{{\*\blipuid 00ff}}{red.hex()}}}}}"
        rf"{{\nonshppict{{\pict\wmetafile8 00}}}}\par "
        rf"Second{{\pict\pngblip\bin{len(blue)} "
    )
    return said.encode() + blue + rf"}}\par{{\shp{shape}}}}}".encode()


def book() -> bytes:
    return made_files.e_book("<p>Words</p>", {f"{number}.png": each for number, each in enumerate(PICTURES)})


def told(found: Extraction) -> dict[NotReadKind, int] | None:
    return None if found.not_read is None else {part.kind: part.count for part in found.not_read}


@pytest.mark.parametrize(
    ("name", "content", "places"),
    [
        ("a.docx", word(), [(None, None, 2), (None, None, 3)]),
        (
            "a.pptx",
            made_files.slides_of_pictures(*(Image.open(io.BytesIO(each)) for each in PICTURES[1:3])),
            [(1, None, 1), (2, None, 2)],
        ),
        ("a.xlsx", workbook(), [(None, "Plans", 4), (None, "Plans", 4)]),
        ("a.pdf", pdf(), [(2, None, None), (2, None, None)]),
        ("a.eml", mail(), [(None, None, 2), (None, None, 2)]),
        ("a.msg", made_files.outlook(mail()), [(None, None, 2), (None, None, 2)]),
        ("b.eml", mail_of_web_page(), [(None, None, 2), (None, None, 2)]),
        ("a.html", web_page(), [(None, None, 1), (None, None, 1)]),
        ("a.odt", opendocument(), [(None, None, 2), (None, None, 3)]),
        ("a.odp", opendocument("presentation"), [(2, None, 2), (None, None, 3)]),
        ("a.ods", opendocument("spreadsheet"), [(None, "Plans", 4), (None, None, 5)]),
        ("a.ppt", (OFFICE / "pictures.ppt").read_bytes(), [(1, None, 1), (2, None, 2)]),
        ("a.doc", (OFFICE / "pictures.doc").read_bytes(), [(None, None, 1), (None, None, 2)]),
        ("a.xls", (OFFICE / "pictures.xls").read_bytes(), [(None, "Plans", 6), (None, "Plans", 6)]),
        ("a.rtf", rich_text(), [(None, None, 1), (None, None, 2)]),
        ("a.epub", book(), [(None, None, 1), (None, None, 1)]),
    ],
)
def test_pictures_are_found_once_at_their_places_and_read_back(extract, tmp_path, name, content, places):
    assert extract(name, content).pictures == ()
    found = extract(name, content, finds_pictures=True)
    assert [(each.page, each.sheet, each.after) for each in found.pictures] == places
    assert told(found) in (None, {NotReadKind.PICTURE: 2})
    path, kind = tmp_path / "file", found.media_type
    for each, colour in zip(found.pictures, COLOURS, strict=True):
        shown, _ = open_page(path, media_type=kind, page=each.page or 1, pixels=10**6, address=each.address)
        middle = shown.getpixel((shown.width // 2, shown.height // 2))
        assert middle == Image.new("RGB", (1, 1), colour).getpixel((0, 0))


@pytest.mark.parametrize(("name", "content"), [("a.eml", mail()), ("a.msg", made_files.outlook(mail()))])
def test_a_message_is_parsed_once_for_all_of_its_pictures(extract, tmp_path, monkeypatch, name, content):
    parsed: list[object] = []
    for function in ("read_mail", "read_with_pictures"):
        read = getattr(within, function)
        monkeypatch.setattr(within, function, lambda *a, read=read, **b: (parsed.append(a), read(*a, **b))[1])
    found = extract(name, content, finds_pictures=True)
    path, kind = tmp_path / "file", found.media_type
    shown = [within.read_picture(path, media_type=kind, address=each.address) for each in found.pictures]
    assert (shown, len(parsed)) == (PICTURES[1:3], 1)
    made_files.saved(tmp_path, "file", content + b"\n")
    within.read_picture(path, media_type=kind, address=found.pictures[0].address)
    assert len(parsed) == 2


def test_drawings_say_their_text_where_they_stand(extract):
    drawn = (OFFICE / "drawn.emf").read_bytes()
    content = made_files.with_part(opendocument("presentation"), "Pictures/0.png", PICTURES[1])
    root = made_files.part_of(content, "content.xml").replace(b"Pictures/1.png", b"Pictures/1.emf")
    for name, part in (("content.xml", root), ("Pictures/1.emf", drawn), ("Pictures/2.wmf", drawn)):
        content = made_files.with_part(content, name, part)
    found = extract("a.odp", content)
    assert [(block.text, block.page) for block in found.blocks if block.text == DRAWN] == [(DRAWN, 2)]
    assert (told(found), found.pictures) == ({NotReadKind.PICTURE: 4}, ())


@pytest.mark.parametrize("kind", ["doc", "ppt", "xls"])
def test_drawings_in_old_files_say_their_text(extract, kind):
    found = extract(f"a.{kind}", (OFFICE / f"pictures.{kind}").read_bytes())
    assert (found.blocks[-1].text, told(found)) == (DRAWN, {NotReadKind.PICTURE: 2})


def test_what_shows_an_object_of_another_program_is_read(extract):
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.shapes.add_ole_object(io.BytesIO(b"object"), "Visio.Drawing.11", 0, 0, icon_file=io.BytesIO(PICTURES[1]))
    shown = (OFFICE / "drawn.wmf").read_bytes()
    found = extract("a.pptx", made_files.with_part(made_files.bytes_of(presentation), "ppt/media/image1.png", shown))
    assert [(block.text, block.page) for block in found.blocks] == [(DRAWN, 1)]
    assert told(found) == {NotReadKind.EMBEDDED: 1}


def test_a_file_of_pictures_alone_says_how_to_have_them_read(extract):
    content = made_files.word(picture=Image.open(io.BytesIO(PICTURES[1])))
    with pytest.raises(Unreadable, match="readPictures"):
        extract("a.docx", content)
    assert len(extract("a.docx", content, finds_pictures=True).pictures) == 1
    with pytest.raises(Unreadable, match="no text in it"):
        extract("a.docx", content, finds_pictures=True, pixels=100)


@pytest.mark.parametrize(("limits", "count"), [({}, 2), ({"pictures": 1}, 1), ({"pixels": 30_000}, 0)])
def test_pictures_that_no_machine_reads_stay_left_out(extract, limits, count):
    content = made_files.with_part(opendocument(), "Pictures/x.png", b"\x89PNG\r\n\x1a\nbroken")
    found = extract("a.odt", content, finds_pictures=True, **limits)
    assert (len(found.pictures), told(found)) == (count, {NotReadKind.PICTURE: 3})
