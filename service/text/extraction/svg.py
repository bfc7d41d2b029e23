# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""Web drawings (SVG): the lines of their texts, titles and descriptions, and the largest picture within."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction.markup import character_of, local_name, parse_markup
from service.text.extraction.metafiles import Drawing, read_metafile
from service.text.extraction.picture_sizes import is_legible

# A larger drawing is a map or a traced scan; its tree would exhaust a worker's memory.
_MOST_BYTES, _HEAD = 16 << 20, 4_096
_PIXELS = 100_000_000
# HTML parsers write element names in lower case.
_UNSEEN = frozenset({"style", "script", "metadata"})
_SPEAKING = frozenset({"title", "desc", "text", "foreignobject", "flowroot"})
# Separately placed pieces of a text, and the coordinates that place them.
_PLACED, _PLACES = frozenset({"tspan", "altglyph"}), ("x", "y")
_LINES = frozenset({"flowpara", "flowline", "div", "p", "br", "li", "td", "th", "h1", "h2", "h3", "h4"})
_ADDRESS = re.compile(rb"data:image/svg\+xml[^,\"'<>()\s]{0,80},(?:<svg[^\"]+|[^\"'<>()\s]+)", re.IGNORECASE)


def read_drawing(content: bytes) -> Drawing | None:
    """Return the content of an EMF, WMF or SVG within a file; None if another format, damaged or too large."""
    try:
        return read_metafile(content) or _read_svg(content)
    except Exception:  # noqa: BLE001 - whatever is wrong with a drawing, the file that holds it is read
        return None


def _read_svg(content: bytes) -> Drawing | None:
    if len(content) > _MOST_BYTES or not is_svg(content):
        return None
    root = parse_markup(content)
    return to_drawing(root) if local_name(root) == "svg" else None


def is_svg(content: bytes) -> bool:
    """Return whether the first bytes of a file may begin an SVG drawing."""
    # Without its mark and NULs, UTF-16 reads like ASCII.
    head = content[:_HEAD].replace(b"\0", b"").lstrip(b"\xff\xfe\xef\xbb\xbf \t\r\n")
    return head.startswith(b"<") and b"svg" in head


def find_drawings(data: bytes) -> Iterator[bytes]:
    return (_decode(found[0].decode("latin-1")) for found in _ADDRESS.finditer(data))


def to_drawing(root: Any) -> Drawing:
    """Return the lines of a tree, each once, the largest of its pictures, and the number of the others."""
    lines = tuple(dict.fromkeys(find_lines(root)))
    pictures = sorted(
        (picture for picture in _pictures(root) if picture[0] is not False), key=lambda one: (bool(one[0]), len(one[1]))
    )
    bitmap = pictures.pop()[1] if pictures and pictures[-1][0] else b""
    return Drawing(lines, bitmap, len(pictures))


def find_lines(root: Any) -> Iterator[str]:
    """Yield the texts, titles and descriptions of a drawing in order; of alternatives, the first with text."""
    # No recursion, because a page may nest alternatives deeper than Python's call stack.
    decided: set[Any] = set()
    before: dict[Any, int] = {}
    count = 0
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        above = element.getparent()
        switch = above if above is not None and local_name(above).lower() == "switch" else None
        if event == "end":
            if before.pop(element, count) < count:
                decided.add(switch)
            continue
        name = local_name(element).lower()
        if switch in decided or name in _UNSEEN:
            walk.skip_subtree()
            continue
        if switch is not None:
            before[element] = count
        if name in _SPEAKING:
            if line := " ".join(_text(element).split()):
                count += 1
                yield line
            walk.skip_subtree()


def _text(element: Any) -> str:
    parts = [element.text or ""]
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, node in walk:
        if node is element:
            continue
        name = local_name(node).lower()
        is_start = event == "start"
        is_placed = is_start and name in _PLACED and any(node.get(place) for place in _PLACES)
        if is_placed or name in _LINES:
            parts.append(" ")
        if is_start and name in _UNSEEN:
            walk.skip_subtree()
        elif is_start and node.tag is etree.Entity:
            parts.append(character_of(node.text))
        else:
            parts.append((node.text if is_start else node.tail) or "")
    return "".join(parts)


def _pictures(root: Any) -> Iterator[tuple[bool | None, bytes]]:
    for element in root.iter(etree.Element):
        if local_name(element).lower() == "image":
            for name, value in element.items():
                if name.endswith("href") and value.lstrip().startswith("data:"):
                    content = _decode(value)
                    yield is_legible(content, pixels=_PIXELS), content


def _decode(address: str) -> bytes:
    head, _, data = address.partition(",")
    content = unquote_to_bytes(data)
    try:
        return base64.b64decode(content) if head.rstrip().endswith(";base64") else content
    except (binascii.Error, ValueError):
        return b""
