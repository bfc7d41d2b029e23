# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""Features common to Word, PowerPoint and Excel files: shapes, charts, diagrams (SmartArt) and comments."""

import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder
from service.text.extraction.cells import GENERAL, show_number
from service.text.extraction.failures import damaged_file
from service.text.extraction.markup import local_name
from service.text.extraction.packages import choose_form, note_entry
from service.text.extraction.tabular import TableWriter

_SCHEMAS = "{http://schemas.openxmlformats.org/"
A = _SCHEMAS + "drawingml/2006/main}"
_CHART = _SCHEMAS + "drawingml/2006/chart}"
_DIAGRAM = _SCHEMAS + "drawingml/2006/diagram}"
R = _SCHEMAS + "officeDocument/2006/relationships}"
FALLBACK = _SCHEMAS + "markup-compatibility/2006}Fallback"
TEXTS = frozenset({A + "t", _SCHEMAS + "officeDocument/2006/math}t"})  # text, and text of equations
_BREAKS = {A + "br": " ", A + "p": " "}
_PICTURES = (A + "blip", "{urn:schemas-microsoft-com:vml}imagedata")
_SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}svgBlip"
_DESCRIBED = ("{*}docPr", "{*}cNvPr", "{urn:schemas-microsoft-com:vml}shape")
# Programs use a picture's file name, or the word "picture", as its description.
_FILE_NAME = re.compile(r".*\.(?:png|jpe?g|gif|bmp|tiff?|[ew]mf|svg|webp)\s*|(?:picture|image)?[\s\d]*", re.IGNORECASE)
_FILMS = (A + "videoFile", A + "audioFile", A + "wavAudioFile", A + "quickTimeFile")
_LEFT_OUT = {
    **dict.fromkeys(("oleObject", "package"), NotReadKind.EMBEDDED),
    **dict.fromkeys(("video", "audio", "media"), NotReadKind.RECORDING),
}
_COMMENTS = frozenset({"comment", "cm", "threadedComment", "reply"})
# Excel writes this into the copy of a comment for older programs.
_COPY = "[Threaded comment]"
# In headers and footers of sheets: codes for fonts, dates and page numbers.
_PRINT_CODE = re.compile(r'&(?:"[^"]*"|K[\dA-F]{6}|\d+|[A-Z])')

_NUMBERS = frozenset({_CHART + "numCache", _CHART + "numLit"})


