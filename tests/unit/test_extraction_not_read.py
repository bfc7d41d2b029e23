"""Unread parts of a file are reported by kind, number and place; a completely read file reports none."""

import io
import re
import wave
from email.message import EmailMessage
from importlib.util import find_spec
from unittest.mock import Mock

import docx
import pypdf
import pypdfium2
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from fpdf import FPDF
from openpyxl import Workbook
from openpyxl.drawing.image import Image as SheetImage
from pptx import Presentation
from pptx.util import Inches
from pypdf.annotations import Text
from pypdf.generic import ArrayObject, BooleanObject, DictionaryObject, NameObject, NumberObject, StreamObject

from carrel.wire.catalog import NotRead as NotReadOnWire
from carrel.wire.formats import NotReadKind, count_not_read
from service.text.extraction import pdf, pdf_layout
from service.text.extraction.parsing import READERS
from service.text.reading import NotRead
from tests import made_files
from tests.unit.test_extraction_plain_formats import ODP, TEXT

PAGE, PICTURE, ATTACHMENT = NotReadKind.PAGE, NotReadKind.PICTURE, NotReadKind.ATTACHMENT
EMBEDDED, RECORDING, ENCRYPTED = NotReadKind.EMBEDDED, NotReadKind.RECORDING, NotReadKind.ENCRYPTED


@pytest.fixture
def not_read(extract):
    """Return a function for parsing content and listing unread parts; `file_count` is of the last call."""

    def run(name: str, content: bytes) -> list[NotRead] | None:
        found = extract(name, content)
        run.file_count = found.file_count
        return None if found.not_read is None else [*found.not_read]

    return run


def picture(shade: int = 90) -> io.BytesIO:
    return io.BytesIO(made_files.picture((shade, 120, 60), 40))


def pages(*kinds: str) -> bytes:
    """Return a PDF with a page of each kind: text, scan, both, stamped or recognized (a scan), blank, line."""
    document = FPDF()
    document.set_font("Helvetica", size=12)
    for number, kind in enumerate(kinds):
        document.add_page()
        if kind in {"scan", "stamped", "recognized", "filed"}:
            document.image(picture(number), 0, 0, 210, 297)
        if kind == "both":
            document.image(picture(number), 20, 200, 40, 40)
        if kind == "line":
            document.image(picture(number), 20, 200, 150, 1)
        if kind in {"text", "both", "line"}:
            document.text(20, 20, "Pears ripen late")
        if kind == "stamped":
            document.text(20, 20, f"Page {number}")
        if kind == "filed":
            document.text(20, 20, "Envelope 8C7A-BB filed: County Clerk 04/05/2021 04:12 PM")
            document.text(20, 25, "Index no. 651234/2021, document no. 12, confirmation 88231190, page 12 of 348")
        for line in range(8 if kind == "recognized" else 0):
            document.text(20, 20 + 10 * line, "Pears ripen late")
    return bytes(document.output())


def test_scanned_pages_and_pictures_of_a_pdf(not_read):
    assert not_read("a.pdf", pages(*["text", "scan", "both", "recognized", "blank", "line", *["scan"] * 6])) == [
        NotRead(PAGE, 7, ("page 2", "page 7", "page 8", "page 9", "page 10")),
        NotRead(PICTURE, 1, ("page 3",)),
    ]
    stamped = pages("text", "stamped", "recognized", "filed")
    assert not_read("a.pdf", stamped) == [NotRead(PAGE, 2, ("page 2", "page 4"))]


SHIFTED = "7KHTXLFNEURZQIR[MXPSVRYHUWKHOD]\\GRJ " * 9
CODES = "Part 4411-BX, 20 pcs, 3,99 EUR; " * 20


@pytest.mark.parametrize(
    ("written", "is_read"),
    [(SHIFTED, False), ("\ue001\ue002\ue003 " * 90, False), (CODES, True), ("XKCD-BRKT 17 | " * 90, True)],
)
def test_a_page_whose_text_is_no_words_is_a_scan(extract, monkeypatch, written, is_read):
    text = pypdfium2.PdfTextPage.get_text_range
    monkeypatch.setattr(pypdfium2.PdfTextPage, "get_text_range", lambda *given: text(*given).replace("Pears", written))
    found = extract("a.pdf", pages("text"), reads_scans=True)
    assert (bool(found.blocks), found.scanned) == (is_read, () if is_read else (1,))


