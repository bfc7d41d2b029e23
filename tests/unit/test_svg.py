# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# lxml has no types of its own.
"""SVG drawings: text is read in any containing file, and unreadable parts are reported."""

import base64
import zipfile
from email.message import EmailMessage

import pytest
from lxml import etree
from PIL import Image

from carrel.wire.formats import NotReadKind
from service.text.extraction import svg, within
from service.text.extraction.drawings import A, R
from service.text.extraction.failures import Unreadable
from tests import made_files
from tests.unit.test_pictures_within import book, opendocument, told, word, workbook

NAMES = 'xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink"'
SHOWN = (
    "<title>Plan of berths</title><desc>As built</desc><style>.a{}</style>"
    "<text x='1'>Harbour <tspan>nor</tspan>th<tspan x='3' y='9'>of Bergen</tspan></text>"
    "<switch><foreignObject><div xmlns='http://www.w3.org/1999/xhtml'>Boxed<br/>quay</div></foreignObject>"
    "<text>Fallback</text></switch>"
)
SAID = ("Plan of berths", "As built", "Harbour north of Bergen", "Boxed quay")
BITMAPS = "".join(
    f"<image x:href='data:image/png;base64,{base64.b64encode(made_files.picture('red', side)).decode()}'/>"
    for side in (40, 200, 190)
)
DRAWN = f"<svg {NAMES}>{SHOWN}</svg>"
EXPANDED = f"<svg {NAMES}><text>&k;</text></svg>"
SILENT = f"<svg {NAMES}><path d='M1 1'/></svg>"
DECLARED = f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY q "quay">]>{DRAWN.replace("quay", "&q;")}'
PREFIXED = (
    f'<?xml version="1.0"?>\n<!-- <html> --><!DOCTYPE v:svg [<!ENTITY n "{"n" * 2_000}">]><v:svg xmlns:v="s" {NAMES}>'
    f"{SHOWN}</v:svg>"
)
_BLIP = "http://schemas.microsoft.com/office/drawing/2016/SVG/main"
UNDEFINED = f"<!DOCTYPE svg SYSTEM 'svg.dtd'><svg {NAMES}><switch>&dots;<text>Tide</text></switch></svg>"
NESTED = f"<p>Words in a row</p><svg>{'<switch>' * 900}<text>Tide</text>{'</switch>' * 900}</svg>"
QUOTED = DRAWN.replace('"', "'")


def office(content: bytes, part: str, drawing: str) -> bytes:
    folder, _, name = part.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    known = made_files.part_of(content, relations)
    tree = etree.fromstring(made_files.part_of(content, part))
    *_, blip = tree.iter(f"{A}blip")
    blip.append(etree.fromstring(f'<s:svgBlip xmlns:s="{_BLIP}" xmlns:r="{R[1:-1]}" r:embed="rSvg"/>'))
    target = "media/drawing.svg" if folder == "word" else "../media/drawing.svg"
    added = (
        '<Relationship Id="rSvg" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" '
        f'Target="{target}"/></Relationships>'
    ).encode()
    default = b'<Default Extension="svg" ContentType="image/svg+xml"/><Default '
    types = "[Content_Types].xml"
    for entry, data in {
        part: etree.tostring(tree),
        relations: known.replace(b"</Relationships>", added),
        types: made_files.part_of(content, types).replace(b"<Default ", default, 1),
        f"{folder.partition('/')[0]}/media/drawing.svg": drawing.encode(),
    }.items():
        content = made_files.with_part(content, entry, data)
    return content


def open_document(drawing: str, *, times: int = 1) -> bytes:
    root = made_files.part_of(opendocument(), "content.xml")
    image = b'<draw:image xlink:href="Pictures/1.png"/>'
    forms = b'<draw:frame><draw:image xlink:href="Pictures/d.svg"/>' + image + b"</draw:frame>"
    return made_files.with_part(holding(drawing), "content.xml", root.replace(image, forms * times))


def holding(drawing: str) -> bytes:
    return made_files.with_part(opendocument(), "Pictures/d.svg", drawing.encode())


def deck(slides: int) -> bytes:
    content = made_files.slides_of_pictures(Image.new("RGB", (200, 200), "red"))
    for number in range(1, slides + 1):
        content = office(content, f"ppt/slides/slide{number}.xml", DRAWN)
    return content


def e_book() -> bytes:
    page = made_files.part_of(book(), "c.xhtml")
    return made_files.with_part(book(), "c.xhtml", page.replace(b"</p>", f"</p><div>{DRAWN}</div>".encode()))


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Plans", "ada@example.com"
    message.set_content("Words")
    message.add_alternative('<p>Words</p><img src="cid:p">', subtype="html")
    message.add_attachment(DRAWN.encode(), maintype="image", subtype="svg+xml", cid="p", disposition="inline")
    return bytes(message)


def address_of(drawing: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}"


DATA = address_of(DRAWN)