def read_part(blob: bytes) -> Any:
    """Return the root of a part of an Office file, parsed with entities off and no network."""
    try:
        return etree.fromstring(blob, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise damaged_file("an Office document", error) from error


def texts(
    element: Any,
    wanted: Collection[str],
    breaks: Mapping[str, str | Callable[[Any], str]],
    dropped: Collection[str],
    *,
    apart: Collection[str] = (),
) -> str:
    """Return the wanted texts below an element, with breaks, without dropped elements, and with `apart` separated."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, node in walk:
        if event == "end":
            if node.tag in apart:
                parts.append(" ")
        elif node.tag in wanted:
            parts.append(node.text or "")
        elif node.tag in dropped:
            walk.skip_subtree()
        elif node.tag in breaks:
            shown = breaks[node.tag]
            parts.append(shown if isinstance(shown, str) else shown(node))
    return "".join(parts)


def paragraph_texts(element: Any) -> Iterator[str]:
    """Yield the text of each paragraph in the shapes below an element, including equations."""
    walk = etree.iterwalk(element, events=("start",))
    for _, node in walk:
        if node.tag == FALLBACK:
            walk.skip_subtree()
        elif node.tag == A + "p":
            yield texts(node, TEXTS, _BREAKS, {FALLBACK}).strip()
            walk.skip_subtree()


def note_pictures(
    root: Any,
    builder: BlockBuilder,
    label: str = "",
    *,
    archive: zipfile.ZipFile,
    names: Callable[[str], str | None],
    known: set[str],
    page: int | None = None,
) -> None:
    """Add alternative texts, and record new pictures (`names`: of entries); previews of objects give only text."""
    described = (node.get("descr") or node.get("alt") or "" for node in root.iter(*_DESCRIBED))
    builder.paragraphs((text for text in dict.fromkeys(described) if not _FILE_NAME.fullmatch(text)), page=page)
    for node in root.iter(*_PICTURES):
        links = (each.get(R + "embed") or each.get(R + "id") for each in (node, *node.iter(_SVG)))
        forms = [name for link in links if link and (name := names(link)) is not None]
        if forms and (name := choose_form(archive, forms, builder)) not in known:
            note_entry(archive, name, builder, label, page=page, is_preview=_stands_for(node))
        known.update(forms)


def leave_out_related(relations: Iterable[tuple[str, str]], builder: BlockBuilder, label: str = "") -> None:
    """Record the objects and recordings among a part's relations, given by kind and name."""
    found = {(_LEFT_OUT[kind], target) for kind, target in relations if kind in _LEFT_OUT}
    for kind, _ in found:
        builder.leave_out(kind, label)


def _stands_for(picture: Any) -> bool:
    if any(local_name(node) in {"object", "oleObj"} for node in picture.iterancestors()):
        return True
    frame = next(picture.iterancestors("{*}pic"), None)
    return frame is not None and next(frame.iter(*_FILMS), None) is not None


def find_graphics(element: Any) -> Iterator[str]:
    for node in element.iter(_CHART + "chart", _DIAGRAM + "relIds"):
        relation = node.get(R + "id") or node.get(R + "dm")
        if relation:
            yield relation


def add_graphic(blob: bytes, builder: BlockBuilder, *, page: int | None = None) -> None:
    root = read_part(blob)
    if root.tag != _CHART + "chartSpace":
        builder.paragraphs(paragraph_texts(root), page=page)
        return
    for title in root.iter(_CHART + "title"):
        builder.paragraph(" ".join(paragraph_texts(title)) or _join_values(title), page=page)
    for plot in root.iter(_CHART + "plotArea"):
        _add_chart_data(plot, builder, page)


def comment_texts(root: Any) -> Iterator[str]:
    for comment in root.iter():
        if local_name(comment) in _COMMENTS:
            text = "".join(_comment_pieces(comment)).strip()
            if text and not text.startswith(_COPY):
                yield text


def without_print_codes(text: str) -> str:
    return _PRINT_CODE.sub(" ", text)


def _comment_pieces(comment: Any) -> Iterator[str]:
    walk = etree.iterwalk(comment, events=("start",))
    for _, node in walk:
        name = local_name(node)
        if node is not comment and name in {*_COMMENTS, "rPh"}:
            walk.skip_subtree()
        elif name in {"t", "text"} and node.text:
            yield node.text
        elif name == "p":
            yield " "


def _add_chart_data(plot: Any, builder: BlockBuilder, page: int | None) -> None:
    series = list(plot.iter(_CHART + "ser"))
    names = [_join_values(each.find(_CHART + "tx")) for each in series]
    columns = [_read_points(each, "val", "yVal") for each in series]
    categories: dict[int, str] = {}
    for each in series:
        categories |= _read_points(each, "cat", "xVal")
    writer = TableWriter(builder, page=page)
    writer.row(["", *names], header=True)
    for index in sorted(categories.keys() | {index for column in columns for index in column}):
        writer.row([categories.get(index, ""), *(column.get(index, "") for column in columns)])
    writer.close()


def _read_points(series: Any, *names: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in names:
        for point in series.iterfind(f"{_CHART}{name}//{_CHART}pt"):
            index, text = point.get("idx") or "0", _join_values(point)
            if point.getparent().tag in _NUMBERS:
                form = point.get("formatCode") or point.getparent().findtext(_CHART + "formatCode") or GENERAL
                with suppress(ValueError):
                    text = show_number(float(text), form)
            if index.isdecimal() and text:
                found[int(index)] = f"{found[int(index)]} {text}" if int(index) in found else text
    return found


def _join_values(element: Any) -> str:
    return "" if element is None else " ".join(value.text or "" for value in element.iter(_CHART + "v"))