def test_a_page_whose_fonts_name_no_letters_is_a_scan(extract):
    document = FPDF()
    [folder] = find_spec("matplotlib").submodule_search_locations
    document.add_font("X", fname=f"{folder}/mpl-data/fonts/ttf/DejaVuSans.ttf")
    for _ in range(2):
        document.add_page()
        document.set_font("X", size=12)
        document.multi_cell(0, 6, "The quick brown fox jumps over the lazy dog. " * 5)
        document.set_font("Helvetica")
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(bytes(document.output())))
    for each in writer._objects:
        if isinstance(each, dict):
            each.pop("/ToUnicode", None)
    found = extract("a.pdf", made_files.bytes_of(writer), reads_scans=True)
    assert (found.scanned, found.blocks) == ((1, 2), ())
    assert found.not_read == (NotRead(PAGE, 2, ("page 1", "page 2")),)


@pytest.mark.parametrize(
    ("drawn", "left_out"),
    [
        ((b"595 0 0 842 0 0 cm", b"q"), NotRead(PAGE, 1, ("page 1",))),
        ((b"1 0 0 1 0 0 cm", b"q 595 0 0 842 0 0 cm"), NotRead(PAGE, 1, ("page 1",))),
        ((b"100 0 0 100 300 0 cm", b"q"), NotRead(PICTURE, 1, ("page 1",))),
        ((b"1 0 0 1 300 0 cm", b"q 2 0 0 2 0 0 cm"), None),
    ],
)
def test_pictures_in_forms_of_a_pdf_are_measured_on_the_page(not_read, drawn, left_out):
    """The size of a picture in nested form XObjects is the product of the matrices."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pages("both")))
    page = writer.pages[0]
    held = page["/Resources"]["/XObject"]
    reference = next(iter(held.values())).indirect_reference
    outer, inner = drawn
    for name, content in (("/Picture", b"/Picture Do"), ("/Inner", inner + b" /Inner Do Q")):
        form = StreamObject()
        form.set_data(content)
        form[NameObject("/Type")], form[NameObject("/Subtype")] = NameObject("/XObject"), NameObject("/Form")
        form[NameObject("/BBox")] = ArrayObject(NumberObject(number) for number in (0, 0, 595, 842))
        shown = DictionaryObject({NameObject(name): reference})
        form[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): shown})
        reference = writer._add_object(form)
    held[NameObject("/Outer")] = reference
    drawing = StreamObject()
    lines = page.get_contents().get_data().split(b"\n")
    text = b"\n".join(line for line in lines if b" Do" not in line)
    drawing.set_data(text + b"\nq " + outer + b" /Outer Do Q")
    page[NameObject("/Contents")] = writer._add_object(drawing)
    assert not_read("a.pdf", made_files.bytes_of(writer)) == ([left_out] if left_out else [])


@pytest.mark.parametrize(
    ("module", "function", "detail"),
    [
        (pdf, "find_tables", "tables of page 1"),
        (pdf, "_unread_pictures", "pictures of page 1"),
        (pdf, "_add_annotations", "forms and notes"),
        (pdf_layout, "_heading_levels", "layout"),
        (pdf_layout, "_paragraphs", "layout of page 1"),
    ],
)
def test_a_pdf_keeps_its_text_when_a_detail_of_it_fails(extract, monkeypatch, module, function, detail):
    monkeypatch.setattr(module, function, Mock(side_effect=IndexError))
    found = extract("a.pdf", pages("both", "text"))
    assert [block.text for block in found.blocks] == ["Pears ripen late"] * 2
    assert detail in found.not_read[-1].where


THREE_PAGES = pages("text", "text", "text")
TABLE_OF_OBJECTS = THREE_PAGES.rindex(b"\nxref")


@pytest.mark.parametrize("end", [-2, -6, THREE_PAGES.rindex(b"startxref"), len(THREE_PAGES)])
@pytest.mark.parametrize("after", [b"", b"\n" * 9, bytes(5_000), b"<p>Sent by the gateway</p>" * 9_000])
def test_a_pdf_is_read_whatever_is_at_its_end(extract, end, after):
    found = extract("a.pdf", THREE_PAGES[:end] + after)
    assert ([block.page for block in found.blocks], found.not_read) == ([1, 2, 3], ())


@pytest.mark.parametrize(("cut", "count"), [(TABLE_OF_OBJECTS, 3), (TABLE_OF_OBJECTS + 90, 3), (700, 2)])
def test_a_pdf_without_its_end_is_read_as_far_as_it_goes(extract, cut, count):
    found = extract("a.pdf", THREE_PAGES[:cut])
    assert len(found.blocks) == count
    assert "end of the file" in found.not_read[0].where


def test_a_reader_that_fails_half_way_keeps_what_it_has_read(extract, monkeypatch):
    def read(_, builder):
        builder.paragraph("Pears ripen late")
        raise ZeroDivisionError

    monkeypatch.setitem(READERS, "PDF", read)
    found = extract("a.pdf", pages("text"))
    assert ([block.text for block in found.blocks], len(found.causes)) == (["Pears ripen late"], 1)
    assert found.not_read == (NotRead(NotReadKind.DETAIL, 1, ("rest of the file",)),)


def test_attachments_recordings_and_xfa_forms_of_a_pdf(not_read):
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pages("text")))
    writer.add_attachment("costs.csv", b"a,b")
    form = DictionaryObject({NameObject("/Fields"): ArrayObject()})
    template = StreamObject()
    template.set_data(b"<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'/>")
    form[NameObject("/XFA")] = writer._add_object(template)
    writer.root_object[NameObject("/AcroForm")] = writer._add_object(form)
    writer.root_object[NameObject("/NeedsRendering")] = BooleanObject(True)
    annotation = Text(text="", rect=(0, 0, 20, 20))
    annotation[NameObject("/Subtype")] = NameObject("/Sound")
    writer.add_annotation(0, annotation)
    left_out = [NotRead(ATTACHMENT, 1), NotRead(RECORDING, 1, ("page 1",)), NotRead(NotReadKind.FORM, 1)]
    assert not_read("a.pdf", made_files.bytes_of(writer)) == left_out


def test_pictures_and_embedded_files_of_a_word_document(not_read):
    document = docx.Document()
    document.add_paragraph("Pears")
    document.add_picture(picture(1))
    document.add_picture(picture(1))
    document.add_picture(picture(2))
    part = Part(PackURI("/word/embeddings/a.xlsx"), "application/x", b"PK", document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.PACKAGE)
    assert not_read("a.docx", made_files.bytes_of(document)) == [NotRead(PICTURE, 2), NotRead(EMBEDDED, 1)]


def test_pictures_objects_and_films_of_slides(not_read):
    presentation = Presentation()
    first, second = (presentation.slides.add_slide(presentation.slide_layouts[5]) for _ in range(2))
    first.shapes.title.text = "Harvest"
    place = Inches(1), Inches(1), Inches(1), Inches(1)
    first.shapes.add_picture(picture(), *place)
    second.shapes.add_ole_object(io.BytesIO(made_files.workbook(A=[["x"]])), "Excel.Sheet.12", *place)
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8_000)
        file.writeframes(bytes(80))
    sound.seek(0)
    second.shapes.add_movie(sound, *place, poster_frame_image=picture(3), mime_type="video/mp4")
    assert not_read("a.pptx", made_files.bytes_of(presentation)) == [
        NotRead(PICTURE, 1, ("slide 1",)),
        NotRead(EMBEDDED, 1, ("slide 2",)),
        NotRead(RECORDING, 1, ("slide 2",)),
    ]


def test_pictures_and_macro_sheets_of_a_workbook(not_read):
    workbook = Workbook()
    workbook.active.append(["Pear", "3"])
    sheet = workbook.create_sheet("More")
    sheet.append(["Plum", "4"])
    sheet.add_image(SheetImage(picture()), "D4")
    content = made_files.with_part(made_files.bytes_of(workbook), "xl/macrosheets/sheet1.xml", b"<macrosheet/>")
    assert not_read("a.xlsx", content) == [NotRead(PICTURE, 1, ("sheet 2",)), NotRead(NotReadKind.SHEET, 1)]


def mail(*, number: int = 1) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@garden.example", "Pears"
    message.set_content("Prune them.")
    for each in range(number):
        message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename=f"secret-{each}.pdf")
    message.add_attachment(b"x", maintype="application", subtype="pgp-signature", filename="signature.asc")
    return message


def test_attachments_pictures_and_encrypted_parts_of_mail(not_read):
    assert not_read("a.eml", bytes(mail(number=2))) == []
    assert not_read.file_count == 2
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@garden.example", "Pears"
    message.set_content("Prune them.")
    message.add_alternative("<p>Prune them.<img src='cid:a'></p>", subtype="html")
    message.get_payload()[1].add_related(picture().read(), "image", "png", cid="<a>")
    message.add_attachment(b"x", maintype="application", subtype="pkcs7-mime", filename="smime.p7m")
    assert not_read("a.eml", bytes(message)) == [NotRead(PICTURE, 1), NotRead(ENCRYPTED, 1)]
    encrypted = parted("multipart/encrypted", "application/pgp-encrypted", "application/octet-stream")
    assert not_read("a.eml", f"Subject: Pears\n{encrypted}".encode()) == [NotRead(ENCRYPTED, 1)]


def parted(kind: str, *parts, level: int = 0) -> str:
    """Return a multipart part of a mail; each part is a type with further headers, or another multipart."""
    each = (
        parted(*part, level=level + 1) if isinstance(part, tuple) else f"Content-Type: {part}\n\nx" for part in parts
    )
    inside = "".join(f"--b{level}\n{part}\n" for part in each)
    return f"Content-Type: {kind}; boundary=b{level}\n\n{inside}--b{level}--\n"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([("multipart/alternative", "text/plain", "text/html"), "application/pgp-signature"], []),
        (["text/plain", "image/png\nContent-ID: <a>", "image/png"], [NotRead(PICTURE, 2)]),
        (["text/html", "image/png\nContent-Disposition: attachment"], 1),
        (["application/pkcs7-mime; smime-type=signed-data"], [NotRead(ENCRYPTED, 1)]),
        ([("multipart/encrypted", "application/pgp-encrypted", "application/octet-stream")], [NotRead(ENCRYPTED, 1)]),
        (["text/plain", "message/rfc822\n\nSubject: B\nContent-Type: image/png"], 1),
        ([("multipart/mixed", *["text/plain", "application/pdf", "application/pdf"])], 2),
    ],
)
@pytest.mark.parametrize("kind", ["mixed", "signed", "related"])
def test_each_part_of_a_mail_counts_once(not_read, kind, parts, told):
    content = parted(f"multipart/{kind}", *parts)
    left_out = not_read("a.eml", f"Subject: Pears\n{content}".encode())
    assert (left_out or not_read.file_count or []) == told


def test_attachments_of_a_mailbox_by_their_messages(not_read):
    line = b"From ann@garden.example Mon Jan  1 09:00:00 2024\n"
    mailbox = b"\n".join(line + bytes(mail(number=number)) for number in (0, 2, 1))
    assert not_read("a.mbox", mailbox) == [NotRead(ATTACHMENT, 3, ("message 2", "message 3"))]


def test_pictures_of_opendocument_and_rich_text(not_read):
    for name, content in (("a.odt", TEXT), ("a.odp", ODP)):
        pictures = made_files.with_part(content, "Pictures/a.png", picture().read())
        preview = made_files.with_part(pictures, "Thumbnails/thumbnail.png", picture().read())
        button = made_files.with_part(preview, "Configurations2/images/a.png", picture().read())
        root = made_files.part_of(content, "content.xml")
        text = re.sub(rb"(</[\w:-]+>\s*)\Z", rb'<draw:object-ole xmlns:draw="x"/>\1', root)
        embedded = made_files.with_part(button, "content.xml", text)
        assert not_read(name, made_files.with_part(embedded, "Media/a.mp4", b"x")) == [
            NotRead(PICTURE, 1),
            NotRead(EMBEDDED, 1),
            NotRead(RECORDING, 1),
        ]
    parts = rb"{\*\shppict{\pict\pngblip 8950}}{\nonshppict{\pict\wmetafile8 01}}{\object{\*\objdata 01}}"
    rtf = rb"{\rtf1 C:\\pictures \\pict" + parts + b"}"
    assert not_read("a.rtf", rtf) == [NotRead(PICTURE, 1), NotRead(EMBEDDED, 1)]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.pdf", made_files.pdf([("Pears", 12)]), []),
        ("a.docx", made_files.word(paragraphs=[("Normal", "Pears")]), []),
        ("a.pptx", made_files.slides(), []),
        ("a.xlsx", made_files.workbook(A=[["Pears"]]), []),
        ("a.eml", bytes(mail(number=0)), []),
        ("a.txt", b"Pears", []),
        ("a.csv", b"Tree,Tons\nPear,3", []),
        # Readers of other formats can't tell: what is unknown isn't told as nothing.
        ("a.md", b"# Pears\n![a](b.png)", None),
        ("a.html", b"<p>Pears<img src='b.png'>", None),
        ("a.xml", b"<a>Pears</a>", None),
        ("a.tex", b"Pears \\includegraphics{b}", None),
        ("a.rst", b"Pears\n\n.. image:: b.png", None),
        ("a.org", b"Pears\n[[./b.png]]", None),
    ],
)
def test_files_that_are_read_in_whole_tell_nothing(not_read, name, content, told):
    assert not_read(name, content) == told


def test_kinds_are_told_in_words():
    assert all(count_not_read(kind, 1) != count_not_read(kind, 1_000).replace("1,000", "1") for kind in NotReadKind)
    told = NotReadOnWire(kind=PAGE, count=7, where=["page 2", "page 7"])
    assert str(told) == "7 pages without a text layer (page 2, page 7)"
