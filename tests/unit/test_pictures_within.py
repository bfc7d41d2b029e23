"""Pictures within files: found at their places where that is asked, each once, and read back by their addresses."""

import base64
import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import docx
import pytest
from docx.shared import Inches
from fpdf import FPDF
from openpyxl import Workbook
from openpyxl.drawing.image import Image as SheetPicture
from PIL import Image, ImageDraw
from pptx import Presentation

from bench.extraction import OFFICE
from carrel.wire.formats import NotReadKind
from service.text.extraction import within
from service.text.extraction.building import Limits
from service.text.extraction.failures import Unreadable
from service.text.extraction.pages import open_page
from service.text.extraction.parsing import parse_file
from tests import made_files

COLOURS = ("red", "blue")


def picture(colour: str, side: int = 200, kind: str = "PNG") -> bytes:
    """Return a picture of a colour with a line in it."""
    page = Image.new("RGB", (side, side), colour)
    ImageDraw.Draw(page).line((0, 0, side // 4, 0), fill="white")
    buffer = io.BytesIO()
    page.save(buffer, kind)
    return buffer.getvalue()


PICTURES = [picture("green", 40), *map(picture, COLOURS), picture(COLOURS[0])]


def word() -> bytes:
    """Return a Word document: an icon, two pictures between paragraphs, and the first once more."""
    document, buffer = docx.Document(), io.BytesIO()
    for number, each in enumerate(PICTURES):
        document.add_paragraph(f"Paragraph {number}")
        document.add_picture(io.BytesIO(each), width=Inches(1))
    document.save(buffer)
    return buffer.getvalue()


def workbook() -> bytes:
    """Return a workbook whose second sheet has the pictures."""
    book, buffer = Workbook(), io.BytesIO()
    sheet = book.create_sheet("Plans")
    for each in (book.worksheets[0], sheet):
        each["A1"] = "Words"
    for each in PICTURES:
        sheet.add_image(SheetPicture(io.BytesIO(each)))
    book.save(buffer)
    return buffer.getvalue()


def pdf() -> bytes:
    """Return a PDF whose second page has the pictures below a line of text."""
    document = FPDF()
    document.set_font("Helvetica", size=12)
    for number in range(2):
        document.add_page()
        document.cell(text=f"Page {number}")
    for number, each in enumerate(PICTURES):
        document.image(io.BytesIO(each), x=20, y=30 + 50 * number, w=40)
    return bytes(document.output())


def mail() -> bytes:
    """Return a mail that shows the pictures."""
    message = EmailMessage()
    message["Subject"] = "Plans"
    message.set_content("Words")
    tags = "".join(f'<img src="cid:p{number}">' for number in range(len(PICTURES)))
    message.add_alternative(f"<p>Words</p>{tags}", subtype="html")
    for number, each in enumerate(PICTURES):
        message.add_attachment(each, maintype="image", subtype="png", cid=f"p{number}", disposition="inline")
    return bytes(message)


def web_page() -> bytes:
    """Return a page with the pictures in its own text."""
    tags = (f'<img src="data:image/png;base64,{base64.b64encode(each).decode()}">' for each in PICTURES)
    return f"<html><p>Words</p>{''.join(tags)}</html>".encode()


def mail_of_web_page() -> bytes:
    """Return a mail whose HTML has the pictures in its own text."""
    message = EmailMessage()
    message["Subject"] = "Plans"
    message.set_content(web_page().decode(), subtype="html")
    return bytes(message)


def opendocument(kind: str = "text") -> bytes:
    """Return an OpenDocument file that shows the pictures below a line of text each, but the second, which it holds."""
    odf = "urn:oasis:names:tc:opendocument:xmlns:"
    names = {"office": "office", "text": "text", "table": "table", "draw": "drawing"}
    spaces = " ".join(f'xmlns:{short}="{odf}{name}:1.0"' for short, name in names.items())
    shown = "".join(f'<text:p>Words<draw:image l:href="Pictures/{number}.png"/></text:p>' for number in (0, 1, 3))
    cell = '<table:table-cell office:value-type="string"><text:p>Words</text:p></table:table-cell>'
    body = {
        "text": f"<office:text>{shown}</office:text>",
        "presentation": f"<office:presentation><draw:page/><draw:page>{shown}</draw:page></office:presentation>",
        "spreadsheet": '<office:spreadsheet><table:table table:name="Plans"><table:shapes>'
        f"{shown}</table:shapes><table:table-row>{cell}</table:table-row></table:table></office:spreadsheet>",
    }[kind]
    root = f'<office:document-content {spaces} xmlns:l="http://www.w3.org/1999/xlink" office:version="1.2">'
    return made_files.archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{root}<office:body>{body}</office:body></office:document-content>",
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{odf}manifest:1.0"/>',
            **{f"Pictures/{number}.png": each for number, each in enumerate(PICTURES)},
        }
    )


