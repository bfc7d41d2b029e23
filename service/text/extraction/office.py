# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# python-docx and python-pptx return untyped XML.
"""Word documents and presentations, read from XML parsed with entities off and no network."""

import io
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from email import message_from_bytes, policy
from functools import partial
from pathlib import Path
from typing import IO, Any

import docx
from docx.document import Document
from pptx import Presentation

from carrel.wire.formats import NotReadKind
from service.text.extraction import drawings, packages, symbols
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.decoding import decode
from service.text.extraction.drawings import FALLBACK, A
from service.text.extraction.failures import Unreadable, too_complex
from service.text.extraction.html_pages import add_html
from service.text.extraction.list_numbers import find_value, mark_list_items
from service.text.extraction.plain import parse_plain
from service.text.extraction.rtf import parse_rtf
from service.text.extraction.tabular import MOST_SPANNED, TableWriter

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_SLIDE = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_PARAGRAPH, _TABLE, _ROW, _CELL = (_WORD + name for name in ("p", "tbl", "tr", "tc"))


def _run_text(node: Any) -> str:
    """Return the text of a part of a run; symbol fonts show characters different from the file's."""
    text = node.text or ""
    if len(text) > 1 and text.isascii():
        return text
    font = node.getparent().find(f"{_WORD}rPr/{_WORD}rFonts") if node.getparent() is not None else None
    name = (font.get(_WORD + "ascii") or font.get(_WORD + "hAnsi") or "") if font is not None else ""
    return "".join(symbols.show(ord(each), name) for each in text)


def _symbol(node: Any) -> str:
    said = node.get(_WORD + "char") or ""
    number = int(said, 16) if re.fullmatch("[0-9A-Fa-f]{1,4}", said) else 0
    return symbols.show(number, node.get(_WORD + "font") or "")


def _check_box(box: Any) -> str:
    states = {each.tag: each.get(_WORD + "val", "1") for each in box}
    is_ticked = states.get(_WORD + "checked", states.get(_WORD + "default", "0")) in {"1", "true", "on"}
    return f"{symbols.BOXES[is_ticked]} "


def _read_choice(choices: Any) -> str:
    """Return the chosen entry of a drop-down list, and a space; empty without any."""
    entries = [each.get(_WORD + "val") or "" for each in choices.iter(_WORD + "listEntry")]
    said = find_value(choices, "result")
    number = int(said) if re.fullmatch("[0-9]{1,4}", said) else 0
    return f"{entries[number]} " if number < len(entries) else ""


_SPACES: Mapping[str, str | Callable[[Any], str]] = {
    **dict.fromkeys((_WORD + name for name in ("p", "tab", "br", "cr", "tc")), " "),
    _WORD + "noBreakHyphen": "-",
    _WORD + "sym": _symbol,
    _WORD + "checkBox": _check_box,
    _WORD + "ddList": _read_choice,
    _WORD + "t": _run_text,
}
# The second copy of a text box is for older programs; moved text is read at its new place.
_DROPPED = frozenset({FALLBACK, _WORD + "moveFrom"})
_REFERENCES = {_WORD + f"{kind}Reference": kind for kind in ("footnote", "endnote", "comment")}
_HEADING_STYLE = re.compile(r"heading ([1-9])", re.IGNORECASE)
_WRAPPERS = frozenset(
    [_WORD + name for name in ("sdt", "sdtContent", "customXml", "ins", "smartTag", "moveTo")]
    + [_COMPATIBILITY + name for name in ("AlternateContent", "Choice")]
)
_CHUNK, _DEEPEST_CHUNK, _MOST_CHUNKS = _WORD + "altChunk", 3, 500
_SHAPES = frozenset({_SLIDE + "sp", _SLIDE + "graphicFrame", _SLIDE + "cxnSp"})
_SLIDE_WRAPPERS = frozenset({_SLIDE + "grpSp", _COMPATIBILITY + "AlternateContent", _COMPATIBILITY + "Choice"})
# Repeated on many slides: read once; page numbers never.
_REPEATED = frozenset({"ftr", "hdr", "dt"})
_NUMBER_OR_PICTURE = frozenset({"sldNum", "sldImg"})


