"""Items of lists and headings have the numbers that programs show: in OpenDocument texts, and of Word 97."""

from pathlib import Path

from bench.extraction import OFFICE
from service.text.extraction.building import Limits
from service.text.extraction.parsing import parse_file
from tests import made_files

ODF = "urn:oasis:names:tc:opendocument:xmlns:"
NAMES = " ".join(f'xmlns:{name}="{ODF}{name}:1.0"' for name in ("office", "text", "style"))


def item(text: str, inner: str = "", **attributes: str) -> str:
    """Return an item of a list."""
    return f"<text:list-item {said(attributes)}><text:p>{text}</text:p>{inner}</text:list-item>"


def listed(*items: str, **attributes: str) -> str:
    """Return a list."""
    return f"<text:list {said(attributes)}>{''.join(items)}</text:list>"


def said(attributes: dict[str, str]) -> str:
    """Return attributes as they are written."""
    return " ".join(f'text:{name.replace("_", "-")}="{value}"' for name, value in attributes.items())


def level(
    number: int, form: str, *, kind: str = "list-level-style-number", suffix: str = ".", **attributes: str
) -> str:
    """Return a level of a list's style."""
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


def test_items_and_headings_have_their_numbers(tmp_path: Path) -> None:
    """Numbers go on where a list continues, begin anew elsewhere, and only the first paragraph of an item has one."""
    head = f'<office:document-content {NAMES} office:version="1.2"><office:automatic-styles>{STYLES}'
    plain = '<style:style style:name="Plain" style:list-style-name=""/></office:automatic-styles>'
    content = made_files.archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"{head}{plain}<office:body><office:text>{BODY}</office:text></office:body>"
            "</office:document-content>",
            "styles.xml": f"<office:document-styles {NAMES}><office:styles><text:outline-style>{OUTLINE}"
            "</text:outline-style></office:styles></office:document-styles>",
        }
    )
    blocks = parse_file(made_files.saved(tmp_path, "a.odt", content), "a.odt", Limits()).blocks
    assert [block.text for block in blocks] == SHOWN


def test_a_word_97_document_has_the_same_numbers() -> None:
    """LibreOffice made lists.doc from that text; it continues the list that begins anew there, and shows it so."""
    blocks = parse_file(OFFICE / "lists.doc", "lists.doc", Limits()).blocks
    assert [block.text for block in blocks] == ["4. anew" if line == "1. anew" else line for line in SHOWN]


def test_lists_that_are_damaged_cost_the_numbers_alone(tmp_path: Path) -> None:
    """Numbers of lists, of levels and of styles that are claimed lead nowhere, and the text is read."""
    content = (OFFICE / "lists.doc").read_bytes()
    main = content.index(b"\xec\xa5")
    for place in (0xA2, 0x2E2, 0x2EA):
        damaged = bytearray(content)
        damaged[main + place : main + place + 4] = b"\xff\xff\xff\x7f"
        found = parse_file(made_files.saved(tmp_path, "a.doc", bytes(damaged)), "a.doc", Limits())
        assert [block.text.rpartition(" ")[2] for block in found.blocks] == [line.rpartition(" ")[2] for line in SHOWN]
