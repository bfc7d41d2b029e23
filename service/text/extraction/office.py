# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false, reportUnknownParameterType=false
# The XML that python-docx and python-pptx hand out is untyped.
"""Word documents and presentations, read from XML that is parsed with entities off and no network."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.document import Document
from lxml import etree
from pptx import Presentation
from pptx.exc import PackageNotFoundError

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import damaged_file, too_complex
from service.text.extraction.tabular import TableWriter

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PARAGRAPH, _TABLE, _ROW, _CELL = (_WORD + name for name in ("p", "tbl", "tr", "tc"))
_TEXT = _WORD + "t"
_SPACES = {_WORD + "tab": "\t", _WORD + "br": " ", _WORD + "cr": " ", _WORD + "noBreakHyphen": "-", _PARAGRAPH: " "}
_HEADING_STYLE = re.compile(r"heading ([1-9])", re.IGNORECASE)
_WRAPPERS = frozenset(_WORD + name for name in ("sdt", "sdtContent", "customXml", "ins", "smartTag", "moveTo"))
_NO_TITLES = ("untitled", "powerpoint presentation", "presentation", "word document", "document")


def parse_docx(path: Path, builder: BlockBuilder) -> str | None:
    """Add a Word document's headings, paragraphs, tables and footnotes; changes are read as accepted."""
    try:
        document = docx.Document(str(path))
    except (KeyError, ValueError, etree.XMLSyntaxError) as error:
        raise damaged_file("a Word document", error) from error
    styles = _heading_levels(document)
    for element in _flow(document.element.body):
        if element.tag == _TABLE:
            _add_word_table(element, builder)
        else:
            _add_word_paragraph(element, styles, builder)
    _add_footnotes(document, builder)
    return usable_title(document.core_properties.title)


def parse_pptx(path: Path, builder: BlockBuilder) -> str | None:
    """Add a presentation's slides, each under its title, with tables and speaker notes; pages are slide numbers."""
    try:
        slides = Presentation(str(path))
    except (KeyError, ValueError, PackageNotFoundError, etree.XMLSyntaxError) as error:
        raise damaged_file("a presentation", error) from error
    if len(slides.slides) > builder.limits.pages:
        raise too_complex(f"The presentation has more than {builder.limits.pages:,} slides.")
    for number, slide in enumerate(slides.slides, start=1):
        _add_slide(slide, number, builder)
    return usable_title(slides.core_properties.title)


def usable_title(title: str | None) -> str | None:
    """Return a document's own title; None when it is one that a program writes by default."""
    text = (title or "").strip()
    return None if not text or text.lower() in _NO_TITLES else text


def _heading_levels(document: Document) -> dict[str, int]:
    """Return the heading level of every paragraph style that has one, 0 for tables of contents, which are left out."""
    levels: dict[str, int] = {}
    for style in document.styles.element.iter(_WORD + "style"):
        name = style.find(_WORD + "name")
        value = (name.get(_WORD + "val") or "").lower() if name is not None else ""
        heading = _HEADING_STYLE.fullmatch(value)
        outline = style.find(f"{_WORD}pPr/{_WORD}outlineLvl")
        identity = style.get(_WORD + "styleId") or ""
        if value.startswith("toc ") or value == "table of figures":
            levels[identity] = 0
        elif heading or value == "title":
            levels[identity] = int(heading[1]) if heading else 1
        elif outline is not None and (outline.get(_WORD + "val") or "9") in "012345678":
            levels[identity] = int(outline.get(_WORD + "val")) + 1
    return levels


def _flow(container: Any) -> Iterator[Any]:
    """Yield paragraphs and tables in order, also those in content controls and accepted insertions."""
    stack = [iter(container)]
    while stack:
        for element in stack[-1]:
            if element.tag in {_PARAGRAPH, _TABLE}:
                yield element
            elif element.tag in _WRAPPERS:
                stack.append(iter(element))
                break
        else:
            stack.pop()


def _add_word_paragraph(paragraph: Any, styles: dict[str, int], builder: BlockBuilder) -> None:
    properties = paragraph.find(_WORD + "pPr")
    style = properties.find(_WORD + "pStyle") if properties is not None else None
    level = styles.get(style.get(_WORD + "val") or "") if style is not None else None
    text = _word_text(paragraph)
    if level == 0 or not text.strip():
        return
    if level is not None:
        builder.heading(text, level)
    else:
        is_item = properties is not None and properties.find(_WORD + "numPr") is not None
        builder.paragraph("- " + text if is_item else text)


def _word_text(element: Any) -> str:
    """Return the text below an element, a text box only once (its second copy is a fallback for old programs)."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start",))
    for _, node in walk:
        if node.tag == _TEXT:
            parts.append(node.text or "")
        elif node.tag == _FALLBACK:
            walk.skip_subtree()
        elif node.tag in _SPACES:
            parts.append(_SPACES[node.tag])
    return "".join(parts)


def _add_word_table(table: Any, builder: BlockBuilder) -> None:
    writer = TableWriter(builder)
    for row in table.iterchildren(_ROW):
        marked = row.find(f"{_WORD}trPr/{_WORD}tblHeader") is not None
        writer.row([_word_text(cell) for cell in row.iterchildren(_CELL)], header=marked)
    writer.close()


def _add_footnotes(document: Document, builder: BlockBuilder) -> None:
    for relation in document.part.rels.values():
        if relation.is_external or not relation.reltype.endswith(("/footnotes", "/endnotes")):
            continue
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        for note in etree.fromstring(relation.target_part.blob, parser):
            if note.get(_WORD + "type") in {None, "normal"}:
                builder.paragraph(_word_text(note))


def _add_slide(slide: Any, number: int, builder: BlockBuilder) -> None:
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        builder.heading(title.text_frame.text, 1, page=number)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame:
            for paragraph in shape.text_frame.paragraphs:
                builder.paragraph(paragraph.text, page=number)
        elif shape.has_table:
            writer = TableWriter(builder, page=number)
            for row in shape.table.rows:
                writer.row([cell.text for cell in row.cells])
            writer.close()
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        builder.paragraph(slide.notes_slide.notes_text_frame.text, page=number)


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield the shapes of a slide in order, those in groups included."""
    stack = [iter(shapes)]
    while stack:
        for shape in stack[-1]:
            if hasattr(shape, "shapes"):
                stack.append(iter(shape.shapes))
                break
            yield shape
        else:
            stack.pop()