@pytest.mark.parametrize(
    ("name", "content", "others"),
    [
        ("a.svg", DRAWN.encode(), {}),
        ("b.svg", DECLARED.encode(), {}),
        ("c.svg", ("\ufeff" + DRAWN).encode("utf-16-le"), {}),
        ("unknown", DRAWN.encode(), {}),
        ("prefixed", PREFIXED.encode(), {}),
        ("a.docx", lambda: office(word(), "word/document.xml", DRAWN), {NotReadKind.PICTURE: 3}),
        ("a.pptx", lambda: deck(1), {NotReadKind.PICTURE: 5}),
        ("a.xlsx", lambda: office(workbook(), "xl/drawings/drawing1.xml", DRAWN), {NotReadKind.PICTURE: 3}),
        ("a.odt", open_document(DRAWN), {NotReadKind.PICTURE: 3}),
        ("a.epub", e_book(), {NotReadKind.PICTURE: 4}),
        ("a.html", f"<p>Words in a row</p><div>{DRAWN}</div>".encode(), None),
        ("b.html", f"<p>Words in a row</p><img src='{DATA}'>".encode(), None),
        ("c.html", f'<p>Words in a row</p><img src="data:image/svg+xml;utf8,{QUOTED}">'.encode(), None),
        ("a.md", f"Words\n\n![Plan]({DATA})".encode(), None),
        ("a.eml", mail(), {}),
        ("a.mbox", b"From ada@example.com Thu Nov 26 10:00:00 2026\n" + mail(), {}),
    ],
)
def test_text_of_drawings_is_read_unasked(extract, name, content, others):
    found = extract(name, content if isinstance(content, bytes) else content())
    text = " ".join(" ".join(block.text for block in found.blocks).split())
    assert [text.count(line) for line in SAID[1:]] == [1, 1, 1]
    assert SAID[0] in text
    assert "Fallback" not in text
    assert told(found) == others


@pytest.mark.parametrize(
    "content",
    [
        f"<?xml version='1.0'?><report><p>Tide tables</p>{DRAWN}</report>",
        f"<?xml version='1.0'?><!-- <svg> --><report><p>Tide tables</p>{DRAWN}</report>",
        f"<?xml version='1.0'?><!DOCTYPE report [<!ENTITY a '<svg/>'>]><report><p>Tide tables</p>{DRAWN}</report>",
        "<?xml version='1.0'?><svgs><p>Tide tables</p></svgs>",
    ],
)
def test_xml_with_a_drawing_in_it_is_xml(extract, content):
    """Without a telling file name, only the first element makes a drawing."""
    found = extract("report", content.encode())
    assert found.media_type == "application/xml"
    assert "Tide tables" in " ".join(block.text for block in found.blocks)


@pytest.mark.parametrize(
    ("name", "showing"), [("a.pptx", deck), ("a.odt", lambda times: open_document(DRAWN, times=times))]
)
def test_a_drawing_that_is_shown_often_costs_no_more(extract, monkeypatch, name, showing):
    done: list[str] = []
    parse, unpack = svg.parse_markup, zipfile.ZipFile.open

    def count_parsed(data: bytes):
        done.append("parsed")
        return parse(data)

    def count_unpacked(archive: zipfile.ZipFile, entry, *rest, **options):
        if str(entry).endswith(".svg"):
            done.append("unpacked")
        return unpack(archive, entry, *rest, **options)

    monkeypatch.setattr(svg, "parse_markup", count_parsed)
    monkeypatch.setattr(zipfile.ZipFile, "open", count_unpacked)
    counts: list[list[str]] = []
    for content in (showing(1), showing(3)):
        done.clear()
        assert " ".join(block.text for block in extract(name, content).blocks).count("As built") == 1
        counts.append(sorted(done))
    assert counts[0] == counts[1]
    assert counts[0].count("parsed") == 2


@pytest.mark.parametrize(
    ("name", "whole", "content"),
    [("a.docx", word(), office(word(), "word/document.xml", SILENT)), ("a.odt", opendocument(), open_document(SILENT))],
)
def test_a_drawing_without_text_is_read_as_the_bitmap_beside_it(extract, name, whole, content):
    """Letters drawn as lines need text recognition of the bitmap; both are a single picture."""
    for finds in (False, True):
        wanted, found = (extract(name, each, finds_pictures=finds) for each in (whole, content))
        assert (told(found), len(found.pictures)) == (told(wanted), len(wanted.pictures))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.svg", UNDEFINED.encode()),
        ("a.docx", office(word(), "word/document.xml", UNDEFINED)),
        ("a.odt", open_document(UNDEFINED)),
        ("a.html", f"<p>Words in a row</p><img src='{address_of(UNDEFINED)}'>".encode()),
        ("b.html", NESTED.encode()),
    ],
)
def test_alternatives_cost_no_file_its_text(texts, name, content):
    assert "Tide" in " ".join(texts(name, content))


def test_bitmaps_within_a_drawing_are_told_or_read(extract, tmp_path):
    found = extract("a.svg", f"<svg {NAMES}>{SHOWN}{BITMAPS}</svg>".encode(), finds_pictures=True)
    assert told(found) == {NotReadKind.PICTURE: 2}
    path, kind = tmp_path / "file", found.media_type
    shown = [within.read_picture(path, media_type=kind, address=each.address) for each in found.pictures]
    assert shown == [made_files.picture("red")]


@pytest.mark.parametrize(
    ("drawing", "code"),
    [
        (made_files.LAUGHS + EXPANDED, "file_too_complex"),
        (f"<svg {NAMES}>" + "<g>" * 60_000, "file_too_complex"),
        (DRAWN[:-9], "file_corrupt"),
        ("words alone", "file_corrupt"),
        ("<html><svg/></html>", "file_corrupt"),
        (SILENT, "file_without_text"),
        (
            f"<!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/hosts'>]>{EXPANDED.replace('&k;', '&x;')}",
            "file_without_text",
        ),
    ],
)
def test_hostile_drawings_are_refused_alone_and_told_within_files(extract, monkeypatch, drawing, code):
    with pytest.raises(Unreadable) as refused:
        extract("a.svg", drawing.encode())
    assert refused.value.code == code
    assert told(extract("a.odt", holding(drawing))) == {NotReadKind.PICTURE: 5}
    monkeypatch.setattr(svg, "to_drawing", None)
    assert told(extract("a.odt", holding(DRAWN))) == {NotReadKind.PICTURE: 5}