def parse_docx(path: Path | IO[bytes], builder: BlockBuilder, *, depth: int = 0) -> str | None:
    """Add a document's text, changes accepted: notes and charts follow paragraphs; headers and footers come last."""
    with packages.open_archive(path) as archive:
        try:
            document = packages.open_document(archive, docx.Document, "a Word document", builder)
            body = document.element.body
        except Unreadable:
            if not packages.add_plain_texts(archive, builder):
                raise
            return packages.read_title(archive)
        styles: dict[str, int] = {}
        with builder.refinement("styles of the document"):
            # If a file lacks styles, python-docx adds its own part here, which changes the document's relations.
            defined = document.styles.element
            styles = _heading_levels(defined)
            for _, numbering in _find_related(document.part, "numbering"):
                mark_list_items(body, numbering, defined)
        _add_flow(document, styles, archive, builder, depth)
        with builder.refinement("headers and footers"):
            headers = (
                one_line(_word_text(paragraph))
                for _, root in _find_related(document.part, "header", "footer")
                for paragraph in _flow(root, {_PARAGRAPH, _TABLE}, _WRAPPERS)
            )
            builder.paragraphs(dict.fromkeys(headers))
        drawings.leave_out_related(_targets(document.part), builder)
        return packages.read_title(archive)


def _add_flow(
    document: Document, styles: Mapping[str, int], archive: zipfile.ZipFile, builder: BlockBuilder, depth: int
) -> None:
    notes: dict[tuple[str, str], str] = {}
    with builder.refinement("notes and comments"):
        notes = _notes(document)
    entries, known = partial(_find_entry, document.part), set[str]()
    for element in _flow(document.element.body, {_PARAGRAPH, _TABLE, _CHUNK}, _WRAPPERS):
        if element.tag == _TABLE:
            _add_word_table(element, builder)
        elif element.tag == _PARAGRAPH:
            _add_word_paragraph(element, styles, builder)
        for reference in element.iter(*_REFERENCES):
            builder.paragraph(notes.pop((_REFERENCES[reference.tag], reference.get(_WORD + "id")), ""))
        with builder.refinement("charts and pictures"):
            _add_graphics(element, document.part, builder)
            drawings.note_pictures(element, builder, archive=archive, names=entries, known=known)
        for chunk in element.iter(_CHUNK):
            with builder.refinement("inserted documents"):
                _add_chunk(document.part.rels[chunk.get(drawings.R + "id")].target_part, builder, depth)
    builder.paragraphs(notes.values())


def _add_chunk(part: Any, builder: BlockBuilder, depth: int) -> None:
    """Add an embedded document of another format at its place in the text, without pictures."""
    data, kind = part.blob, part.content_type
    inner = BlockBuilder(replace(builder.limits, finds_pictures=False))
    if "html" in kind:
        add_html(decode(data), inner)
    elif any(word in kind for word in ("rfc822", "mime", "multipart")):
        body = message_from_bytes(data, policy=policy.default).get_body(("html", "plain"))
        add_html("" if body is None else body.get_content(), inner)
    elif "word" in kind and (depth == _DEEPEST_CHUNK or next(builder.inserted) >= _MOST_CHUNKS):
        inner.leave_out(NotReadKind.EMBEDDED)
    elif "word" in kind:
        packages.check_archive(io.BytesIO(data), inner.limits, whole=False)
        inner.inserted = builder.inserted
        parse_docx(io.BytesIO(data), inner, depth=depth + 1)
    elif "rtf" in kind:
        parse_rtf(data, inner)
    else:
        parse_plain(data, inner)
    for block in inner.blocks:
        builder.add(block)
    for rest in inner.not_read:
        builder.leave_out(rest.kind, count=rest.count)


