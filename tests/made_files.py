"""Real files of every format, made by common libraries."""

import datetime as dt
import io
import zipfile
from collections.abc import Mapping, Sequence
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

import docx
import olefile
import pypdf
import xlwt
from aspose.email_foss import cfb, msg
from fpdf import FPDF
from openpyxl import Workbook
from PIL import Image, ImageDraw, ImageFont
from pptx import Presentation
from pptx.util import Inches

Rows = Sequence[Sequence[object]]
_FORMATS = {dt.date: "yyyy-mm-dd", dt.time: "hh:mm"}
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODF_NAMES = {name: f"{ODF}{name}:1.0" for name in ("office", "text", "table", "style", "presentation")} | {
    "draw": f"{ODF}drawing:1.0",
    "xlink": "http://www.w3.org/1999/xlink",
    "dc": "http://purl.org/dc/elements/1.1/",
}
LAUGHS = "<!DOCTYPE a [<!ENTITY a 'lollollollollollollol'>{}]>".format(
    "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(10))
)
"""A document type with an entity `k` of billions of characters."""


def bytes_of(file) -> bytes:
    buffer = io.BytesIO()
    (file.write if isinstance(file, pypdf.PdfWriter) else file.save)(buffer)
    return buffer.getvalue()


def picture(colour: str | tuple[int, int, int], side: int = 200, kind: str = "PNG") -> bytes:
    page, buffer = Image.new("RGB", (side, side), colour), io.BytesIO()
    ImageDraw.Draw(page).line((0, 0, side // 4, 0), fill="white")
    page.save(buffer, kind)
    return buffer.getvalue()


def pdf(*pages: Sequence[tuple[str, float]], title: str | None = None) -> bytes:
    document = FPDF()
    if title:
        document.set_title(title)
    for page in pages:
        document.add_page()
        for text, size in page:
            document.set_font("Helvetica", size=size)
            document.multi_cell(0, size * 0.45, text, new_x="LMARGIN", new_y="NEXT")
            document.ln(size * 0.4)
    return bytes(document.output())


def picture_pdf() -> bytes:
    document = FPDF()
    document.add_page()
    document.rect(10, 10, 50, 50, style="F")
    return bytes(document.output())


def scan(*lines: str, size: int = 34) -> Image.Image:
    page = Image.new("L", (850, 120 + 3 * size * len(lines)), 250)
    for number, line in enumerate(lines):
        place = (60, 60 + number * 3 * size)
        ImageDraw.Draw(page).text(place, line, fill=30, font=ImageFont.load_default(size))
    return page


def scanned(*pages: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    # A picture keeps how it was saved last, which another format takes for its own.
    first, *others = (page.copy() for page in pages)
    first.save(buffer, kind, save_all=bool(others), append_images=others)
    return buffer.getvalue()


def encrypted_pdf(*, asks: bool = True) -> bytes:
    """Return a PDF that requires a password, or restricts changes by an owner's password."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([("Private words", 12)])))
    writer.encrypt("secret" if asks else "", "owner", algorithm="AES-256")
    return bytes_of(writer)


def word(
    *,
    title: str | None = None,
    paragraphs: Sequence[tuple[str, str]] = (),
    table: Rows = (),
    picture: Image.Image | None = None,
) -> bytes:
    document = docx.Document()
    document.core_properties.title = title or ""
    for style, text in paragraphs:
        document.add_paragraph(text, style=style)
    if table:
        made = document.add_table(rows=len(table), cols=len(table[0]))
        for row, values in enumerate(table):
            for column, value in enumerate(values):
                made.cell(row, column).text = str(value)
    if picture:
        drawn = io.BytesIO()
        picture.save(drawn, "PNG")
        document.add_picture(drawn)
    return bytes_of(document)


def slides() -> bytes:
    presentation = Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Harvest plan"
    first.placeholders[1].text = "Pick in May\nDry in June"
    first.notes_slide.notes_text_frame.text = "Mention the weather"
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Yields"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for row, values in enumerate([("Field", "Tons"), ("North", "12")]):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    return bytes_of(presentation)


def slides_of_pictures(*pictures: Image.Image) -> bytes:
    """Return a presentation of three slides: an icon on each, a different picture on the first two, the first again on
    the last."""
    deck = Presentation()
    for number, name in enumerate(("one", "two", "three")):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Slide {name}"
        for picture in (Image.new("RGB", (32, 32), "red"), pictures[number % len(pictures)]):
            buffer = io.BytesIO()
            picture.save(buffer, "PNG")
            slide.shapes.add_picture(buffer, Inches(1), Inches(2))
    return bytes_of(deck)


def workbook(**sheets: Rows) -> bytes:
    book = Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return bytes_of(book)


def old_workbook(**sheets: Rows) -> bytes:
    book = xlwt.Workbook()
    for name, rows in sheets.items():
        sheet = book.add_sheet(name)
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                style = xlwt.easyxf(num_format_str=_FORMATS[type(value)]) if type(value) in _FORMATS else None
                sheet.write(number, column, value, *[style] if style else [])
    return bytes_of(book)


def compound(streams: Mapping[str, bytes]) -> bytes:
    root = cfb.CFBStorage("Root Entry")
    folders = {"": root}
    for name, content in streams.items():
        folder, _, stream = name.rpartition("/")
        if folder not in folders:
            folders[folder] = root.add_storage(cfb.CFBStorage(folder))
        folders[folder].add_stream(cfb.CFBStream(stream, content))
    return cfb.CFBWriter.to_bytes(cfb.CFBDocument(root=root))


def streams(content: bytes) -> dict[str, bytes]:
    with olefile.OleFileIO(content) as file:
        return {path[0]: file.openstream(path).read() for path in file.listdir()}


def outlook(mail: bytes) -> bytes:
    message = BytesParser(policy=policy.default).parsebytes(mail)
    return msg.MapiMessage.from_email_message(message).to_bytes()


def mail(*, html_only: bool = False) -> bytes:
    """Return a message with a subject beyond ASCII, both kinds of body (or only HTML) and an attachment."""
    message = EmailMessage()
    message["Subject"] = "Grüße from the orchard"
    message["From"] = "Ada <ada@orchard.example>"
    message["To"] = "bo@orchard.example"
    message["Date"] = "Mon, 02 Mar 2026 10:00:00 +0000"
    html = "<p>The <b>pears</b> are ripe.</p><script>alert(1)</script>"
    if html_only:
        message.set_content(html, subtype="html")
    else:
        message.set_content("The pears are ripe.\n\nCome on Friday.")
        message.add_alternative(html, subtype="html")
    message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="prices.bin")
    return message.as_bytes()


def mailbox() -> bytes:
    return b"From ada Mon Mar  2 10:00:00 2026\n" + mail()


def archive(files: Mapping[str, bytes | str], *, packed: bool = True) -> bytes:
    """Return a ZIP archive of files by path; equal files give equal bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    return written.getvalue()


def opendocument(kind: str, body: str, *, styles: str = "", manifest: str = "", **parts: str | bytes) -> bytes:
    """Return an OpenDocument file of a kind with a body; `styles` precede it, further parts are given by name."""
    names = " ".join(f'xmlns:{short}="{name}"' for short, name in _ODF_NAMES.items())

    def root(inside: str) -> str:
        return f'<office:document-content {names} office:version="1.2">{inside}</office:document-content>'

    written = {name: root(part) if isinstance(part, str) else part for name, part in parts.items()}
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": root(f"{styles}<office:body>{body}</office:body>"),
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{ODF}manifest:1.0">{manifest}</m:manifest>',
        }
        | written
    )


def open_table(rows: Rows, name: str = "") -> str:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    lines = ("".join(cell.format(value) for value in row) for row in rows)
    inside = "".join(f"<table:table-row>{line}</table:table-row>" for line in lines)
    return f'<table:table table:name="{name}">{inside}</table:table>'


def open_sheets(**sheets: Rows) -> bytes:
    tables = "".join(open_table(rows, name) for name, rows in sheets.items())
    return opendocument("spreadsheet", f"<office:spreadsheet>{tables}</office:spreadsheet>")


def e_book(page: str, files: Mapping[str, bytes] | None = None) -> bytes:
    container = f'<container xmlns="{ODF}container" version="1.0"><rootfiles>{{}}</rootfiles></container>'
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Orchards</dc:title>'
        '<dc:identifier id="i">1</dc:identifier></metadata><manifest>'
        '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="c"/></spine></package>'
    )
    root = '<rootfile full-path="o.opf" media-type="application/oebps-package+xml"/>'
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container.format(root),
            "o.opf": package,
            "c.xhtml": f'<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>{page}</body></html>',
            **(files or {}),
        }
    )


def part_of(package: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return archive.read(name)


def with_part(package: bytes, name: str, content: bytes, *, declared_size: int | None = None) -> bytes:
    """Return the Office file with a replaced or added part; `declared_size` falsifies the size in the directory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename != name:
                new.writestr(entry, old.read(entry.filename))
        new.writestr(name, content)
        if declared_size is not None:
            new.getinfo(name).file_size = declared_size
    return buffer.getvalue()


def saved(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