def rich_text() -> bytes:
    """Return RTF that shows the pictures as Word and LibreOffice write them: in digits, in bytes, and in a shape."""
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
    """Return an e-book of a page with text, which holds the pictures."""
    xmlns = "xmlns='urn:oasis:names:tc:opendocument:xmlns:container'"
    rootfile = '<rootfile full-path="o.opf" media-type="application/oebps-package+xml"/>'
    title = '<metadata xmlns:d="http://purl.org/dc/elements/1.1/"><d:title>Plans</d:title></metadata>'
    page = '<manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
    return made_files.archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f"<container {xmlns} version='1.0'><rootfiles>{rootfile}</rootfiles></container>",
            "o.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
            f'{title}{page}<spine><itemref idref="c"/></spine></package>',
            "c.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Words</p></body></html>',
            **{f"{number}.png": each for number, each in enumerate(PICTURES)},
        }
    )


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
def test_pictures_are_found_once_at_their_places_and_read_back(
    tmp_path: Path, name: str, content: bytes, places: list[tuple[int | None, str | None, int | None]]
) -> None:
    """Icons and what is repeated are passed over; what an address leads to is the picture; unasked, none is found."""
    path = made_files.saved(tmp_path, name, content)
    assert parse_file(path, name, Limits()).pictures == ()
    found = parse_file(path, name, Limits(finds_pictures=True))
    assert [(each.page, each.sheet, each.after) for each in found.pictures] == places
    if found.not_read is not None:
        assert [(part.kind, part.count) for part in found.not_read] == [(NotReadKind.PICTURE, 2)]
    for each, colour in zip(found.pictures, COLOURS, strict=True):
        shown, _ = open_page(path, media_type=found.media_type, page=each.page or 1, pixels=10**6, address=each.address)
        middle = shown.getpixel((shown.width // 2, shown.height // 2))
        assert middle == Image.new("RGB", (1, 1), colour).getpixel((0, 0))


DRAWN = "Tides at the northern quay Größe der Schiffe"


@pytest.mark.parametrize(("name", "content"), [("a.eml", mail()), ("a.msg", made_files.outlook(mail()))])
def test_a_message_is_parsed_once_for_all_of_its_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    """Pictures of one message are read from one parse of it; another file at its path is parsed anew."""
    parsed: list[object] = []
    for function in ("read_mail", "read_with_pictures"):
        read = getattr(within, function)
        monkeypatch.setattr(within, function, lambda *a, read=read, **b: (parsed.append(a), read(*a, **b))[1])
    path = made_files.saved(tmp_path, name, content)
    found = parse_file(path, name, Limits(finds_pictures=True))
    shown = [within.read_picture(path, media_type=found.media_type, address=each.address) for each in found.pictures]
    assert (shown, len(parsed)) == (PICTURES[1:3], 1)
    made_files.saved(tmp_path, name, content + b"\n")
    within.read_picture(path, media_type=found.media_type, address=found.pictures[0].address)
    assert len(parsed) == 2


def test_drawings_say_their_text_where_they_stand(tmp_path: Path) -> None:
    """The text of a drawing is read without text recognition, once; a picture in it is read by its address."""
    drawn = (OFFICE / "drawn.emf").read_bytes()
    content = made_files.with_part(opendocument("presentation"), "Pictures/0.png", picture("red"))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = archive.read("content.xml").replace(b"Pictures/1.png", b"Pictures/1.emf")
    content = made_files.with_part(made_files.with_part(content, "content.xml", root), "Pictures/1.emf", drawn)
    content = made_files.with_part(content, "Pictures/2.wmf", drawn)
    found = parse_file(made_files.saved(tmp_path, "a.odp", content), "a.odp", Limits())
    assert [(block.text, block.page) for block in found.blocks if block.text == DRAWN] == [(DRAWN, 2)]
    assert [(part.kind, part.count) for part in found.not_read or ()] == [(NotReadKind.PICTURE, 4)]
    assert found.pictures == ()


@pytest.mark.parametrize("kind", ["doc", "ppt", "xls"])
def test_drawings_in_old_files_say_their_text(tmp_path: Path, kind: str) -> None:
    """The text of a drawing in a file of before 2007 is there, and of all pictures two are told as not read."""
    content = (OFFICE / f"pictures.{kind}").read_bytes()
    found = parse_file(made_files.saved(tmp_path, "file", content), f"a.{kind}", Limits())
    assert found.blocks[-1].text == DRAWN
    assert [(part.kind, part.count) for part in found.not_read or ()] == [(NotReadKind.PICTURE, 2)]


def test_what_shows_an_object_of_another_program_is_read(tmp_path: Path) -> None:
    """Of the picture of an object on a slide the text is read, and the object itself is told as not read."""
    presentation, buffer = Presentation(), io.BytesIO()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    icon = io.BytesIO(picture("red"))
    slide.shapes.add_ole_object(io.BytesIO(b"object"), "Visio.Drawing.11", 0, 0, icon_file=icon)
    presentation.save(buffer)
    content = made_files.with_part(buffer.getvalue(), "ppt/media/image1.png", (OFFICE / "drawn.wmf").read_bytes())
    found = parse_file(made_files.saved(tmp_path, "a.pptx", content), "a.pptx", Limits())
    assert [(block.text, block.page) for block in found.blocks] == [(DRAWN, 1)]
    assert [(part.kind, part.count) for part in found.not_read or ()] == [(NotReadKind.EMBEDDED, 1)]


def test_a_file_of_pictures_alone_says_how_to_have_them_read(tmp_path: Path) -> None:
    """The refusal names the option, and with it the file is taken; where nothing in it can be read, it is refused."""
    document, buffer = docx.Document(), io.BytesIO()
    document.add_picture(io.BytesIO(PICTURES[1]))
    document.save(buffer)
    path = made_files.saved(tmp_path, "a.docx", buffer.getvalue())
    with pytest.raises(Unreadable, match="readPictures"):
        parse_file(path, "a.docx", Limits())
    assert len(parse_file(path, "a.docx", Limits(finds_pictures=True)).pictures) == 1
    with pytest.raises(Unreadable, match="no text in it"):
        parse_file(path, "a.docx", Limits(finds_pictures=True, pixels=100))


def test_pictures_that_no_machine_reads_stay_left_out(tmp_path: Path) -> None:
    """One that is damaged, one of too many pixels, and those beyond the limit are told as not read."""
    content = made_files.with_part(opendocument(), "Pictures/x.png", b"\x89PNG\r\n\x1a\nbroken")
    path = made_files.saved(tmp_path, "a.odt", content)
    for limits, count in ((Limits(), 2), (Limits(pictures=1), 1), (Limits(pixels=30_000), 0)):
        found = parse_file(path, "a.odt", Limits(finds_pictures=True, pictures=limits.pictures, pixels=limits.pixels))
        assert len(found.pictures) == count
        assert [(part.kind, part.count) for part in found.not_read or ()] == [(NotReadKind.PICTURE, 3)]