def parse_pptx(path: Path, builder: BlockBuilder) -> str | None:
    """Add slides, each under its title, with tables, charts, notes and comments; pages are slide numbers."""
    with packages.open_archive(path) as archive:
        try:
            slides = packages.open_document(archive, Presentation, "a presentation", builder)
            identities = [each.rId for each in slides.element.iter(_SLIDE + "sldId")]
        except Unreadable:
            if not packages.add_plain_texts(archive, builder):
                raise
            return packages.read_title(archive)
        if len(identities) > builder.limits.pages:
            raise too_complex(f"The presentation has more than {builder.limits.pages:,} slides.")
        repeated: set[str] = set()
        masters: dict[int, Any] = {}
        for number, identity in enumerate(identities, start=1):
            with builder.refinement(f"slide {number}"):
                slide = slides.part.related_slide(identity)
                _add_slide(slide, number, repeated, archive, builder)
            with builder.refinement(f"layouts of slide {number}"):
                masters |= {id(each.part): each for each in (slide.slide_layout, slide.slide_layout.slide_master)}
        with builder.refinement("layouts of the presentation"):
            _add_masters(masters.values(), builder)
        return packages.read_title(archive)


def _heading_levels(styles: Any) -> dict[str, int]:
    """Return each paragraph style's heading level; 0 for tables of contents, which are left out."""
    levels: dict[str, int] = {}
    for style in styles.iter(_WORD + "style"):
        value = find_value(style, "name").lower()
        heading = _HEADING_STYLE.fullmatch(value)
        outline = find_value(style, "pPr", "outlineLvl")
        identity = style.get(_WORD + "styleId") or ""
        if value.startswith("toc ") or value == "table of figures":
            levels[identity] = 0
        elif heading or value == "title":
            levels[identity] = int(heading[1]) if heading else 1
        elif outline and outline in "012345678":
            levels[identity] = int(outline) + 1
    return levels


def _flow(container: Any, wanted: Collection[str], wrappers: Collection[str]) -> Iterator[Any]:
    """Yield wanted elements in order, also inside wrappers, but not inside each other."""
    stack = [iter(container)]
    while stack:
        for element in stack[-1]:
            if element.tag in wanted:
                yield element
            elif element.tag in wrappers:
                stack.append(iter(element))
                break
        else:
            stack.pop()


def _add_word_paragraph(paragraph: Any, styles: Mapping[str, int], builder: BlockBuilder) -> None:
    """Add a heading or a paragraph, except an entry of a table of contents."""
    style = find_value(paragraph, "pPr", "pStyle")
    level = styles.get(style) if style else None
    text = _word_text(paragraph)
    if level == 0 or not text.strip():
        return
    if level is not None:
        builder.heading(text, level)
    else:
        builder.paragraph(text)


def _word_text(element: Any) -> str:
    """Return the text below an element, including equations, with each text box only once."""
    return drawings.texts(element, drawings.TEXTS, _SPACES, _DROPPED, apart={_WORD + "txbxContent", _WORD + "rt"})


def _add_word_table(table: Any, builder: BlockBuilder) -> None:
    writer = TableWriter(builder)
    above: list[str] = []
    for row in _flow(table, {_ROW}, _WRAPPERS):
        marked = row.find(f"{_WORD}trPr/{_WORD}tblHeader") is not None
        above = _word_row(row, above)
        writer.row(above, header=marked)
    writer.close()


def _word_row(row: Any, above: Sequence[str]) -> list[str]:
    """Return a row's texts; a cell spanning several columns or rows is repeated in each."""
    texts: list[str] = []
    cells = list(_flow(row, {_CELL}, _WRAPPERS))
    for cell in cells:
        merged, said = cell.find(f"{_WORD}tcPr/{_WORD}vMerge"), find_value(cell, "tcPr", "gridSpan")
        text, column = _word_text(cell), len(texts)
        if merged is not None and merged.get(_WORD + "val") != "restart" and not text.strip() and column < len(above):
            text = above[column]
        texts += [text] * (min(max(int(said), 1), MOST_SPANNED) if re.fullmatch(r"[0-9]{1,9}", said) else 1)
    # A cell that fills its row appears once.
    return texts[:1] if len(cells) == 1 else texts


def _find_related(part: Any, *kinds: str) -> Iterator[tuple[str, Any]]:
    for relation in part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if kind in kinds and not relation.is_external:
            yield kind, drawings.read_part(relation.target_part.blob)


