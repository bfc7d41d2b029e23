# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# lxml has no types of its own.
"""XML of any kind: records become rows that name their fields, text with markup in it becomes paragraphs."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from lxml import etree

from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.failures import damaged_file, too_complex
from service.text.extraction.plain import refuse_size

_ROW_CHARACTERS = 4_000
_TITLES = frozenset({"title", "head", "heading"})
# Elements that stand apart from the text around them even where nothing is written between.
_APART = frozenset(
    ["p", "para", "title", "head", "li", "item", "entry", "row", "tr", "td", "th", "div", "cell", "note"]
)
# libxml2's XML_ERR_ENTITY_LOOP and XML_ERR_RESOURCE_LIMIT, and its errors of entities that only an outer file defines.
_LIMITS = frozenset({89, 114})
_UNDEFINED = frozenset({26, 27})
# White space before the declaration, which parsers refuse, with a byte order mark before it.
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?\s+")


def parse_xml(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the texts and attributes of an XML document in order, and return None: XML has no title of its own.

    Entities that the document defines are replaced, within libxml2's limits; nothing outside it is ever read.
    """
    refuse_size(data, builder)
    root = _root(_BEFORE.sub(b"", data, count=1))
    entities = _entities(root)
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        attributes = _attributes(element)
        if not _is_container(element):
            _add_text(element, entities, builder)
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


def _root(data: bytes) -> Any:
    try:
        return _parse(data, "internal")
    except etree.XMLSyntaxError as error:
        if error.code in _LIMITS:
            raise too_complex("The XML is nested too deeply, or one of its entities or texts is too long.") from error
        raise damaged_file("XML", error) from error


def _parse(data: bytes, resolve: Any) -> Any:
    try:
        # Comments and instructions aren't text.
        return etree.fromstring(
            data,
            etree.XMLParser(
                resolve_entities=resolve, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
            ),
        )
    except etree.XMLSyntaxError as error:
        if resolve and error.code in _UNDEFINED:
            return _parse(data, resolve=False)
        raise


def _entities(root: Any) -> Mapping[str, str]:
    """Return the plain texts of the entities that the document defines itself, by `&name;`."""
    dtd = root.getroottree().docinfo.internalDTD
    defined = dtd.iterentities() if dtd is not None else ()
    return {f"&{each.name};": each.content for each in defined if each.content and not {"&", "<"} & {*each.content}}


def _is_container(element: Any) -> bool:
    """Return whether an element holds elements alone, and no text between them."""
    between = (element.text, *(child.tail for child in element))
    blank = all(not text or text.isspace() for text in between)
    return blank and len(element) > 0 and all(child.tag is not etree.Entity for child in element)


def _is_record(element: Any) -> bool:
    """Return whether an element holds one value for each of several names."""
    names = [_name(child) for child in element]
    return len(set(names)) == len(names) > 1 and not any(len(child) for child in element)


def _fields(element: Any, entities: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the name and value of each element in a record; a value is text and attributes."""
    return [
        (_name(child), one_line(" ".join([_text(child, entities), *(value for _, value in _attributes(child))])))
        for child in element
    ]


def _attributes(element: Any) -> list[tuple[str, str]]:
    """Return an element's own attributes: those of a namespace (xml:lang, xsi:type) say how to read it, not what."""
    return [(name, one_line(value)) for name, value in element.attrib.items() if not name.startswith("{")]


def _row(fields: list[tuple[str, str]]) -> str:
    return " | ".join(f"{name}: {value}" for name, value in fields if value)


def _add_text(element: Any, entities: Mapping[str, str], builder: BlockBuilder) -> None:
    if _name(element) in _TITLES:
        builder.heading(_text(element, entities), 1 + sum(1 for _ in element.iterancestors()))
    else:
        builder.paragraph(_text(element, entities))


def _text(element: Any, entities: Mapping[str, str]) -> str:
    """Return all text of an element; entities that an outer file defines are read as HTML's are.

    Elements that follow each other with nothing between are separated by a space.
    """
    parts = [element.text or ""]
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if node is not element:
            follows = event == "start" and _is_next(node)
            apart = " " if follows or _name(node) in _APART or not (node.text or len(node)) else ""
            text = node.tail if event == "end" else node.text
            if event == "start" and node.tag is etree.Entity:
                text = entities.get(node.text) or _character(node.text)
            parts.append(apart + (text or ""))
    return "".join(parts)


def _is_next(node: Any) -> bool:
    """Return whether an element follows another one with nothing between them."""
    before = node.getprevious()
    return before is not None and not before.tail and etree.Entity not in {node.tag, before.tag}


def _character(entity: str) -> str:
    """Return the character of an entity such as `&nbsp;`, a space for one that HTML doesn't know."""
    character = unescape(entity)
    return " " if character == entity else character


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
