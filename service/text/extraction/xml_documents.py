# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""XML of any kind: records become rows with field names; text with inner markup becomes paragraphs."""

from collections.abc import Mapping
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.markup import character_of, local_name, parse_markup
from service.text.extraction.plain import refuse_size

_ROW_CHARACTERS = 4_000
_TITLES = frozenset({"title", "head", "heading"})
# Elements that end the text before them even without white space.
_APART = frozenset(
    ["p", "para", "title", "head", "li", "item", "entry", "row", "tr", "td", "th", "div", "cell", "note"]
)


def parse_xml(data: bytes, builder: BlockBuilder) -> str | None:
    """Add an XML document's texts and attributes, with internal entities replaced; return None: XML has no title."""
    refuse_size(data, builder)
    root = parse_markup(data)
    dtd = root.getroottree().docinfo.internalDTD
    defined = [each for each in dtd.iterentities() if each.content] if dtd is not None else []
    entities = {f"&{each.name};": each.content for each in defined if not {"&", "<"} & {*each.content}}
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        attributes = _attributes(element)
        if not _is_container(element):
            text = _text(element, entities)
            if local_name(element) in _TITLES:
                builder.heading(text, 1 + sum(1 for _ in element.iterancestors()))
            else:
                builder.paragraph(text)
            inside = (pair for each in element.iterdescendants("*") for pair in _attributes(each))
            builder.table_row(_row([*dict.fromkeys([*attributes, *inside])]))
            walk.skip_subtree()
            continue
        record = _row([*attributes, *_fields(element, entities)]) if _is_record(element) else ""
        if record and len(record) <= _ROW_CHARACTERS:
            builder.table_row(record)
            walk.skip_subtree()
        else:
            builder.table_row(_row(attributes))


def _is_container(element: Any) -> bool:
    between = (element.text, *(child.tail for child in element))
    blank = all(not text or text.isspace() for text in between)
    return blank and len(element) > 0 and all(child.tag is not etree.Entity for child in element)


def _is_record(element: Any) -> bool:
    names = [local_name(child) for child in element]
    return len(set(names)) == len(names) > 1 and not any(len(child) for child in element)


def _fields(element: Any, entities: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (local_name(child), one_line(" ".join([_text(child, entities), *(value for _, value in _attributes(child))])))
        for child in element
    ]


def _attributes(element: Any) -> list[tuple[str, str]]:
    """Return an element's attributes, except namespaced (xml:lang, xsi:type), meant only for readers."""
    return [(name, one_line(value)) for name, value in element.attrib.items() if not name.startswith("{")]


def _row(fields: list[tuple[str, str]]) -> str:
    return " | ".join(f"{name}: {value}" for name, value in fields if value)


def _text(element: Any, entities: Mapping[str, str]) -> str:
    """Return all text of an element, with a space between adjacent elements. External entities are read as HTML's."""
    parts = [element.text or ""]
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if node is not element:
            follows = event == "start" and _is_next(node)
            apart = " " if follows or local_name(node) in _APART or not (node.text or len(node)) else ""
            text = node.tail if event == "end" else node.text
            if event == "start" and node.tag is etree.Entity:
                text = entities.get(node.text) or character_of(node.text)
            parts.append(apart + (text or ""))
    return "".join(parts)


def _is_next(node: Any) -> bool:
    before = node.getprevious()
    return before is not None and not before.tail and etree.Entity not in {node.tag, before.tag}