def _targets(part: Any) -> Iterator[tuple[str, str]]:
    for relation in part.rels.values():
        if not relation.is_external:
            yield relation.reltype.rpartition("/")[2], str(relation.target_part.partname)


def _find_entry(part: Any, identity: str) -> str | None:
    relation = part.rels.get(identity)
    return None if relation is None or relation.is_external else str(relation.target_part.partname).lstrip("/")


def _previews(part: Any) -> Iterator[str]:
    """Yield the entries with previews of a slide's objects, from the drawings for old programs."""
    for relation in part.rels.values():
        if relation.reltype.endswith("/vmlDrawing") and not relation.is_external:
            for kind, target in _targets(relation.target_part):
                if kind == "image":
                    yield target.lstrip("/")


def _notes(document: Document) -> dict[tuple[str, str], str]:
    return {
        (kind.removesuffix("s"), note.get(_WORD + "id") or ""): _word_text(note)
        for kind, root in _find_related(document.part, "footnotes", "endnotes", "comments")
        for note in root
        if note.get(_WORD + "type") in {None, "normal"}
    }


def _add_graphics(element: Any, part: Any, builder: BlockBuilder, *, page: int | None = None) -> None:
    for identity in drawings.find_graphics(element):
        relation = part.rels.get(identity)
        if relation is not None and not relation.is_external:
            drawings.add_graphic(relation.target_part.blob, builder, page=page)


def _add_slide(slide: Any, number: int, repeated: set[str], archive: zipfile.ZipFile, builder: BlockBuilder) -> None:
    title = slide.shapes.title
    if title is not None:
        builder.heading(" ".join(drawings.paragraph_texts(title.element)), 1, page=number)
    for shape in _flow(slide.shapes.element, _SHAPES, _SLIDE_WRAPPERS):
        if title is None or shape is not title.element:
            _add_shape(shape, slide.part, number, repeated, builder)
    label = f"slide {number}"
    with builder.refinement(f"pictures of {label}"):
        names, known = partial(_find_entry, slide.part), set[str]()
        drawings.note_pictures(
            slide.shapes.element, builder, label, archive=archive, names=names, known=known, page=number
        )
        for name in _previews(slide.part):
            packages.note_entry(archive, name, builder, label, page=number, is_preview=True)
        drawings.leave_out_related(_targets(slide.part), builder, label)
    with builder.refinement(f"notes of {label}"):
        for notes in [slide.notes_slide] if slide.has_notes_slide else []:
            for shape in _flow(notes.shapes.element, _SHAPES, _SLIDE_WRAPPERS):
                _add_shape(shape, notes.part, number, repeated, builder)
    with builder.refinement(f"comments of {label}"):
        for _, root in _find_related(slide.part, "comments"):
            builder.paragraphs(drawings.comment_texts(root), page=number)


def _add_masters(masters: Iterable[Any], builder: BlockBuilder) -> None:
    texts = (
        text
        for master in masters
        for shape in _flow(master.shapes.element, {_SLIDE + "sp", _SLIDE + "cxnSp"}, _SLIDE_WRAPPERS)
        if next(shape.iter(_SLIDE + "ph"), None) is None
        for text in drawings.paragraph_texts(shape)
    )
    builder.paragraphs(dict.fromkeys(texts))


def _add_shape(shape: Any, part: Any, number: int, repeated: set[str], builder: BlockBuilder) -> None:
    table = next(shape.iter(A + "tbl"), None)
    if table is not None:
        writer = TableWriter(builder, page=number)
        for row in table.iterchildren(A + "tr"):
            writer.row([" ".join(drawings.paragraph_texts(cell)) for cell in row.iterchildren(A + "tc")])
        writer.close()
        return
    place = next((each.get("type") for each in shape.iter(_SLIDE + "ph")), None)
    for text in drawings.paragraph_texts(shape):
        if (place in _REPEATED and text in repeated) or place in _NUMBER_OR_PICTURE:
            continue
        if place in _REPEATED:
            repeated.add(text)
        builder.paragraph(text, page=number)
    with builder.refinement(f"charts of slide {number}"):
        _add_graphics(shape, part, builder, page=number)
